// Some runs beside each other: their curves in one chart, and the parameters in which they differ.

import { get } from "./api.js";
import { CurveChart, look, numberOf, numberText, sample } from "./chart.js";
import { summaryText } from "./curves.js";
import { errorBox, h, keyed, setData, setHidden, setText } from "./dom.js";
import { count, fineDuration, FINAL, valueText } from "./format.js";
import { serverNow } from "./feed.js";
import { bestOf, MetricChoice } from "./sweepcurves.js";
import { Turns } from "./turns.js";

export const MOST_COMPARED = 50;
const EVERY_MS = 2500;

export function compareAddress(ids) {
  return `#/compare/${[...ids].slice(0, MOST_COMPARED).join(",")}`;
}

// Which runs are ticked, and the bar that says so and leads to their comparison.
export class Choice {
  constructor() {
    this.ids = new Set();
    this.listeners = [];
    this.words = h("b", {});
    this.link = h("a", { class: "button small" }, "Compare");
    this.element = h("div", { class: "bar chosen" }, this.words, this.link,
      h("button", { type: "button", class: "small quiet", onclick: () => this.clear() }, "None"));
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  has(id) {
    return this.ids.has(id);
  }

  toggle(id) {
    if (!this.ids.delete(id)) this.ids.add(id);
    this.#changed();
  }

  clear() {
    this.ids.clear();
    this.#changed();
  }

  // A box to tick for one run.
  box(id) {
    return h("input", { type: "checkbox", "aria-label": `Compare job ${id}`, onchange: () => this.toggle(id) });
  }

  #changed() {
    const many = this.ids.size;
    this.element.classList.toggle("some", many > 0);
    setText(this.words, many > MOST_COMPARED ? `${count(many, "run")} chosen, the first ${MOST_COMPARED} are compared`
      : `${count(many, "run")} chosen`);
    this.link.href = compareAddress(this.ids);
    for (const listener of this.listeners) listener();
  }
}

