// Pictures of a sweep: parallel coordinates, and a heat map of two parameters.

import { clear, h, hideTip, showTip, svg } from "./dom.js";
import { count, fineDuration, valueText } from "./format.js";
import { label } from "./plot.js";
import { compareWords, figure, isThere, pointTitle, pointWords, scaleOf, shortened, thinned, valueWords }
  from "./sweepdata.js";

const SIZE = { height: 300, top: 26, bottom: 22, side: 46, axis: 74 };
const MOST_LINES = 1500;
const MOST_VALUES = 30; // Of a number with more of them, some share a row or column of the heat map.
const BINS = 12;

// How good values are among each other, from 0 to 1, where it is known what is better.
function goodness(points, shown) {
  const values = points.map(shown.of).filter(isThere);
  if (!shown.goal || !values.length) return null;
  const scale = scaleOf(values);
  return (value) => (shown.goal === "max" ? scale.part(value) : 1 - scale.part(value));
}

export function openJob(point) {
  location.hash = `#/job/${point.id}`;
}

export function tipOf(event, point, names, shown) {
  showTip(event, h("b", {}, pointTitle(point)), ...pointWords(point, names).map((words) => h("div", {}, words)),
    point.value === null ? "" : h("div", {}, `${shown.title}: ${valueWords(point, shown)}`));
}

function extremes(points, shown) {
  const known = points.filter((point) => isThere(point.value));
  if (!known.length) return [];
  const [low, high] = known.reduce(([a, b], point) => [point.value < a.value ? point : a,
    point.value > b.value ? point : b], [known[0], known[0]]);
  return shown.goal === "max" ? [high.place, low.place] : [low.place, high.place];
}

export function parallel(box, points, names, shown, marked) {
  clear(box);
  const { height, top, bottom, side } = SIZE;
  const finite = (value) => (typeof value === "number" && !Number.isFinite(value) ? null : value ?? null);
  const axes = [...names.map((name) => [name, (point) => finite(point.params[name])]),
    [shown.metric === null ? "run time (s)" : shown.title, (point) => (isThere(point.value)
      ? (shown.metric === null ? point.value / 1000 : point.value) : null)]];
  const width = Math.max(box.clientWidth || 640, axes.length * SIZE.axis);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Each point as a line across its parameters" });
  picture.style.setProperty("min-width", `${axes.length * SIZE.axis}px`);
  const x = (place) => side + (axes.length > 1 ? (place / (axes.length - 1)) * (width - 2 * side) : 0);
  const y = (part) => height - bottom - part * (height - top - bottom);
  const scales = axes.map(([, value]) => scaleOf(points.map(value)));
  const parts = axes.map(([, value], axis) => points.map((point) => {
    const one = value(point);
    return one === null ? null : scales[axis].part(one);
  }));
  const always = [...extremes(points, shown), ...[...marked].map((point) => point.place)];
  const drawn = thinned(points.length, parts, MOST_LINES, always);
  const good = goodness(points, shown);
  // The better ones are drawn over the others.
  if (good) drawn.sort((a, b) => (points[a].value ?? 0) - (points[b].value ?? 0));
  if (good && shown.goal === "min") drawn.reverse();
  const lines = svg("g", { class: good ? "lines-across by-value" : "lines-across" });
  for (const place of drawn) {
    const point = points[place];
    let d = "";
    axes.forEach((_, axis) => {
      const part = parts[axis][place];
      if (part !== null) d += `${d ? "L" : "M"}${x(axis).toFixed(1)} ${y(part).toFixed(1)}`;
    });
    const line = svg("path", { d, "data-state": point.state, "data-place": place });
    if (good && isThere(point.value)) line.style.setProperty("--part", good(point.value).toFixed(3));
    if (marked.has(point)) line.classList.add("best");
    lines.append(line);
  }
  lines.append(...lines.querySelectorAll(".best"));
  let hot = null;
  const cool = () => {
    hot?.classList.remove("hot");
    hot = null;
    hideTip();
  };
  lines.addEventListener("pointermove", (event) => {
    const line = event.target.closest("path");
    if (!line) return;
    if (line !== hot) cool();
    hot = line;
    line.classList.add("hot");
    tipOf(event, points[line.dataset.place], names, shown);
  });
  lines.addEventListener("pointerleave", cool);
  lines.addEventListener("click", (event) => {
    const line = event.target.closest("path");
    if (line) openJob(points[line.dataset.place]);
  });
  picture.append(lines);
  axes.forEach(([name], axis) => {
    const at = x(axis);
    const last = axis === axes.length - 1;
    const room = Math.max(8, Math.floor((x(1) - x(0)) / 8));
    const title = label(axis === 0 ? 4 : last ? width - 4 : at, 14, shortened(name, Math.min(room, 22)),
      axis === 0 ? "start" : last ? "end" : "middle", { class: "name" });
    title.append(svg("title", {}, name));
    picture.append(svg("line", { class: "axis", x1: at, x2: at, y1: top, y2: height - bottom }), title);
    for (const [words, part] of scales[axis].marks) {
      picture.append(label(last ? at - 5 : at + 5, y(part) + 4, shortened(words, 9), last ? "end" : "start",
        { class: "mark" }));
    }
  });
  box.append(h("div", { class: "scroll-x" }, picture));
  if (drawn.length < points.length) {
    box.append(h("p", { class: "dim" }, `${drawn.length.toLocaleString("en")} of ${count(points.length, "point")} are`
      + " drawn: every value keeps at least one line, and so do the best and the worst."));
  }
}

