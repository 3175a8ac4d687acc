// Small plots, drawn by hand: lines over time.

import { h, hideTip, setHidden, setText, showTip, svg } from "./dom.js";
import { duration, gib, hourMinute } from "./format.js";

const WIDTH = 300;
const HEIGHT = 44;

// A place on a line for each reading; a gap in time is a gap in the line.
function path(xs, ys, breakAt) {
  let text = "";
  let pen = false;
  for (let i = 0; i < xs.length; i += 1) {
    if (ys[i] === null || Number.isNaN(ys[i])) {
      pen = false;
      continue;
    }
    if (i && xs[i] - xs[i - 1] > breakAt) pen = false;
    text += `${pen ? "L" : "M"}${xs[i].toFixed(1)} ${ys[i].toFixed(1)}`;
    pen = true;
  }
  return text;
}

// The use and the memory of a GPU over the last minutes; beside it what its height and its width mean.
export class Sparkline {
  constructor() {
    this.use = svg("path", { class: "use-line" });
    this.memory = svg("path", { class: "memory-line" });
    this.picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      ...[0.5, HEIGHT / 2, HEIGHT - 0.5].map((y) => svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: y, y2: y })),
      this.memory, this.use);
    this.since = h("span", { class: "since" });
    this.scale = h("div", { class: "scale", "aria-hidden": "true" }, h("span", { class: "top" }, "100 %"), this.since);
    this.element = h("div", { class: "spark", title: "The last minutes: use (green) and memory (blue)" }, this.picture,
      this.scale);
  }

  show(history, memoryMib) {
    const at = history?.at_ms || [];
    if (at.length < 2) return;
    const key = `${at[0]} ${at[at.length - 1]} ${at.length}`;
    if (key === this.key) return;
    this.key = key;
    const from = at[0];
    const span = Math.max(1, at[at.length - 1] - from);
    setText(this.since, `${duration(span)} ago`);
    const xs = at.map((one) => ((one - from) / span) * WIDTH);
    const y = (part) => HEIGHT - 2 - Math.max(0, Math.min(1, part)) * (HEIGHT - 4);
    const use = (history.use_percent || []).map((one) => (one === null ? null : y(one / 100)));
    const memory = at.map((_, i) => {
      const mib = (history.ours_mib?.[i] ?? 0) + (history.others_mib?.[i] ?? 0);
      return memoryMib ? y(mib / memoryMib) : null;
    });
    this.use.setAttribute("d", path(xs, use, WIDTH / 4));
    this.memory.setAttribute("d", path(xs, memory, WIDTH / 4));
  }
}

const PLOT = { height: 180, left: 60, right: 48, top: 10, bottom: 22 };