export function compareView(said, query) {
  const ids = [...new Set(said.split(",").filter(Boolean).map(Number))].slice(0, MOST_COMPARED);
  const trouble = errorBox();
  const which = new MetricChoice(() => {
    keep();
    ask();
  });
  if (query.get("metric")) which.wanted = { metric: query.get("metric"), goal: query.get("goal") || undefined };
  const chart = new CurveChart({ label: "Curves", height: 340, tip });
  const curves = h("section", { class: "card pad curves", hidden: true },
    h("div", { class: "bar" }, h("h2", {}, "Curves"), ...which.parts), chart.element);
  const none = h("p", { class: "empty card", hidden: true }, "None of these runs has a metric.");
  const head = h("tr", {});
  const body = h("tbody", {});
  const same = h("p", { class: "dim" });
  const table = h("section", { class: "card pad", hidden: true }, h("h2", {}, "Runs"),
    h("div", { class: "scroll-x" }, h("table", { class: "plain compared" }, h("thead", {}, head), body)), same);
  const element = h("div", { class: "stack" },
    h("div", { class: "bar" }, h("a", { href: "#/", class: "back", "aria-label": "To the list" }, "←"),
      h("h1", {}, `Comparison of ${count(ids.length, "run")}`)),
    trouble.element, curves, none, table);
  let answer = null;
  let closed = false;
  const turns = new Turns(refresh);
  const ask = () => turns.take(ids);

  // The address names what is seen, so that it can be kept and sent.
  function keep() {
    const words = new URLSearchParams(Object.entries(which.wanted).filter(([, value]) => value));
    history.replaceState(null, "", `${compareAddress(ids)}?${words}`);
  }

  async function refresh() {
    if (closed) return;
    try {
      answer = await get("/api/compare", { id: ids, ...which.wanted });
      trouble.clear();
      if (!closed) draw();
    } catch (error) {
      if (!closed && error.status) trouble.show(error);
    }
  }

  function draw() {
    const { runs, curves: found, metric, goal, names, varied, best } = answer;
    const byJob = new Map(found.map((curve) => [curve.job, curve]));
    const places = new Map(runs.map((run, place) => [run.id, place]));
    setHidden(curves, names.length === 0);
    setHidden(none, names.length > 0 || answer.unread > 0);
    setHidden(table, false);
    if (names.length) {
      which.show(answer);
      const lines = runs.filter((run) => byJob.has(run.id)).map((run) => ({ id: run.id, run, about: byJob.get(run.id),
        points: byJob.get(run.id).points, ...look(places.get(run.id)), width: run.id === best ? 3.4 : 1.8 }));
      const words = found.slice(0, 10).map((curve) => `job ${curve.job}: ${summaryText(curve, goal)}`).join("; ");
      chart.show(lines.reverse(), { log: which.log.checked, label: `Curves of ${metric} by step. ${words}` });
    }
    const columns = [["line", "Line"], ["id", "Id"], ["state", "State"], ["name", "Job"],
      ...varied.map((one) => [`param ${one}`, one]),
      ...(names.length ? [["last", `last ${metric}`], ["best", goal === "max" ? "highest" : "lowest"]] : []),
      ["time", "Ran"]];
    keyed(head, columns, ([key]) => key, () => h("th", {}, h("bdi", {})),
      (cell, [, title]) => setText(cell.firstChild, title));
    keyed(body, runs, (run) => `${run.id} ${columns.length}`, (run) => h("tr", {},
      h("td", {}, sample(look(places.get(run.id)))),
      h("td", { class: "num" }, h("a", { href: `#/job/${run.id}` }, String(run.id))),
      h("td", {}, h("span", { class: "state" })),
      h("td", { class: "cut" }, h("bdi", {}, run.name || run.command)),
      ...varied.map((one) => h("td", { class: "mono" },
        h("bdi", {}, Object.hasOwn(run.params, one) ? valueText(run.params[one]) : ""))),
      ...columns.slice(4 + varied.length).map(() => h("td", { class: "num" }))),
    (row, run) => {
      const state = row.children[2].firstChild;
      setData(state, "state", run.state);
      setText(state, run.state);
      setData(row, "best", run.id === best ? "yes" : "");
      const cells = [...row.children];
      setText(cells.at(-1), ran(run));
      const curve = byJob.get(run.id);
      if (!names.length) return;
      const [value, step] = curve ? bestOf(curve, goal) : [null, null];
      setText(cells.at(-3), curve ? numberText(numberOf(curve.last)) : "");
      setText(cells.at(-2), value === null ? "" : `${numberText(value)} at step ${numberText(step)}`
        + `${run.id === best ? ", the best" : ""}`);
    });
    setText(same, runs.length > 1 && !varied.length ? "They have the same parameters." : "");
  }

  function ran(run) {
    if (!run.started_at_ms) return "";
    return fineDuration((run.ended_at_ms ?? serverNow()) - run.started_at_ms);
  }

  function tip(curve, step, value) {
    const { run } = curve;
    return [h("b", {}, `${run.id} `, h("bdi", {}, run.name || "")),
      ...answer.varied.filter((name) => Object.hasOwn(run.params, name))
        .map((name) => h("div", {}, h("bdi", {}, `${name} = ${valueText(run.params[name])}`))),
      h("div", {}, `step ${numberText(step)}: ${numberText(value)}`)];
  }

  const timer = setInterval(() => {
    const live = answer && (answer.unread || answer.runs.some((run) => !FINAL.has(run.state)));
    if (live && !document.hidden) ask();
  }, EVERY_MS);

  return {
    element,
    title: "Comparison",
    open: ask,
    close() {
      closed = true;
      clearInterval(timer);
      chart.close();
    },
    hear(change) {
      if (change.many || change.changed.some((id) => ids.includes(id))) ask();
    },
  };
}
