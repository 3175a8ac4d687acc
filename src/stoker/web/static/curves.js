// The metrics of a job as curves, live while it runs.

import { get } from "./api.js";
import { CurveChart, numberOf, numberText, sample } from "./chart.js";
import { h, keyed, setHidden, setText } from "./dom.js";
import { count, FINAL } from "./format.js";

const EVERY_MS = 2500;
const SHOWN_AT_FIRST = 4;
const MOST_NAMES = 60;
const MOST_ATTEMPTS = 6;
const LATEST = { tone: "tone-0", width: 2, alpha: 1, dash: [] };
const EARLIER = [{ tone: "tone-1", dash: [7, 4] }, { tone: "tone-2", dash: [2, 3] },
  { tone: "tone-3", dash: [9, 3, 2, 3] }, { tone: "tone-4", dash: [4, 4] }, { tone: "tone-5", dash: [1, 2] }];

// What the user has chosen to see or not to see, for the next jobs as well.
const chosen = new Map();

// "last 0.31 at step 9, lowest 0.29 at step 8", of what the server says of a series.
export function summaryText(curve, goal = null) {
  const at = (value, step) => `${numberText(numberOf(value))} at step ${numberText(numberOf(step))}`;
  const parts = [`last ${at(curve.last, curve.last_step)}`];
  if (curve.count > 1 && curve.min !== null) {
    if (goal !== "max") parts.push(`lowest ${at(curve.min, curve.min_step)}`);
    if (goal !== "min") parts.push(`highest ${at(curve.max, curve.max_step)}`);
  }
  if (curve.not_finite) parts.push(`${count(curve.not_finite, "value")} not finite`);
  return parts.join(", ");
}

export class JobCurves {
  constructor(id) {
    this.id = id;
    this.job = null;
    this.attempts = new Map(); // by number: what was answered, and whether that is all
    this.panels = h("div", { class: "panels" });
    this.names = h("div", { class: "buttons names", role: "group", "aria-label": "Which metrics" });
    this.log = h("input", { type: "checkbox", onchange: () => this.draw() });
    this.key = h("p", { class: "key dim" });
    this.trouble = h("p", { class: "dim" });
    this.element = h("section", { class: "card pad curves", hidden: true },
      h("div", { class: "bar" }, h("h2", {}, "Metrics"), this.names, h("span", { class: "grow" }),
        h("label", { class: "tick" }, this.log, "logarithmic")),
      this.key, this.panels, this.trouble);
    this.timer = setInterval(() => this.#again(), EVERY_MS);
    this.asking = false;
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    for (const panel of this.panels.children) panel.chart.close();
  }

  // The job as it is now.
  show(job) {
    const first = !this.job || this.job.state !== job.state || this.job.attempts.length !== job.attempts.length;
    this.job = job;
    if (first) this.ask();
  }

  #again() {
    const live = this.job && ["running", "stopping"].includes(this.job.state);
    if (!document.hidden && (live || this.missing)) this.ask();
  }

  async ask() {
    if (this.asking || !this.job) return;
    this.asking = true;
    this.missing = false;
    try {
      const { attempts, state } = this.job;
      for (const { attempt } of attempts.slice(Math.max(0, attempts.length - MOST_ATTEMPTS))) {
        if (this.attempts.get(attempt)?.whole) continue;
        const answer = await get(`/api/jobs/${this.id}/metrics`, { attempt });
        const over = FINAL.has(state) || attempt < attempts[attempts.length - 1].attempt;
        this.missing ||= answer.unread > 0;
        this.attempts.set(attempt, { ...answer, whole: over && !answer.unread });
      }
      if (!this.closed) this.draw();
    } catch {
      this.missing = true; // The next time will do.
    }
    this.asking = false;
  }

  draw() {
    const numbers = [...this.attempts.keys()].sort((a, b) => a - b);
    const metrics = new Map(); // By name, which may be any text: the curve of each attempt.
    for (const number of [...numbers].reverse()) {
      for (const curve of this.attempts.get(number).curves) {
        if (!metrics.has(curve.name)) metrics.set(curve.name, new Map());
        metrics.get(curve.name).set(number, curve);
      }
    }
    const names = [...metrics.keys()].slice(0, MOST_NAMES);
    const shown = names.filter((name, place) => chosen.get(name) ?? place < SHOWN_AT_FIRST);
    setHidden(this.element, names.length === 0);
    setHidden(this.names, names.length < 2);
    keyed(this.names, names, (name) => name,
      (name) => h("button", { type: "button", class: "small", onclick: () => this.#choose(name) }, h("bdi", {}, name)),
      (button, name) => button.setAttribute("aria-pressed", String(shown.includes(name))));
    const left = metrics.size - names.length;
    const warnings = numbers.flatMap((number) => this.attempts.get(number).warnings);
    setText(this.trouble, [left ? `and ${left} more: \`stoker metrics ${this.id}\`` : "", ...new Set(warnings)]
      .filter(Boolean).join("; "));
    const several = numbers.filter((number) => this.attempts.get(number).curves.length);
    this.#drawKey(several);
    for (const panel of this.panels.children) if (!shown.includes(panel.name)) panel.chart.close();
    keyed(this.panels, shown, (name) => name, (name) => this.#panel(name),
      (panel, name) => this.#fill(panel, name, metrics.get(name), several));
  }

  #choose(name) {
    const now = [...this.panels.children].some((panel) => panel.name === name);
    chosen.set(name, !now);
    this.draw();
  }

  #drawKey(numbers) {
    setHidden(this.key, numbers.length < 2);
    const words = numbers.join(" ");
    if (this.key.dataset.of === words) return;
    this.key.dataset.of = words;
    this.key.replaceChildren(...[...numbers].reverse().map((number, place) =>
      h("span", {}, sample(lookOf(place)), ` attempt ${number}`)));
  }

  #panel(name) {
    const chart = new CurveChart({
      label: name,
      tip: (curve, step, value) => [h("b", {}, `step ${numberText(step)}`), h("bdi", {}, name),
        ` ${numberText(value)}`, this.several > 1 ? h("div", { class: "dim" }, `attempt ${curve.id}`) : ""],
    });
    const panel = h("div", { class: "panel" }, h("h3", { class: "cut" }, h("bdi", {}, name)),
      h("p", { class: "dim num words" }), chart.element);
    panel.name = name;
    panel.chart = chart;
    return panel;
  }

  #fill(panel, name, curves, numbers) {
    this.several = numbers.length;
    const [latest] = curves.values();
    const words = summaryText(latest, latest.goal);
    setText(panel.children[1], words);
    const key = JSON.stringify([[...curves].map(([number, one]) => [number, one.count]), this.log.checked]);
    if (panel.drawn === key) return;
    panel.drawn = key;
    const newest = [...numbers].reverse();
    const lines = [...curves].map(([number, curve]) =>
      ({ id: number, points: curve.points, ...lookOf(newest.indexOf(number)) })).reverse();
    panel.chart.show(lines, { log: this.log.checked, label: `Curve of ${name} by step: ${words}` });
  }
}

function lookOf(place) {
  return place <= 0 ? LATEST : { width: 1.4, alpha: 0.85, ...EARLIER[(place - 1) % EARLIER.length] };
}
