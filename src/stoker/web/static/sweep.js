// Sweeps: how far they are, and what came of each point.

import { get } from "./api.js";
import { Choice } from "./compare.js";
import { errorBox, h, keyed, setData, setHidden, setText } from "./dom.js";
import { serverNow } from "./feed.js";
import { count, exitText, fineDuration, moment, STATES, valueText } from "./format.js";
import { SweepCurves } from "./sweepcurves.js";
import { heatMap, parallel } from "./sweepplots.js";

const MOST_POINTS = 20_000;
const SHOWN_ROWS = 200;

function progress() {
  const parts = new Map();
  const element = h("div", { class: "progress", role: "img" });
  for (const state of ["succeeded", "stopped", "failed", "lost", "cancelled", "skipped", "running", "stopping",
    "submitted", "waiting", "held"]) {
    const part = h("span", { data: { state } });
    parts.set(state, part);
    element.append(part);
  }
  return {
    element,
    show(counts, total) {
      for (const [state, part] of parts) {
        const width = `${total ? ((100 * (counts[state] || 0)) / total).toFixed(2) : 0}%`;
        if (part.style.width !== width) part.style.width = width;
      }
      element.setAttribute("aria-label", countsText(counts));
    },
  };
}

function countsText(counts) {
  return STATES.filter((state) => counts[state]).map((state) => `${counts[state].toLocaleString("en")} ${state}`)
    .join(", ");
}

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
    setText(empty, "There is no sweep yet.");
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
  const words = h("span", { class: "dim num" });
  const filter = h("input", { type: "search", placeholder: "Filter: lr=0.1 failed …",
    "aria-label": "Filter the points",
    oninput: () => drawTable() });
  const head = h("tr", {});
  const body = h("tbody", {});
  const more = h("p", { class: "dim" });
  const csv = h("button", { type: "button", class: "small", onclick: () => download() }, "CSV");
  const coordinates = h("div", { class: "plot" });
  const heat = h("div", { class: "plot" });
  const across = h("select", { "aria-label": "Across", onchange: () => drawPlots() });
  const down = h("select", { "aria-label": "Down", onchange: () => drawPlots() });
  const measure = h("select", { "aria-label": "Colour", onchange: () => drawPlots() },
    h("option", { value: "time" }, "mean run time"), h("option", { value: "good" }, "share that succeeded"),
    h("option", { value: "count" }, "points"));
  const heatCard = h("section", { class: "card pad" },
    h("div", { class: "bar" }, h("h2", {}, "Heat map"), h("label", {}, "across ", across),
      h("label", {}, "down ", down), h("label", {}, "colour ", measure)), heat);
  const choice = new Choice();
  const curves = new SweepCurves(name, choice);
  choice.listen(() => drawTable());
  const parts = h("div", { class: "stack", hidden: true },
    h("section", { class: "card pad" }, bar.element, words),
    curves.element,
    h("div", { class: "two wide" },
      h("section", { class: "card pad" }, h("h2", {}, "Parallel coordinates"), coordinates),
      heatCard),
    h("section", { class: "card pad" },
      h("div", { class: "bar" }, h("h2", {}, "Points"), filter, h("span", { class: "grow" }), csv),
      h("div", { class: "scroll-x" }, h("table", { class: "plain points" }, h("thead", {}, head), body)), more),
    choice.element);
  const missing = h("p", { class: "empty" }, "…");
  const element = h("div", { class: "stack" },
    h("div", { class: "bar" }, h("a", { href: "#/sweeps", class: "back", "aria-label": "To the sweeps" }, "←"),
      h("h1", { class: "cut" }, h("bdi", {}, name))),
    trouble.element, missing, parts);

  let closed = false;
  let timer = null;
  let data = null;
  let sort = { key: "id", down: false };

  async function refresh() {
    timer = null;
    try {
      data = await get("/api/sweep", { name, limit: MOST_POINTS });
      trouble.clear();
    } catch (error) {
      if (closed) return;
      if (error.status === 404) setText(missing, `There is no sweep ${name}.`);
      else if (error.status) trouble.show(error);
      return;
    }
    if (closed) return;
    setHidden(missing, true);
    setHidden(parts, false);
    draw();
  }

  function ran(point) {
    if (!point.started_at_ms) return null;
    return (point.ended_at_ms ?? serverNow()) - point.started_at_ms;
  }

  function valueOf(point, key) {
    switch (key) {
      case "id": return point.id;
      case "pick": return choice.has(point.id) ? 0 : 1;
      case "state": return STATES.indexOf(point.state);
      case "time": return ran(point);
      case "gpus": return point.gpus.join(",");
      case "exit": return point.exit_code ?? point.signal;
      default: return point.params[key.slice(6)];
    }
  }

  function draw() {
    bar.show(data.counts, data.total);
    setText(words, `${count(data.total, "point")}: ${countsText(data.counts)}`);
    curves.show(data);
    const columns = [["pick", "✓"], OWN[0], OWN[1], ...data.varied.map((one) => [`param ${one}`, one]), ...OWN.slice(2)];
    keyed(head, columns, ([key]) => key, ([key, title]) =>
      h("th", {}, h("button", { type: "button", class: "sort", onclick: () => sortBy(key) }, h("bdi", {}, title))),
    (cell, [key]) => cell.setAttribute("aria-sort",
      sort.key === key ? (sort.down ? "descending" : "ascending") : "none"));
    for (const [select, place] of [[across, 0], [down, 1]]) {
      if (select.options.length !== data.varied.length) {
        const before = select.value;
        select.replaceChildren(...data.varied.map((one) => h("option", { value: one }, one)));
        const usual = data.varied[Math.min(place, data.varied.length - 1)] ?? "";
        select.value = data.varied.includes(before) ? before : usual;
      }
    }
    setHidden(heatCard, data.varied.length < 2);
    drawTable();
    drawPlots();
  }

  function sortBy(key) {
    sort = { key, down: sort.key === key ? !sort.down : false };
    draw();
  }

  function filtered() {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!wanted.length) return data.points;
    return data.points.filter((point) => {
      const values = Object.entries(point.params).map(([key, value]) => `${key}=${valueText(value)}`);
      const text = [point.id, point.state, ...values].join(" ").toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
  }

  function sorted(points) {
    const key = sort.key;
    return [...points].sort((a, b) => {
      const [x, y] = [valueOf(a, key), valueOf(b, key)];
      const order = compare(x, y) || a.id - b.id;
      return sort.down && !(empty(x) || empty(y)) ? -order : order;
    });
  }

  function drawTable() {
    if (!data) return;
    const points = sorted(filtered());
    const shown = points.slice(0, SHOWN_ROWS);
    const rest = points.length - shown.length;
    setText(more, rest > 0 ? `and ${count(rest, "point")} more: filter, or sort by what you look for`
      : points.length ? "" : "No point is like that.");
    keyed(body, shown, (point) => `${point.id} ${data.varied.length}`, (point) => {
      const row = h("tr", {},
        h("td", {}, choice.box(point.id)),
        h("td", { class: "num" }, h("a", { href: `#/job/${point.id}` }, String(point.id))),
        h("td", {}, h("span", { class: "state" })),
        ...data.varied.map((one) => h("td", { class: "mono" },
          h("bdi", {}, one in point.params ? valueText(point.params[one]) : ""))),
        h("td", { class: "num" }), h("td", { class: "num" }), h("td", { class: "num" }));
      return row;
    }, (row, point) => {
      const cells = row.children;
      cells[0].firstChild.checked = choice.has(point.id);
      const state = cells[2].firstChild;
      setData(state, "state", point.state);
      setText(state, point.state);
      setText(cells[cells.length - 3], ran(point) === null ? "" : fineDuration(ran(point)));
      setText(cells[cells.length - 2], point.gpus.join(", "));
      setText(cells[cells.length - 1], exitText(point).replace("exit ", ""));
    });
  }

  let drawn = "";
  function drawPlots() {
    if (!data) return;
    const key = JSON.stringify([data.counts, across.value, down.value, measure.value, data.total]);
    if (key === drawn) return;
    drawn = key;
    parallel(coordinates, data.points, data.varied, ran);
    if (data.varied.length > 1) heatMap(heat, data.points, across.value, down.value, measure.value, ran);
  }

  function download() {
    const names = data.varied;
    const own = ["id", "state", "run_time_s", "gpus", "exit_code", "signal"];
    const rows = [["id", "state", ...names.map((one) => (own.includes(one) ? `param_${one}` : one)), ...own.slice(2)]];
    for (const point of sorted(filtered())) {
      const ms = ran(point);
      rows.push([point.id, point.state,
        ...names.map((one) => (one in point.params ? valueText(point.params[one]) : "")),
        ms === null ? "" : (ms / 1000).toFixed(3), point.gpus.join(","), point.exit_code ?? "", point.signal ?? ""]);
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
      if ((change.many || change.changed.length) && timer === null) timer = setTimeout(refresh, 1000);
    },
    key(event) {
      if (event.key !== "/") return false;
      filter.focus();
      return true;
    },
  };
}

function empty(value) {
  return value === null || value === undefined || value === "";
}

function compare(x, y) {
  if (empty(x) || empty(y)) return Number(empty(x)) - Number(empty(y));
  if (typeof x === "number" && typeof y === "number") return x - y;
  return String(x).localeCompare(String(y), undefined, { numeric: true });
}

// A spreadsheet takes a cell that begins like this for a formula.
function quoted(value) {
  let text = String(value);
  if (/^[=+@\t\r]/.test(text) || (/^-/.test(text) && Number.isNaN(Number(text)))) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
