// All curves of a sweep in one chart, the best of them thick; and which metric that is.

import { get } from "./api.js";
import { CurveChart, numberOf, numberText } from "./chart.js";
import { summaryText } from "./curves.js";
import { h, setHidden, setText } from "./dom.js";
import { count, valueText } from "./format.js";

const EVERY_MS = 4000;
const MOST = 200;
const MOST_NAMES = 200;

// Which metric is shown, and whether its lowest or highest value is best; the server proposes both.
export class MetricChoice {
  constructor(changed) {
    this.metric = h("select", { "aria-label": "Metric", onchange: () => {
      this.wanted = { metric: this.metric.value };
      changed();
    } });
    this.goal = h("select", { "aria-label": "Which is best", onchange: () => {
      this.wanted = { metric: this.metric.value, goal: this.goal.value };
      changed();
    } }, h("option", { value: "min" }, "lowest"), h("option", { value: "max" }, "highest"));
    this.log = h("input", { type: "checkbox", onchange: () => changed() });
    this.parts = [h("label", {}, "of ", this.metric), h("label", {}, "best is the ", this.goal),
      h("label", { class: "tick" }, this.log, "logarithmic")];
    this.wanted = {};
  }

  show({ names, metric, goal }) {
    const known = names.map(([name]) => name).slice(0, MOST_NAMES);
    if (!known.includes(metric)) known.push(metric);
    const key = JSON.stringify(known);
    if (this.drawn !== key) {
      this.drawn = key;
      this.metric.replaceChildren(...known.map((name) => h("option", { value: name, dir: "auto" }, name)));
    }
    this.metric.value = metric;
    this.goal.value = goal;
  }
}

export function bestOf(curve, goal) {
  return goal === "max" ? [numberOf(curve.max), numberOf(curve.max_step)]
    : [numberOf(curve.min), numberOf(curve.min_step)];
}

export class SweepCurves {
  // choice: the points that are ticked, which a click on a curve changes.
  constructor(name, choice) {
    this.name = name;
    this.points = new Map();
    this.varied = [];
    this.choice = choice;
    this.which = new MetricChoice(() => this.ask(true));
    this.words = h("p", { class: "dim num words" });
    this.chart = new CurveChart({ label: "Curves", height: 340, pick: (curve) => choice.toggle(curve.id),
      tip: (curve, step, value) => this.#tip(curve, step, value) });
    this.element = h("section", { class: "card pad curves", hidden: true },
      h("div", { class: "bar" }, h("h2", {}, "Curves"), ...this.which.parts), this.words, this.chart.element);
    this.timer = setInterval(() => this.#again(), EVERY_MS);
    choice.listen(() => this.answer && this.draw());
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    this.chart.close();
  }

  // The sweep as it is now, and which jobs are best by which metric and goal, if that was found.
  show({ points, varied }, best) {
    const changed = JSON.stringify(best) !== JSON.stringify(this.best);
    this.best = best;
    this.points = new Map(points.flatMap((point) => point.ids.map((id) => [id, point])));
    this.varied = varied;
    const states = points.reduce((sum, point) => sum + point.ended, points.length * 1e6);
    this.live = points.some((point) => /\b(running|stopping)\b/.test(point.state));
    if (this.states !== states) this.ask(!this.answer);
    this.states = states;
    if (changed && this.answer) this.draw();
  }

  // The metric that the other pictures show is shown here, too, until another is chosen here.
  follow(metric, goal) {
    const key = JSON.stringify([metric, goal]);
    if (this.followed === key) return;
    this.followed = key;
    if (this.answer && this.answer.metric === metric && this.answer.goal === goal) return;
    this.which.wanted = { metric, goal };
    this.ask(true);
  }

  #again() {
    if (!document.hidden && (this.live || this.missing || this.stale)) this.ask(true);
  }

  // While many points end, the timer asks for all of them at once.
  async ask(now) {
    if (this.asking || !now) {
      this.stale = true;
      return;
    }
    this.asking = true;
    this.stale = this.missing = false;
    const { wanted } = this.which;
    try {
      const answer = await get("/api/sweep/curves", { name: this.name, most: MOST, ...wanted });
      this.missing = answer.unread > 0;
      if (!this.closed && wanted === this.which.wanted) {
        this.answer = answer;
        this.draw();
      }
    } catch {
      this.missing = true; // The next time will do.
    }
    this.asking = false;
    if (wanted !== this.which.wanted && !this.closed) this.ask(true);
  }

  draw() {
    const { curves, metric, goal, total, names } = this.answer;
    setHidden(this.element, names.length === 0);
    if (!names.length) return;
    this.which.show(this.answer);
    const best = Math.ceil(MOST / 2);
    const limit = total > curves.length
      ? `${curves.length} of ${total.toLocaleString("en")} curves: the best ${best} and a spread of the rest. `
      : `${count(total, "curve")}. `;
    const thick = this.#marked();
    const first = thick.length === 1 ? curves.find((curve) => curve.job === thick[0]) : null;
    const words = thick.length > 1 ? `Pareto front: ${count(thick.length, "point")}.`
      : thick.length ? `Best: job ${thick[0]}${first ? `, ${summaryText(first, goal)}` : ""}.` : "";
    setText(this.words, limit + words);
    const lines = curves.map((curve, place) => ({ id: curve.job, points: curve.points, about: curve,
      ...this.#look(curve.job, place, thick) }));
    const label = `Curves of ${metric} by step. ${limit}${words}`;
    lines.reverse().sort((a, b) => thick.includes(a.id) - thick.includes(b.id));
    this.chart.show(lines, { log: this.which.log.checked, label });
  }

  // Repeats are judged together, and several goals too: where the results know it, theirs is the best.
  #marked() {
    const { metric, goal, best } = this.answer;
    if (this.best && this.best[0] === metric && this.best[1] === goal) return this.best[2];
    return best === null ? [] : [best];
  }

  #look(id, place, thick) {
    if (thick.includes(id)) return { tone: "tone-best", width: 3.4 };
    if (this.choice.has(id)) return { tone: "tone-hot", width: 2.4 };
    const many = this.answer.curves.length > 30;
    return { tone: "tone-rest", hotTone: "tone-hot", width: 1.2, alpha: !many ? 0.75 : place < MOST / 2 ? 0.45 : 0.25 };
  }

  #tip(curve, step, value) {
    const point = this.points.get(curve.id);
    const [best, at] = bestOf(curve.about, this.answer.goal);
    const params = point ? this.varied.filter((name) => Object.hasOwn(point.params, name)) : [];
    return [h("b", {}, `${curve.id}${point ? ` ${point.state}` : ""}`),
      ...params.map((name) => h("div", {}, h("bdi", {}, `${name} = ${valueText(point.params[name])}`))),
      h("div", {}, `step ${numberText(step)}: ${numberText(value)}`),
      best === null ? "" : h("div", { class: "dim" }, `best ${numberText(best)} at step ${numberText(at)}`)];
  }
}