// Memory and use of a job over its time, with axes.
export class JobPlot {
  constructor() {
    this.words = h("p", { class: "dim" }, "Not measured: nothing tells what this job uses.");
    this.picture = svg("svg", { role: "img", "aria-label": "GPU memory and use over time" });
    this.capacity = h("span", { class: "of-capacity" });
    this.memory = h("span", { class: "of-memory" }, "memory");
    this.parts = h("span", {});
    this.key = h("p", { class: "key" }, this.memory, this.parts, " ",
      h("span", { class: "of-use" }, "use"), " ", this.capacity);
    this.element = h("div", { class: "jobplot" }, this.words, this.key, this.picture);
    this.picture.addEventListener("pointermove", (event) => this.#point(event));
    this.picture.addEventListener("pointerleave", hideTip);
  }

  // The words below say how long the attempt had run, whenever it was first measured.
  show(history, startedMs = null, capacityMib = null) {
    const at = history?.at_ms || [];
    const some = at.length > 1;
    setHidden(this.words, some);
    setHidden(this.key, !some);
    this.picture.toggleAttribute("hidden", !some);
    this.history = some ? history : null;
    if (!some) return;
    const { height, left, right, top, bottom } = PLOT;
    const width = Math.max(280, this.element.clientWidth);
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const from = at[0];
    const span = Math.max(1, at[at.length - 1] - from);
    const memory = history.mem_mib || [];
    const ticks = memoryTicks(Math.max(1, capacityMib ?? 0, ...memory.filter((one) => one !== null)));
    const most = ticks.at(-1);
    const x = (ms) => left + ((ms - from) / span) * (width - left - right);
    const y = (part) => height - bottom - part * (height - top - bottom);
    const marks = [];
    for (const mib of ticks) {
      marks.push(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(mib / most), y2: y(mib / most) }));
      marks.push(label(left - 6, y(mib / most) + 4, mib ? gib(mib) : "0", "end"));
    }
    for (const part of [0, 0.5, 1]) {
      marks.push(label(width - right + 6, y(part) + 4, `${part * 100} %`, "start"));
    }
    if (capacityMib) {
      const at = y(capacityMib / most);
      marks.push(svg("line", { class: "capacity", x1: left, x2: width - right, y1: at, y2: at }));
    }
    setHidden(this.capacity, !capacityMib);
    setText(this.capacity, capacityMib ? `${gib(capacityMib)} on the GPU` : "");
    for (const part of [0, 0.5, 1]) {
      const ms = from + span * part;
      const words = span < 3_600_000 ? duration(ms - Math.min(from, startedMs ?? from)) : hourMinute(ms);
      marks.push(label(x(from + span * part), height - 5, words, part === 0 ? "start" : part === 1 ? "end" : "middle"));
    }
    const xs = at.map(x);
    const gap = (width - left - right) / 4;
    const use = (history.use_percent || []).map((one) => (one === null ? null : y(one / 100)));
    const mem = memory.map((one) => (one === null ? null : y(one / most)));
    this.picture.replaceChildren(...marks,
      svg("path", { class: "use-line", d: path(xs, use, gap) }),
      ...partsOf(history).flatMap(([gpu, part], place) => {
        const title = svg("title", {});
        setText(title, `memory on GPU ${gpu}`);
        return svg("path", { class: `memory-line part tone-${place % 8}`,
          d: path(part.at_ms.map(x), part.mem_mib.map((one) => (one === null ? null : y(one / most))), gap) }, title);
      }),
      partsOf(history).length ? "" : svg("path", { class: "memory-line", d: path(xs, mem, gap) }));
    this.#nameParts(partsOf(history).map(([gpu]) => gpu));
    this.scale = { from, span, left, width, inner: width - left - right };
  }

  // One line per GPU of a job that has several, each with its colour in the key.
  #nameParts(names) {
    setText(this.memory, names.length ? "memory on GPU" : "memory");
    if (this.parts.dataset.of === names.join()) return;
    this.parts.dataset.of = names.join();
    this.parts.replaceChildren(...names.map((gpu, place) => h("b", { class: `tone-${place % 8}` }, ` ${gpu}`)));
  }

  #point(event) {
    if (!this.history) return;
    const box = this.picture.getBoundingClientRect();
    const { from, span, left, width, inner } = this.scale;
    const x = ((event.clientX - box.left) / box.width) * width;
    const ms = from + ((x - left) / inner) * span;
    const at = this.history.at_ms;
    let place = at.findIndex((one) => one >= ms);
    if (place < 0) place = at.length - 1;
    const memory = this.history.mem_mib?.[place];
    const use = this.history.use_percent?.[place];
    const parts = partsOf(this.history).map(([gpu, part]) => [gpu, part.mem_mib[nearest(part.at_ms, at[place])]]);
    showTip(event, h("b", {}, hourMinute(at[place])),
      ...parts.map(([gpu, mib]) => h("div", {}, `GPU ${gpu}: ${gib(mib)}`)),
      parts.length || memory === null || memory === undefined ? "" : `memory ${gib(memory)} `,
      use === null || use === undefined ? "" : `use ${use} %`);
  }
}

function partsOf(history) {
  return Object.entries(history.gpus || {}).filter(([, part]) => part.at_ms.length > 1);
}

function nearest(at, ms) {
  const place = at.findIndex((one) => one >= ms);
  return place < 0 ? at.length - 1 : place;
}

export function label(x, y, words, anchor, more = {}) {
  const text = svg("text", { x, y, "text-anchor": anchor, ...more });
  setText(text, words);
  return text;
}

// From nothing to at least so much, in steps of whole GiB; of less than one GiB in steps of a power of two.
export function memoryTicks(mostMib) {
  const steps = mostMib > 1024 ? [1, 2, 4, 8, 10, 16, 20, 32, 40, 64, 100, 200, 500].map((gib) => gib * 1024)
    : [16, 64, 128, 256, 512];
  const step = steps.find((one) => mostMib / one <= 4) ?? steps.at(-1);
  return Array.from({ length: Math.max(1, Math.ceil(mostMib / step)) + 1 }, (_, place) => place * step);
}

export function nice(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= most) || most;
}
