// Stretches of time that figures are shown for: hours of a day, or days in the browser's time zone. Pure.

export const RANGES = [["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"], ["90d", "90 days"]];

// The moments between which figures are asked for, up to the end of the hour or day that is now. Days are cut where
// the clock says so, also where it is set forward or back.
export function edgesOf(range, nowMs) {
  const end = new Date(nowMs);
  end.setMinutes(0, 0, 0);
  if (range === "24h") {
    end.setHours(end.getHours() + 1);
    return Array.from({ length: 25 }, (_, place) => end.getTime() - (24 - place) * 3_600_000);
  }
  end.setHours(0);
  const days = Number.parseInt(range, 10);
  return Array.from({ length: days + 1 }, (_, place) =>
    new Date(end.getFullYear(), end.getMonth(), end.getDate() + 1 - days + place).getTime());
}

// How much GPU time there was in each stretch, up to now.
export function capacityOf(edges, gpus, nowMs) {
  return edges.slice(1).map((edge, place) => gpus * Math.max(0, Math.min(edge, nowMs) - edges[place]));
}

export function hours(ms) {
  const value = ms / 3_600_000;
  if (value > 0 && value < 0.05) return "<0.1";
  return value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(value >= 10 ? 0 : 1).replace(/\.0$/, "");
}

export function percent(part, whole) {
  if (!(whole > 0)) return "";
  return part > 0 && part < 0.005 * whole ? "<1 %" : `${Math.round((100 * part) / whole)} %`;
}

// The layers of stacked bars: the largest few by name, what is left as one, each with a value per stretch.
export function layersOf(found, most) {
  const named = found.filter(({ name }) => name).slice(0, most);
  const rest = found.filter((one) => !named.includes(one));
  const layers = named.map(({ name, gpu_ms }) => ({ name, values: gpu_ms }));
  if (rest.length) {
    const values = rest[0].gpu_ms.map((_, place) => rest.reduce((sum, one) => sum + one.gpu_ms[place], 0));
    if (values.some((one) => one > 0)) layers.push({ name: null, values });
  }
  return layers;
}
