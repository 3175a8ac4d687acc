// A chart of curves. Axes, zoom and canvas are uPlot's; the lines are drawn here, since each has its own steps.

import { h, hideTip, setHidden, showTip, svg } from "./dom.js";
import uPlot from "./vendor/uPlot.esm.js";

const NEAR_PX = 40; // Of many curves, only one as near as this is pointed at.
const FEW = 8;
const PAD = 0.06;
const TONES = ["tone-0", "tone-1", "tone-2", "tone-3", "tone-4", "tone-5", "tone-6", "tone-7"];
const DASHES = [[], [7, 4], [2, 3]];

// How the curve at a place among a few looks: a colour, and when those are used up, another line.
export function look(place) {
  return { tone: TONES[place % TONES.length], dash: DASHES[Math.floor(place / TONES.length) % DASHES.length] };
}

// A piece of such a line, for tables and keys.
export function sample({ tone, dash = [] }) {
  return svg("svg", { class: `sample ${tone}`, viewBox: "0 0 26 6", "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 26, y1: 3, y2: 3, "stroke-dasharray": dash.join(" ") || null }));
}

// What the server says of a number: nan and inf are text.
export function numberOf(said) {
  if (said === null || said === undefined) return null;
  if (typeof said === "number") return said;
  return { nan: NaN, inf: Infinity, "-inf": -Infinity }[said] ?? null;
}

function inPowers(number, digits) {
  return number.toExponential(digits).replace(/\.?0+e/, "e").replace("+", "");
}

export function numberText(number) {
  if (number === null || number === undefined) return "";
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  const size = Math.abs(number);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return inPowers(number, 3);
  return String(Number(number.toPrecision(5)));
}

function axisText(number, gap) {
  const size = Math.abs(number);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return inPowers(number, 2);
  let digits = 0; // as many as tell the marks apart
  while (digits < 6 && Math.abs(gap * 10 ** digits - Math.round(gap * 10 ** digits)) > 1e-6) digits += 1;
  return number.toFixed(digits);
}

const marks = (u, splits) => splits.map((one, place) => (one === null ? "" : axisText(one,
  Math.abs((splits[place + 1] ?? splits[place - 1] ?? one + 1) - one) || 1)));

export class CurveChart {
  // tip(curve, step, value): what is said of a place; pick(curve): it was clicked.
  constructor({ label, height = 200, tip, pick = null }) {
    this.height = height;
    this.tipOf = tip;
    this.pick = pick;
    this.curves = [];
    this.log = false;
    this.hot = null;
    this.at = null; // the place that the keys are at: of which curve, and which of its points
    this.window = [0, 1];
    this.reset = h("button", { type: "button", class: "small zoomout", hidden: true, onclick: () => this.#whole() },
      "Zoom out");
    this.box = h("div", { class: "canvas", tabIndex: 0, role: "img", "aria-label": label });
    this.above = h("canvas", { class: "hotline", hidden: true });
    this.dot = h("div", { class: "hotdot", hidden: true });
    this.element = h("div", { class: "curvechart" }, this.box, this.reset);
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.box.addEventListener("blur", () => this.#leave());
    this.watch = new ResizeObserver(() => this.#resize());
    this.watch.observe(this.element);
    this.recolour = () => {
      this.colours = null;
      this.plot?.redraw(false, true);
    };
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", this.recolour);
    this.theme = new MutationObserver(this.recolour);
    this.theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  close() {
    this.watch.disconnect();
    this.theme.disconnect();
    this.scheme.removeEventListener("change", this.recolour);
    this.plot?.destroy();
    this.plot = null;
  }

  // curves: { id, points, tone, hotTone, width, alpha, dash }, the ones drawn last on top.
  show(curves, { log = false, label = "" } = {}) {
    if (label) this.box.setAttribute("aria-label", label);
    this.curves = curves.map((curve) => ({ width: 1.6, alpha: 1, dash: [], hotTone: curve.tone, ...curve,
      ...split(curve.points) }));
    this.hot = this.curves.find((curve) => curve.id === this.hot?.id) || null;
    this.at = null;
    const all = this.curves.flatMap((curve) => [curve.low, curve.high]).filter(Number.isFinite);
    this.whole = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
    this.places = null;
    const zoomed = this.plot && !this.reset.hidden;
    if (this.plot && log !== this.log) {
      this.plot.destroy();
      this.plot = null;
    }
    this.log = log;
    if (this.plot) {
      this.plot.setData(this.#frame(), !zoomed);
      if (zoomed) this.plot.redraw(); // The part that is seen stays, and uPlot would leave the picture as it was.
    } else this.#make();
  }

  // uPlot is told where the steps begin and end; it has no line of its own.
  #frame() {
    return [this.whole, [null, null]];
  }

  #make() {
    const width = this.element.clientWidth;
    if (!width) return; // It is made when it is seen.
    const colour = (name) => () => this.#colour(name);
    const axis = { stroke: colour("tone-text"), grid: { stroke: colour("tone-grid"), width: 1 },
      ticks: { stroke: colour("tone-grid"), width: 1, size: 4 }, font: "12px system-ui, sans-serif", values: marks };
    this.plot = new uPlot({
      width, height: this.height,
      padding: [8, 12, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, dist: 6 } },
      scales: {
        x: { time: false, range: (u, low, high) => this.#across(low, high) },
        y: { auto: true, distr: this.log ? 3 : 1, log: 10, range: () => this.#down() },
      },
      series: [{}, { scale: "y", paths: () => null, points: { show: false } }],
      axes: [{ ...axis, space: 60, size: 24, gap: 3, label: "step", labelSize: 15, labelGap: 0, labelFont: axis.font },
        { ...axis, size: (u, words) => 14 + 7 * Math.max(2, ...(words || []).map((word) => word.length)),
          ...(this.log ? { values: (u, splits) => splits.map((one) => (one === null ? "" : numberText(one))) } : {}) }],
      hooks: { draw: [() => this.#draw()] },
    }, this.#frame(), this.box);
    const { over } = this.plot;
    over.before(this.above);
    over.append(this.dot);
    over.addEventListener("pointermove", (event) => this.#point(event));
    over.addEventListener("pointerdown", (event) => this.#point(event));
    over.addEventListener("pointerleave", () => this.#leave());
    over.addEventListener("click", () => this.hot && this.pick?.(this.hot));
  }

  #resize() {
    const width = this.element.clientWidth;
    if (!width || !this.curves.length) return;
    if (!this.plot) this.#make();
    else if (this.plot.width !== width) this.plot.setSize({ width, height: this.height });
  }

  #whole() {
    this.plot?.setData(this.#frame(), true);
  }

  #across(low, high) {
    let found = [low ?? 0, high ?? 1];
    if (found[0] === found[1]) found = [found[0] - 1, found[1] + 1];
    this.window = found;
    const [first, last] = this.whole;
    setHidden(this.reset, first === last || (found[0] <= first && found[1] >= last));
    return found;
  }

  // The values of what is seen of the curves.
  #down() {
    let [low, high] = [Infinity, -Infinity];
    const [from, to] = this.window;
    for (const { xs, ys } of this.curves) {
      for (let i = 0; i < xs.length; i += 1) {
        if (xs[i] < from || xs[i] > to || Number.isNaN(ys[i]) || (this.log && ys[i] <= 0)) continue;
        if (ys[i] < low) low = ys[i];
        if (ys[i] > high) high = ys[i];
      }
    }
    if (low > high) return this.log ? [0.1, 1] : [0, 1];
    if (this.log) return [10 ** (Math.log10(low) - PAD), 10 ** (Math.log10(high) + PAD)];
    const room = (high / 2 - low / 2) * 2 * PAD || Math.abs(high) * PAD || 1;
    return [Math.max(-Number.MAX_VALUE, low - room), Math.min(Number.MAX_VALUE, high + room)];
  }

  #colour(name) {
    if (!this.colours) this.colours = new Map();
    if (!this.colours.has(name)) {
      const probe = h("i", { class: name });
      this.box.append(probe);
      this.colours.set(name, getComputedStyle(probe).color);
      probe.remove();
    }
    return this.colours.get(name);
  }

  // Where the points are on the canvas, worked out once for each part of the steps that is seen.
  #placed() {
    const { bbox, scales } = this.plot;
    const key = [bbox.left, bbox.top, bbox.width, bbox.height, scales.x.min, scales.x.max, scales.y.min, scales.y.max]
      .join(" ");
    if (this.places?.key === key) return this.places.of;
    const of = new Map(this.curves.map((curve) => [curve, this.#places(curve)]));
    this.places = { key, of };
    return of;
  }

  #places({ xs, ys }) {
    const [px, py] = [new Float32Array(xs.length), new Float32Array(xs.length)];
    const line = new Path2D();
    const lone = new Path2D();
    let run = 0;
    for (let i = 0; i < xs.length; i += 1) {
      const none = Number.isNaN(ys[i]) || (this.log && ys[i] <= 0);
      px[i] = this.plot.valToPos(xs[i], "x", true);
      py[i] = none ? NaN : this.plot.valToPos(ys[i], "y", true);
      if (!none) {
        if (run) line.lineTo(px[i], py[i]);
        else line.moveTo(px[i], py[i]);
        run += 1;
      }
      if (run === 1 && (none || i === xs.length - 1)) {
        const at = none ? i - 1 : i;
        lone.moveTo(px[at] + 3 * devicePixelRatio, py[at]);
        lone.arc(px[at], py[at], 3 * devicePixelRatio, 0, 2 * Math.PI);
      }
      if (none) run = 0;
    }
    return { px, py, line, lone };
  }

  #draw() {
    const { ctx, bbox } = this.plot;
    const places = this.#placed();
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - 4, bbox.width + 6, bbox.height + 8);
    ctx.clip();
    ctx.lineJoin = "round";
    for (const curve of this.curves) this.#stroke(ctx, curve, places.get(curve));
    ctx.restore();
    this.#heat();
  }

  // The curve that is pointed at has a canvas of its own: to draw all again would be felt.
  #heat() {
    const { ctx: { canvas }, bbox } = this.plot;
    const { above, hot } = this;
    setHidden(above, !hot);
    if (!hot) return;
    if (above.width !== canvas.width || above.height !== canvas.height) {
      [above.width, above.height] = [canvas.width, canvas.height];
    }
    const ctx = above.getContext("2d");
    ctx.clearRect(0, 0, above.width, above.height);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - 4, bbox.width + 6, bbox.height + 8);
    ctx.clip();
    ctx.lineJoin = "round";
    this.#stroke(ctx, { ...hot, tone: hot.hotTone, width: hot.width + 1.2, alpha: 1 }, this.#placed().get(hot));
    ctx.restore();
  }

  #stroke(ctx, { tone, width, alpha, dash }, { line, lone }) {
    ctx.globalAlpha = alpha;
    ctx.strokeStyle = ctx.fillStyle = this.#colour(tone);
    ctx.lineWidth = width * devicePixelRatio;
    ctx.setLineDash(dash.map((one) => one * devicePixelRatio));
    ctx.stroke(line);
    ctx.fill(lone);
  }

  #point(event) {
    const { bbox, over } = this.plot;
    const box = over.getBoundingClientRect();
    const x = (event.clientX - box.left) * devicePixelRatio + bbox.left;
    const y = (event.clientY - box.top) * devicePixelRatio + bbox.top;
    let best = null;
    let least = this.curves.length > FEW ? (NEAR_PX * devicePixelRatio) ** 2 : Infinity;
    const places = this.#placed();
    for (const curve of this.curves) {
      const away = distance(places.get(curve), x, y);
      if (away <= least) [best, least] = [curve, away];
    }
    if (!best) return this.#leave();
    return this.#tell(best, nearest(places.get(best), x), event);
  }

  #tell(curve, place, event) {
    const { px, py } = this.#placed().get(curve);
    const { bbox } = this.plot;
    if (this.hot !== curve) {
      this.hot = curve;
      this.#heat();
    }
    const left = (px[place] - bbox.left) / devicePixelRatio;
    const top = Number.isNaN(py[place]) ? 0 : (py[place] - bbox.top) / devicePixelRatio;
    this.dot.className = `hotdot ${curve.hotTone}`;
    this.dot.style.transform = `translate(${left}px, ${top}px)`;
    setHidden(this.dot, Number.isNaN(py[place]));
    const box = this.plot.over.getBoundingClientRect();
    const at = event || { target: this.box, clientX: box.left + left, clientY: box.top + top };
    showTip(at, ...this.tipOf(curve, curve.xs[place], curve.said[place]));
  }

  #leave() {
    hideTip();
    this.at = null;
    setHidden(this.dot, true);
    if (!this.hot) return;
    this.hot = null;
    if (this.plot) this.#heat();
  }

  // Left and right along a curve, up and down to another one.
  #key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !this.plot || !this.curves.length) return;
    if (event.key === "Enter" && this.hot && this.pick) this.pick(this.hot);
    else if (event.key === "Escape" && (this.hot || !this.reset.hidden)) {
      if (this.hot) this.#leave();
      else this.#whole();
    } else if (step) {
      const last = this.curves.length - 1;
      const at = this.at || [last, -1];
      const curve = this.at ? Math.max(0, Math.min(last, at[0] + step[1])) : last;
      const most = this.curves[curve].xs.length - 1;
      this.at = [curve, Math.max(0, Math.min(most, at[1] + (this.at ? step[0] : 1)))];
      if (most >= 0) this.#tell(this.curves[curve], this.at[1], null);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

// Steps and values for drawing; a value that is not finite is a gap.
function split(points) {
  const known = points.map(([step, value]) => [numberOf(step), numberOf(value)])
    .filter(([step]) => Number.isFinite(step));
  const xs = known.map(([step]) => step);
  return {
    xs, said: known.map(([, value]) => value),
    ys: known.map(([, value]) => (Number.isFinite(value) ? value : NaN)),
    low: xs.reduce((a, b) => Math.min(a, b), Infinity), high: xs.reduce((a, b) => Math.max(a, b), -Infinity),
  };
}

// How far it is to a line, squared.
function distance({ px, py }, x, y) {
  let least = Infinity;
  for (let i = 0; i < px.length; i += 1) {
    if (Number.isNaN(py[i])) continue;
    const whole = i + 1 < px.length && !Number.isNaN(py[i + 1]);
    const [dx, dy] = whole ? [px[i + 1] - px[i], py[i + 1] - py[i]] : [0, 0];
    const long = dx * dx + dy * dy;
    const part = long ? Math.max(0, Math.min(1, ((x - px[i]) * dx + (y - py[i]) * dy) / long)) : 0;
    const away = (px[i] + part * dx - x) ** 2 + (py[i] + part * dy - y) ** 2;
    if (away < least) least = away;
  }
  return least;
}

// The point whose step is nearest.
function nearest({ px }, x) {
  let best = 0;
  for (let i = 1; i < px.length; i += 1) if (Math.abs(px[i] - x) < Math.abs(px[best] - x)) best = i;
  return best;
}