// The rows or columns of a heat map: the values of a parameter, or ranges of it if they are too many.
function classesOf(points, name) {
  const own = points.filter((point) => name in point.params).map((point) => point.params[name]);
  const scale = scaleOf(own);
  if (scale.isNumber && scale.size > MOST_VALUES) {
    const bin = (value) => Math.min(BINS - 1, Math.floor(scale.part(value) * BINS));
    const edge = (place) => figure(Number(scale.at(place / BINS).toPrecision(2)));
    const words = Array.from({ length: BINS }, (_, place) => `${edge(place)} to ${edge(place + 1)}`);
    return { of: (value) => bin(value), keys: words.map((_, place) => place), words: (place) => words[place],
      short: (place) => edge(place) };
  }
  const known = new Map(own.map((value) => [valueText(value), value]));
  const keys = [...known].sort(([a, v], [b, w]) =>
    (typeof v === "number" && typeof w === "number" ? v - w : compareWords(a, b))).map(([key]) => key);
  return { of: valueText, keys, words: (key) => key, short: (key) => key };
}

const mean = (values) => (values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : null);

// What the colour of a cell can stand for. `better`: the stronger, the better.
export function measuresOf(shown) {
  const time = { key: "time", title: "mean run time", words: fineDuration,
    of: (own) => mean(own.filter((point) => point.ended && point.ran !== null).map((point) => point.ran)) };
  const good = { key: "good", title: "share that succeeded", range: [0, 1],
    words: (value) => `${Math.round(value * 100)} %`,
    of: (own) => {
      const ended = own.reduce((sum, point) => sum + point.ended, 0);
      return ended ? own.reduce((sum, point) => sum + point.succeeded, 0) / ended : null;
    } };
  const many = { key: "count", title: "points", words: String, of: (own) => own.length };
  if (shown.metric === null) return [time, good, many];
  const known = (own) => own.map(shown.of).filter(isThere);
  const first = { key: "best", title: `best ${shown.title}`, words: figure, goal: shown.goal, of: (own) => {
    const values = known(own);
    if (!values.length) return null;
    return values.reduce((a, b) => ((shown.goal === "max") === (a > b) ? a : b));
  } };
  const all = { key: "mean", title: `mean ${shown.title}`, words: figure, goal: shown.goal,
    of: (own) => mean(known(own)) };
  return [first, all, time, good, many];
}

export function heatMap(box, points, across, down, measure, marked) {
  clear(box);
  if (across === down) {
    box.append(h("p", { class: "dim" }, "Choose two different parameters."));
    return;
  }
  const columns = classesOf(points, across);
  const rows = classesOf(points, down);
  if (columns.keys.length * rows.keys.length > 2500) {
    box.append(h("p", { class: "dim" },
      `${columns.keys.length} by ${rows.keys.length} values are too many to be told apart.`));
    return;
  }
  const cells = new Map();
  for (const point of points) {
    if (!(across in point.params) || !(down in point.params)) continue;
    const key = `${rows.of(point.params[down])}\n${columns.of(point.params[across])}`;
    if (!cells.has(key)) cells.set(key, { points: [], value: null });
    cells.get(key).points.push(point);
  }
  for (const cell of cells.values()) cell.value = measure.of(cell.points);
  const words = (value) => (value === null ? "nothing yet" : measure.words(value));
  const known = [...cells.values()].map((cell) => cell.value).filter((value) => value !== null);
  const scale = scaleOf(measure.range ?? known);
  const strength = (value) => (measure.goal === "min" ? 1 - scale.part(value) : scale.part(value));
  const table = h("table", { class: "heat" });
  table.append(h("tr", {}, h("td", { class: "corner dim" }, h("bdi", {}, `${shortened(down, 14)} ↓`), " ",
    h("bdi", {}, `${shortened(across, 14)} →`)), ...columns.keys.map((key) =>
    h("th", { title: columns.words(key) }, h("bdi", {}, shortened(columns.short(key), 9))))));
  const told = new WeakMap();
  for (const row of rows.keys) {
    table.append(h("tr", {}, h("th", { title: rows.words(row) }, h("bdi", {}, shortened(rows.short(row), 14))),
      ...columns.keys.map((column) => {
        const own = cells.get(`${row}\n${column}`);
        const value = own ? own.value : null;
        const cell = h("td", { class: value === null ? "none" : "", tabIndex: own ? 0 : -1 },
          value !== null && columns.keys.length <= 14 ? words(value) : "");
        const part = value === null ? 0 : known.length > 1 && isThere(value) ? strength(value) : 1;
        cell.style.setProperty("--part", part.toFixed(3));
        if (part > 0.79 && value !== null) cell.classList.add("deep");
        if (own?.points.some((point) => marked.has(point))) cell.classList.add("best");
        if (own) told.set(cell, { own, value, row, column });
        return cell;
      })));
  }
  const tell = (event) => {
    const one = told.get(event.target.closest("td"));
    if (!one) {
      hideTip();
      return;
    }
    showTip(event, h("b", {}, `${across} = ${columns.words(one.column)}, ${down} = ${rows.words(one.row)}`),
      `${measure.title}: ${words(one.value)}; ${count(one.own.points.length, "point")}`);
  };
  table.addEventListener("pointermove", tell);
  table.addEventListener("focusin", tell);
  table.addEventListener("pointerleave", hideTip);
  table.addEventListener("focusout", hideTip);
  table.addEventListener("click", (event) => {
    const one = told.get(event.target.closest("td"));
    if (one?.own.points.length === 1) openJob(one.own.points[0]);
  });
  box.append(h("div", { class: "scroll-x" }, table));
  if (measure.goal) box.append(h("p", { class: "dim" }, "The stronger the colour, the better."));
}
