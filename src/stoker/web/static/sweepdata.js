// A sweep's points as its pictures need them: rows made of columns, scales, and which of many are drawn.

import { count, fineDuration, valueText } from "./format.js";

// Numbers come as such, or as text where JSON has no word for them.
const ODD = new Map([["nan", NaN], ["inf", Infinity], ["-inf", -Infinity]]);

function numberOf(said) {
  return typeof said === "string" ? ODD.get(said) ?? NaN : said ?? null;
}

// A name is never a key of an object that has others: it may be `__proto__`.
export function pointsOf(answer, shown) {
  const { columns } = answer;
  const points = columns.id.map((id, place) => ({
    id, place, ids: columns.ids?.[place] ?? [id], runs: columns.runs[place],
    state: columns.state[place], ended: columns.ended[place],
    succeeded: columns.succeeded[place], gpus: columns.gpus[place], exit_code: columns.exit_code[place],
    signal: columns.signal[place], params: Object.create(null), value: null, spread: null,
    ran: columns.run_time_s[place] === null ? null : columns.run_time_s[place] * 1000,
  }));
  for (const { name, values, absent } of answer.params) {
    const missing = new Set(absent);
    for (const point of points) if (!missing.has(point.place)) point.params[name] = values[point.place];
  }
  const metric = answer.metrics.find((one) => one.name === shown.metric);
  for (const point of points) {
    point.value = metric ? numberOf(metric[shown.part]?.[point.place]) : point.ran;
    point.spread = metric ? numberOf(metric[`${shown.part}_spread`]?.[point.place]) : null;
  }
  return points;
}

// What is shown of each point: its run time, or a metric's best or last value.
export function shownBy(metric, goal, value) {
  if (metric === null) {
    return { metric, goal: null, part: null, title: "run time", of: (point) => point.value, words: fineDuration };
  }
  const part = value === "last" ? "last" : goal;
  const title = value === "last" ? `last ${metric}` : `${goal} ${metric}`;
  return { metric, goal, part, title, of: (point) => point.value, words: figure };
}

export function isThere(value) {
  return typeof value === "number" && Number.isFinite(value);
}

export function figure(value) {
  if (value === null || value === undefined) return "";
  return String(Number.isFinite(value) ? Number(value.toPrecision(5)) : value).replace("Infinity", "inf").toLowerCase();
}

export function valueWords(point, shown) {
  if (point.value === null) return "";
  return shown.words(point.value) + (isThere(point.spread) ? ` ±${Number(point.spread.toPrecision(2))}` : "");
}

// What a point is called when it is pointed at.
export function pointWords(point, names) {
  const own = names.filter((name) => name in point.params);
  return own.map((name) => `${name} = ${valueText(point.params[name])}`);
}

export function pointTitle(point) {
  return point.runs > 1 ? `${count(point.runs, "run")}, the best is job ${point.id}` : `${point.id} ${point.state}`;
}

export function shortened(words, most) {
  return words.length > most ? `${words.slice(0, most - 1)}…` : words;
}

const collator = new Intl.Collator(undefined, { numeric: true });

export function compareWords(a, b) {
  return collator.compare(a, b);
}

// How part 0 to 1 of a range is found for the values of one axis: by number if all are, by magnitude if they
// were meant so; else one place per word. Words that no place is given to are beyond what can be told apart.
export function scaleOf(values) {
  const there = values.filter((value) => value !== undefined && value !== null);
  if (there.length && there.every((value) => typeof value === "number")) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of there) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    const different = [...new Set(there)].sort((a, b) => a - b);
    // Values that were meant by their magnitude span several, and most of them are small beside the largest.
    const middle = (different[different.length >> 1] - low) / (high - low);
    const isLog = low > 0 && high / low >= 50 && middle < 0.25;
    const place = isLog ? Math.log : (value) => value;
    const from = place(low);
    const span = place(high) - from || 1;
    const part = high > low ? (value) => (place(value) - from) / span : () => 0.5;
    const at = (share) => (isLog ? Math.exp(from + share * span) : from + share * span);
    const isFew = different.length <= 8;
    const marks = isFew ? different : [low, at(0.5), high];
    const digits = isFew ? 5 : 3;
    return { isNumber: true, isLog, part, at, size: different.length,
      marks: apart(marks.map((value) => [figure(Number(value.toPrecision(digits))), part(value)])) };
  }
  const known = [...new Set(there.map(valueText))].sort(compareWords);
  const places = new Map(known.map((word, place) => [word, known.length > 1 ? place / (known.length - 1) : 0.5]));
  const marks = [...places];
  return { isNumber: false, isLog: false, size: known.length, part: (value) => places.get(valueText(value)),
    marks: marks.length <= 12 ? marks : [marks[0], marks[marks.length - 1]] };
}

// Only marks that do not stand on each other; the first and the last always do not.
function apart(marks) {
  const last = marks[marks.length - 1];
  let before = -1;
  return marks.filter((mark) => {
    const fits = mark[1] - before >= 0.08 && (mark === last || mark === marks[0] || last[1] - mark[1] >= 0.08);
    if (fits || mark === last) before = mark[1];
    return fits || mark === last;
  });
}

// Which of very many lines are drawn: each place that can be told apart on any axis keeps one, so do those that
// are named, and the rest are spread evenly. `axes`: for each axis the part 0 to 1 of each point, or null.
export function thinned(total, axes, most, always = [], apart = 150) {
  if (total <= most) return Array.from({ length: total }, (_, place) => place);
  const kept = new Set(always);
  for (const parts of axes) {
    const key = (place) => Math.round(parts[place] * apart);
    const seen = new Set();
    for (const place of kept) if (parts[place] !== null) seen.add(key(place));
    for (let place = 0; place < total; place += 1) {
      if (parts[place] === null || seen.has(key(place))) continue;
      seen.add(key(place));
      kept.add(place);
    }
  }
  // A step without a common divisor meets every point once, and is in time with no parameter.
  let step = Math.max(1, Math.floor(total * 0.618));
  while (divisor(step, total) !== 1) step += 1;
  for (let turn = 0, place = 0; kept.size < most && turn < total; turn += 1) {
    kept.add(place);
    place = (place + step) % total;
  }
  return [...kept].sort((a, b) => a - b);
}

function divisor(a, b) {
  return b ? divisor(b, a % b) : a;
}
