// Pictures of a sweep: parallel coordinates, and a heat map of two parameters.

import { clear, h, hideTip, showTip, svg } from "./dom.js";
import { count, duration, fineDuration, valueText } from "./format.js";
import { label } from "./plot.js";

const SIZE = { width: 640, height: 300, top: 26, bottom: 22, side: 46 };
const MOST_LINES = 1500;

// A scale for the values of one parameter: by number if all are, else one place a value.
function scaleOf(values, from, to) {
  const numbers = values.filter((value) => value !== undefined && value !== null);
  if (numbers.length && numbers.every((value) => typeof value === "number")) {
    const low = Math.min(...numbers);
    const high = Math.max(...numbers);
    const wide = low > 0 && high / low >= 50; // Such values were meant by their magnitude.
    const place = wide ? Math.log : (value) => value;
    const span = place(high) - place(low) || 1;
    const at = (value) => from + ((place(value) - place(low)) / span) * (to - from);
    const marks = [...new Set(numbers)].sort((a, b) => a - b);
    const some = marks.length <= 8 ? marks : [low, high];
    return { at, marks: some.map((value) => [value, at(value)]) };
  }
  const known = [...new Set(numbers.map(valueText))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  const step = known.length > 1 ? (to - from) / (known.length - 1) : 0;
  const at = (value) => (known.length > 1 ? from + known.indexOf(valueText(value)) * step : (from + to) / 2);
  const marks = known.map((value, place) => [value, known.length > 1 ? from + place * step : (from + to) / 2]);
  return { at, marks: marks.length <= 12 ? marks : [marks[0], marks[marks.length - 1]] };
}

function shortened(words, most) {
  return words.length > most ? `${words.slice(0, most - 1)}…` : words;
}

// Only those of many that still give the picture.
function some(points) {
  if (points.length <= MOST_LINES) return points;
  const step = points.length / MOST_LINES;
  return Array.from({ length: MOST_LINES }, (_, place) => points[Math.floor(place * step)]);
}

export function parallel(box, points, names, ran) {
  clear(box);
  const { width, height, top, bottom, side } = SIZE;
  const axes = [...names.map((name) => [name, (point) => point.params[name]]),
    ["run time (s)", (point) => (ran(point) === null ? null : ran(point) / 1000)]];
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Each point as a line across its parameters" });
  const x = (place) => side + (axes.length > 1 ? (place / (axes.length - 1)) * (width - 2 * side) : 0);
  const scales = axes.map(([, value]) => scaleOf(points.map(value), height - bottom, top));
  const lines = svg("g", { class: "lines-across" });
  for (const point of some(points)) {
    const places = axes.map(([, value], place) => {
      const one = value(point);
      return one === null || one === undefined ? null : [x(place), scales[place].at(one)];
    });
    const d = places.filter(Boolean).map(([a, b], place) => `${place ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`)
      .join("");
    const line = svg("path", { d, "data-state": point.state, "data-id": point.id });
    line.addEventListener("pointermove", (event) => {
      line.classList.add("hot");
      line.parentNode.append(line);
      showTip(event, h("b", {}, `${point.id} ${point.state}`),
        ...Object.entries(point.params).filter(([name]) => names.includes(name))
          .map(([name, value]) => h("div", {}, `${name} = ${valueText(value)}`)),
        ran(point) === null ? "" : h("div", {}, `ran ${duration(ran(point))}`));
    });
    line.addEventListener("pointerleave", () => {
      line.classList.remove("hot");
      hideTip();
    });
    line.addEventListener("click", () => {
      location.hash = `#/job/${point.id}`;
    });
    lines.append(line);
  }
  picture.append(lines);
  axes.forEach(([name], place) => {
    const at = x(place);
    const anchor = place === 0 ? "start" : place === axes.length - 1 ? "end" : "middle";
    picture.append(svg("line", { class: "axis", x1: at, x2: at, y1: top, y2: height - bottom }));
    picture.append(label(place === 0 ? 4 : place === axes.length - 1 ? width - 4 : at, 14, shortened(name, 16), anchor,
      { class: "name" }));
    for (const [value, y] of scales[place].marks) {
      const words = typeof value === "number" ? Number(value.toPrecision(4)) : value;
      const last = place === axes.length - 1;
      picture.append(label(last ? at - 5 : at + 5, y + 4, shortened(String(words), 9), last ? "end" : "start",
        { class: "mark" }));
    }
  });
  box.append(picture);
}

export function heatMap(box, points, across, down, measure, ran) {
  clear(box);
  if (across === down) {
    box.append(h("p", { class: "dim" }, "Choose two different parameters."));
    return;
  }
  const values = (name) => {
    const known = new Map(points.filter((point) => name in point.params)
      .map((point) => [valueText(point.params[name]), point.params[name]]));
    return [...known].sort(([a, x], [b, y]) =>
      (typeof x === "number" && typeof y === "number" ? x - y : a.localeCompare(b, undefined, { numeric: true })))
      .map(([key]) => key);
  };
  const columns = values(across);
  const rows = values(down);
  if (columns.length * rows.length > 2500) {
    box.append(h("p", { class: "dim" }, `${columns.length} by ${rows.length} values are too many to be told apart.`));
    return;
  }
  const cells = new Map();
  for (const point of points) {
    if (!(across in point.params) || !(down in point.params)) continue;
    const key = `${valueText(point.params[down])}\n${valueText(point.params[across])}`;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(point);
  }
  const measured = (own) => {
    if (measure === "count") return own.length;
    if (measure === "good") {
      const ended = own.filter((point) => point.ended_at_ms);
      return ended.length ? ended.filter((point) => point.state === "succeeded").length / ended.length : null;
    }
    const times = own.filter((point) => point.ended_at_ms && ran(point) !== null).map(ran);
    return times.length ? times.reduce((sum, one) => sum + one, 0) / times.length : null;
  };
  const words = (value) => (value === null ? "nothing yet" : measure === "time" ? fineDuration(value)
    : measure === "good" ? `${Math.round(value * 100)} %` : String(value));
  const known = [...cells.values()].map(measured).filter((value) => value !== null);
  const [low, high] = measure === "good" ? [0, 1] : [Math.min(...known), Math.max(...known)];
  const table = h("table", { class: "heat" });
  table.append(h("tr", {}, h("td", { class: "corner dim" }, h("bdi", {}, `${shortened(down, 14)} ↓`), " ",
    h("bdi", {}, `${shortened(across, 14)} →`)),
    ...columns.map((value) => h("th", { title: value }, h("bdi", {}, shortened(value, 9))))));
  for (const row of rows) {
    table.append(h("tr", {}, h("th", { title: row }, h("bdi", {}, shortened(row, 14))), ...columns.map((column) => {
      const own = cells.get(`${row}\n${column}`) || [];
      const value = own.length ? measured(own) : null;
      const cell = h("td", { class: value === null ? "none" : "", tabIndex: own.length ? 0 : -1 },
        own.length ? (columns.length <= 14 && value !== null ? words(value) : "") : "");
      const part = value === null ? 0 : high > low ? (value - low) / (high - low) : 1;
      cell.style.setProperty("--part", part.toFixed(3));
      if (part > 0.55 && value !== null) cell.classList.add("deep");
      const tell = (event) => own.length && showTip(event, h("b", {}, `${across} = ${column}, ${down} = ${row}`),
        `${words(value)}; ${count(own.length, "point")}`);
      cell.addEventListener("pointermove", tell);
      cell.addEventListener("focus", tell);
      cell.addEventListener("pointerleave", hideTip);
      cell.addEventListener("blur", hideTip);
      if (own.length === 1) cell.addEventListener("click", () => { location.hash = `#/job/${own[0].id}`; });
      return cell;
    })));
  }
  box.append(h("div", { class: "scroll-x" }, table));
}
