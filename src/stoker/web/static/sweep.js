// Sweeps: how far they are, and what came of each point.

import { get } from "./api.js";
import { Choice } from "./compare.js";
import { changed } from "./deltas.js";
import { errorBox, h, keyed, setData, setHidden, setNote, setText } from "./dom.js";
import { serverNow } from "./feed.js";
import { count, exitText, FINAL, fineDuration, moment, STATES, valueText } from "./format.js";
import { countsText, progress } from "./progress.js";
import { importanceBars, scatters } from "./scatter.js";
import { SweepCurves } from "./sweepcurves.js";
import { sweepOrders } from "./sweeporders.js";
import { compareWords, pointsOf, pointWords, shownBy, valueWords } from "./sweepdata.js";
import { heatMap, measuresOf, parallel } from "./sweepplots.js";

const SHOWN_ROWS = 200;
const EVERY_MS = 1000; // At most so often, and more rarely if the answers take long.
const WHILE_IT_RUNS_MS = 5000; // Metrics grow without a change of any state.
const chosen = new Map(); // what was last shown of which sweep

export function sweepsView() {
  const trouble = errorBox();
  const body = h("tbody", {});
  const table = h("div", { class: "card pad scroll-x", hidden: true }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ...["Sweep", "Points", "How far", "States", "Queued"].map((word) => h("th", {}, word)))),
    body));
  const empty = h("p", { class: "empty" }, "…");
  const element = h("div", { class: "stack" },
    h("div", { class: "bar" }, h("h1", {}, "Sweeps"), h("span", { class: "grow" }),
      h("a", { class: "button write", href: "#/submit/sweep" }, "New sweep")),
    trouble.element, table, empty);
  let closed = false;
  let timer = null;

  async function refresh() {
    timer = null;
    let sweeps;
    try {
      ({ sweeps } = await get("/api/sweeps"));
      trouble.clear();
    } catch (error) {
      if (!closed && error.status) trouble.show(error);
      return;
    }
    if (closed) return;
    setHidden(empty, sweeps.length > 0);
    setHidden(table, sweeps.length === 0);
    setNote(empty, "There is no sweep yet.", "#/submit/sweep", "Queue one");
    const at = serverNow();
    keyed(body, sweeps, (one) => one.sweep, (one) => {
      const bar = progress();
      const row = h("tr", {},
        h("td", {}, h("a", { href: `#/sweep/${encodeURIComponent(one.sweep)}` }, h("bdi", {}, one.sweep))),
        h("td", { class: "num" }), h("td", { class: "far" }, bar.element), h("td", { class: "dim" }),
        h("td", { class: "num dim" }));
      row.bar = bar;
      return row;
    }, (row, one) => {
      setText(row.children[1], one.points.toLocaleString("en"));
      row.bar.show(one.counts, one.points);
      setText(row.children[3], countsText(one.counts));
      setText(row.children[4], moment(one.submitted_at_ms, at));
    });
  }

  return {
    element,
    title: "Sweeps",
    open: refresh,
    close() {
      closed = true;
      clearTimeout(timer);
    },
    hear(change) {
      if ((change.many || change.changed.length) && timer === null) timer = setTimeout(refresh, 1000);
    },
  };
}

const OWN = [["id", "Id"], ["state", "State"], ["time", "Ran"], ["gpus", "GPU"], ["exit", "Exit"]];

