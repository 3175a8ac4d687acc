// Where the bars of one GPU go on a timeline. Pure: times in, pixels out; a bar is as wide as its time.

export const SMALL_PX = 3; // What is narrower can't be told from a line: it is put together, and counted.
export const CELL_PX = 26;
export const MOST_LANES = 6; // More bars beside each other are counted, too.

// Bars: { from, to, until }, in ms; from `to` (now) on the time until `until` is expected. Without an end it is null.
// Each bar that is seen has a lane of its own for its whole time, so that no two of them lie over each other.
export function placed(bars, { from, to, width }) {
  const scale = (ms) => ((ms - from) / (to - from)) * width;
  const clip = (px) => Math.max(0, Math.min(width, px));
  const ends = []; // of each lane, when its last bar ends
  const found = [];
  const small = [];
  for (const job of [...bars].sort((a, b) => a.from - b.from || a.id - b.id)) {
    const end = job.until === null ? Infinity : Math.max(job.to ?? job.from, job.until ?? job.to ?? job.from);
    if (end < from || job.from > to) continue;
    if (scale(Math.min(end, to)) - scale(job.from) < SMALL_PX && end <= to) {
      small.push(job);
      continue;
    }
    const free = ends.findIndex((last) => last <= job.from);
    const lane = free < 0 ? ends.length : free;
    if (lane >= MOST_LANES) {
      small.push(job);
      continue;
    }
    ends[lane] = end;
    const piece = (begin, finish, more) => {
      const left = clip(scale(begin));
      const right = clip(scale(Math.min(finish, to)));
      if (right > left) found.push({ job, left, width: right - left, lane, rest: false, ...more });
    };
    const done = job.to ?? end;
    piece(job.from, done, { open: job.ahead && done === Infinity });
    if (end > done) piece(done, end, { rest: true, open: end === Infinity });
  }
  return { bars: found, lanes: Math.max(ends.length, small.length ? 0 : 1), counted: counted(small, scale, width) };
}

// Jobs that are too small to see, by the cells of a fixed width that they begin in.
function counted(jobs, scale, width) {
  const cells = new Map();
  for (const job of jobs) {
    const left = Math.floor(Math.max(0, Math.min(width - 1, scale(job.from))) / CELL_PX) * CELL_PX;
    if (!cells.has(left)) cells.set(left, { left, width: Math.min(CELL_PX, width - left), jobs: [] });
    cells.get(left).jobs.push(job);
  }
  return [...cells.values()];
}

// ---- what part of time is seen

export const SHORTEST_MS = 500;
export const LONGEST_MS = 31 * 86_400_000;
const AHEAD = 0.25; // of the time that is looked back

// So many hours back, and a part of it ahead.
export function around(nowMs, hours) {
  return { from: nowMs - hours * 3_600_000, to: nowMs + hours * 3_600_000 * AHEAD };
}

// `factor` below 1 shows less; what is at the place 0 to 1 stays there.
export function zoomed({ from, to }, factor, place = 0.5) {
  const span = Math.max(SHORTEST_MS, Math.min(LONGEST_MS, (to - from) * factor));
  const still = from + (to - from) * place;
  return { from: still - span * place, to: still + span * (1 - place) };
}

export function moved({ from, to }, part) {
  const step = (to - from) * part;
  return { from: from + step, to: to + step };
}

// All of some jobs, with a margin.
export function showing(jobs) {
  const from = Math.min(...jobs.map((job) => job.from));
  const to = Math.max(...jobs.map((job) => job.to ?? job.from));
  const margin = Math.max(SHORTEST_MS / 2, (to - from) * 0.15);
  return { from: from - margin, to: to + margin };
}

const SECOND = 1000;
const DAY = 86_400 * SECOND;
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
  86_400, 172_800, 604_800].map((seconds) => seconds * SECOND);

// The moments that an axis names: round ones of the clock on the wall, with room for words of so many pixels.
export function ticks({ from, to }, width, roomPx) {
  const step = STEPS.find((one) => ((to - from) / one) * roomPx < width) ?? STEPS[STEPS.length - 1];
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  const found = [];
  for (let ms = Math.ceil((from - zone) / step) * step + zone; ms < to; ms += step) {
    found.push({ ms, isDay: (ms - zone) % DAY === 0, step });
  }
  return found;
}