export function sweepView(name) {
  const trouble = errorBox();
  const bar = progress();
  const orders = sweepOrders(name, trouble, () => refresh());
  const words = h("span", { class: "dim num" });
  const filter = h("input", { type: "search", placeholder: "Filter: lr=0.1 failed …",
    "aria-label": "Filter the points",
    oninput: () => drawTable() });
  const head = h("tr", {});
  const body = h("tbody", {});
  const more = h("p", { class: "dim" });
  const csv = h("button", { type: "button", class: "small", onclick: () => download() }, "CSV");
  const metric = h("select", { "aria-label": "Shown", onchange: () => choose() });
  const goal = h("select", { "aria-label": "What is best", onchange: () => choose() },
    h("option", { value: "min" }, "the lowest is best"), h("option", { value: "max" }, "the highest is best"));
  const value = h("select", { "aria-label": "Which value", onchange: () => choose() },
    h("option", { value: "best" }, "best value of each run"), h("option", { value: "last" }, "last value"));
  const single = h("input", { type: "checkbox", onchange: () => choose() });
  const singleLabel = h("label", {}, single, " each run by itself");
  const searchWords = h("p", { class: "search-words", hidden: true }, h("bdi", {}));
  const bestWords = h("p", { class: "best-point", hidden: true });
  const coordinates = h("div", { class: "plot" });
  const dots = h("div", { class: "plot scatters" });
  const bars = importanceBars();
  const heat = h("div", { class: "plot" });
  const across = h("select", { "aria-label": "Across", onchange: () => drawPlots() });
  const down = h("select", { "aria-label": "Down", onchange: () => drawPlots() });
  const measure = h("select", { "aria-label": "Colour", onchange: () => drawPlots() });
  const heatCard = h("section", { class: "card pad" },
    h("div", { class: "bar" }, h("h2", {}, "Heat map"), h("label", {}, "across ", across),
      h("label", {}, "down ", down), h("label", {}, "colour ", measure)), heat);
  const choice = new Choice();
  const curves = new SweepCurves(name, choice);
  choice.listen(() => drawTable());
  const scatterTitle = h("h2", {});
  const plots = h("div", { class: "stack" },
    h("div", { class: "two wide" },
      h("section", { class: "card pad" }, h("h2", {}, "Parallel coordinates"), coordinates),
      h("div", { class: "stack" }, heatCard,
        h("section", { class: "card pad" }, h("h2", {}, "Parameter importance"), bars.element))),
    h("section", { class: "card pad" }, scatterTitle, dots));
  const parts = h("div", { class: "stack", hidden: true },
    h("section", { class: "card pad" }, bar.element, words, searchWords,
      h("div", { class: "bar shown-by" }, h("label", {}, "Show ", metric), goal, value, singleLabel), bestWords),
    curves.element,
    plots,
    h("section", { class: "card pad" },
      h("div", { class: "bar" }, h("h2", {}, "Points"), filter, h("span", { class: "grow" }), csv),
      h("div", { class: "scroll-x" }, h("table", { class: "plain points" }, h("thead", {}, head), body)), more),
    choice.element);
  const missing = h("p", { class: "empty" }, "…");
  const element = h("div", { class: "stack" },
    h("div", { class: "bar" }, h("a", { href: "#/sweeps", class: "back", "aria-label": "To the sweeps" }, "←"),
      h("h1", { class: "cut" }, h("bdi", {}, name)), h("span", { class: "grow" }), orders.element),
    trouble.element, missing, parts);

  let closed = false;
  let timer = null;
  let due = 0;
  let asked = 0;
  let pause = EVERY_MS;
  let data = null;
  let shown = shownBy(null);
  let marked = new Set(); // the best point, or with several goals of a search the Pareto front
  let sort = { key: "id", down: false };

  function question() {
    const said = chosen.get(name);
    return said ? { name, all: false, ...said } : { name, all: false, likely: true };
  }

  async function refresh() {
    clearTimeout(timer);
    timer = null;
    asked += 1;
    const [turn, began, what] = [asked, performance.now(), question()];
    const key = JSON.stringify(what);
    let answer;
    try {
      answer = await get("/api/sweep/results", { ...what, known: data?.key === key ? data.version : "",
        delta: true });
      trouble.clear();
    } catch (error) {
      if (closed || turn !== asked) return;
      if (error.status === 404 && what.metric) {
        chosen.delete(name); // The metric is gone, or the sweep.
        refresh();
      } else if (error.status === 404) setNote(missing, `There is no sweep ${name}.`, "#/sweeps", "All sweeps");
      else if (error.status) trouble.show(error);
      return;
    }
    if (closed || turn !== asked) return;
    const took = performance.now() - began;
    pause = Math.max(EVERY_MS, 8 * took);
    if (answer.unread) later(pause);
    else if (answer.searching || Object.keys(answer.counts).some((state) => !FINAL.has(state))) {
      later(Math.max(WHILE_IT_RUNS_MS, pause));
    }
    if (!answer.changed) return;
    shown = shownBy(answer.metric, answer.goal, what.value);
    orders.show(answer.counts);
    const whole = answer.delta ? { ...answer, ...changed(data.long, answer.delta) } : answer;
    const long = { columns: whole.columns, params: whole.params, metrics: whole.metrics,
      importance: whole.importance };
    data = { ...whole, key, long, points: pointsOf(whole, shown) };
    marked = new Set(answer.front.map((place) => data.points[place]));
    setHidden(missing, true);
    setHidden(parts, false);
    draw();
  }

  function later(ms) {
    if (timer !== null && due <= performance.now() + ms) return;
    clearTimeout(timer);
    due = performance.now() + ms;
    timer = setTimeout(refresh, ms);
  }

  function choose() {
    const said = metric.selectedIndex > 0 ? data.metrics[metric.selectedIndex - 1].name : undefined;
    // Of another metric, its name or the search tells what is best.
    const best = said === undefined || said !== shown.metric ? undefined : goal.value;
    chosen.set(name, { metric: said, goal: best, value: value.value, single: single.checked });
    refresh();
  }

  function valueOf(point, key) {
    switch (key) {
      case "id": return point.id;
      case "pick": return choice.has(point.id) ? 0 : 1;
      case "state": return STATES.indexOf(point.state);
      case "time": return point.ran;
      case "gpus": return point.gpus.join(",");
      case "exit": return point.exit_code ?? point.signal;
      case "value": return Number.isNaN(point.value) ? null : point.value;
      case "runs": return point.runs;
      default: return point.params[key.slice(6)];
    }
  }

  function columns() {
    const own = shown.metric === null ? [] : [["value", shown.title]];
    if (isMerged()) own.push(["runs", "Runs"]);
    const params = data.varied.map((one) => [`param ${one}`, one]);
    return [["pick", "✓"], OWN[0], OWN[1], ...params, ...own, ...OWN.slice(2)];
  }

  function isMerged() {
    return data.points.some((point) => point.runs > 1);
  }

  function draw() {
    bar.show(data.counts, data.total);
    setText(words, `${count(data.total, "point")}: ${countsText(data.counts)}`
      + (data.unread ? `; ${count(data.unread, "log")} still to be read` : ""));
    setHidden(searchWords, data.search === null);
    setText(searchWords.firstChild, data.search === null ? "" : `Search: ${data.search}`);
    keyed(head, columns(), ([key]) => key, ([key]) =>
      h("th", {}, h("button", { type: "button", class: "sort", onclick: () => sortBy(key) }, h("bdi", {}))),
    (cell, [key, title]) => {
      setText(cell.firstChild.firstChild, title);
      cell.setAttribute("aria-sort", sort.key === key ? (sort.down ? "descending" : "ascending") : "none");
    });
    curves.show(data, shown.part === "last" ? null : [shown.metric, shown.goal, [...marked].map((point) => point.id)]);
    if (shown.metric !== null) curves.follow(shown.metric, shown.goal);
    drawChoice();
    for (const [select, place] of [[across, 0], [down, 1]]) {
      offer(select, data.varied.map((one) => [one, one]), data.varied[Math.min(place, data.varied.length - 1)] ?? "");
    }
    offer(measure, measuresOf(shown).map((one) => [one.key, one.title]), measuresOf(shown)[0].key);
    setHidden(heatCard, data.varied.length < 2);
    setHidden(plots, data.varied.length === 0);
    drawTable();
    drawPlots();
  }

  function drawChoice() {
    const names = ["run time", ...data.metrics.map((one) => one.name)];
    if (JSON.stringify(names) !== JSON.stringify([...metric.options].map((one) => one.textContent))) {
      metric.replaceChildren(...names.map((one, place) => h("option", { value: place }, one)));
    }
    metric.selectedIndex = shown.metric === null ? 0 : names.indexOf(shown.metric, 1);
    setHidden(goal, shown.metric === null);
    setHidden(value, shown.metric === null);
    goal.value = shown.goal ?? "min";
    value.value = shown.part === "last" ? "last" : "best";
    single.checked = Boolean(chosen.get(name)?.single);
    setHidden(singleLabel, data.repeat === null);
    const [best] = marked;
    setHidden(bestWords, !best && !data.why_no_best);
    const soFar = data.so_far ? " so far" : "";
    if (best && data.objectives.length > 1) {
      bestWords.replaceChildren(h("b", {}, `★ Pareto front${soFar}: ${count(marked.size, "point")}`), " of ",
        h("bdi", {}, data.objectives.join(", ")));
    } else if (best) {
      bestWords.replaceChildren(h("b", {}, `★ Best${soFar}: `), h("bdi", {}, pointWords(best, data.varied).join(", ")),
        h("span", { class: "num" }, `: ${shown.title} ${valueWords(best, shown)}`), ", ",
        h("a", { href: `#/job/${best.id}` }, `job ${best.id}`));
    } else setText(bestWords, data.why_no_best);
  }

  function sortBy(key) {
    sort = { key, down: sort.key === key ? !sort.down : key === "value" && shown.goal === "max" };
    draw();
  }

  function filtered() {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!wanted.length) return data.points;
    return data.points.filter((point) => {
      const values = Object.entries(point.params).map(([key, one]) => `${key}=${valueText(one)}`);
      const text = [point.id, point.state, ...values].join(" ").toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
  }

  function sorted(points) {
    const keys = points.map((point) => [valueOf(point, sort.key), point]);
    keys.sort(([x, a], [y, b]) => {
      const order = compare(x, y) || a.id - b.id;
      return sort.down && !(empty(x) || empty(y)) ? -order : order;
    });
    return keys.map(([, point]) => point);
  }

  function drawTable() {
    if (!data) return;
    const points = sorted(filtered());
    const rows = points.slice(0, SHOWN_ROWS);
    const rest = points.length - rows.length;
    setText(more, rest > 0 ? `and ${count(rest, "point")} more: filter, or sort by what you look for`
      : points.length ? "" : "No point is like that.");
    const titles = columns().map(([key]) => key);
    const signature = JSON.stringify(titles);
    keyed(body, rows, (point) => `${point.id} ${signature}`, (point) => h("tr", {}, ...titles.map((key) => {
      if (key === "pick") return h("td", {}, choice.box(point.id));
      if (key === "id") return h("td", { class: "num" }, h("a", { href: `#/job/${point.id}` }, String(point.id)));
      if (key === "state") return h("td", {}, h("span", { class: "state" }));
      const own = key.startsWith("param ") ? key.slice(6) : null;
      if (own === null) return h("td", { class: "num" });
      return h("td", { class: "mono" }, h("bdi", {}, own in point.params ? valueText(point.params[own]) : ""));
    })), (row, point) => {
      row.classList.toggle("best", marked.has(point));
      titles.forEach((key, place) => {
        const cell = row.children[place];
        if (key === "pick") cell.firstChild.checked = choice.has(point.id);
        else if (key === "state") {
          setData(cell.firstChild, "state", point.state);
          setText(cell.firstChild, point.state);
        } else if (key in CELLS) setText(cell, CELLS[key](point, shown));
      });
    });
  }

  let drawn = "";
  let pictured = null; // of which data all pictures but the heat map are
  async function drawPlots() {
    if (!data) return;
    const now = JSON.stringify([data.key, data.version, across.value, down.value, measure.value]);
    if (now === drawn) return;
    drawn = now;
    const own = data;
    const { points, varied } = own;
    setText(scatterTitle, `${shown.title} over each parameter`);
    const colour = measuresOf(shown).find((one) => one.key === measure.value);
    const steps = [() => varied.length > 1 && heatMap(heat, points, across.value, down.value, colour, marked)];
    if (pictured !== own) {
      steps.push(() => bars.show(own, shown), () => parallel(coordinates, points, varied, shown, marked),
        () => scatters(dots, points, varied, shown, marked), () => { pictured = own; });
    }
    for (const step of steps) {
      step();
      // One picture at a time, so that none makes the page wait.
      await new Promise((resolve) => { setTimeout(resolve, 0); });
      if (closed || drawn !== now) return;
    }
  }

  function download() {
    const names = data.varied;
    const own = ["id", "state", "run_time_s", "gpus", "exit_code", "signal"];
    const extra = columns().filter(([key]) => key === "value" || key === "runs");
    const rows = [["id", "state", ...names.map((one) => (own.includes(one) ? `param_${one}` : one)),
      ...extra.map(([, title]) => title), ...own.slice(2)]];
    for (const point of sorted(filtered())) {
      rows.push([point.id, point.state,
        ...names.map((one) => (one in point.params ? valueText(point.params[one]) : "")),
        ...extra.map(([key]) => valueOf(point, key) ?? ""),
        point.ran === null ? "" : (point.ran / 1000).toFixed(3), point.gpus.join(","), point.exit_code ?? "",
        point.signal ?? ""]);
    }
    const text = rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    const link = h("a", { href: url, download: `${name}.csv` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  return {
    element,
    title: name,
    open: refresh,
    close() {
      closed = true;
      clearTimeout(timer);
      curves.close();
    },
    hear(change) {
      if (change.many || change.changed.length) later(pause);
    },
    key(event) {
      if (event.key !== "/") return false;
      filter.focus();
      return true;
    },
  };
}

const CELLS = {
  value: (point, shown) => valueWords(point, shown),
  runs: (point) => point.runs,
  time: (point) => (point.ran === null ? "" : fineDuration(point.ran)),
  gpus: (point) => point.gpus.join(", "),
  exit: (point) => exitText(point).replace("exit ", ""),
};

// The choices of a field, with the one that was chosen if it is still there.
function offer(select, choices, usual) {
  const before = select.value;
  const now = JSON.stringify(choices);
  if (select.choices === now) return;
  select.choices = now;
  select.replaceChildren(...choices.map(([key, title]) => h("option", { value: key }, title)));
  select.value = choices.some(([key]) => key === before) ? before : usual;
}

function empty(value) {
  return value === null || value === undefined || value === "";
}

function compare(x, y) {
  if (empty(x) || empty(y)) return Number(empty(x)) - Number(empty(y));
  if (typeof x === "number" && typeof y === "number") return x - y;
  return compareWords(String(x), String(y));
}

// A spreadsheet takes a cell that begins like this for a formula.
function quoted(value) {
  let text = String(value);
  if (/^[=+@\t\r]/.test(text) || (/^-/.test(text) && Number.isNaN(Number(text)))) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
