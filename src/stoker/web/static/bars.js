// Stacked bars over stretches of time, with axes, and a tip that says what a bar is made of.

import { h, hideTip, showTip, svg } from "./dom.js";
import { label, nice } from "./plot.js";

const SIZE = { height: 170, left: 46, right: 8, top: 8, bottom: 22 };

// Where an axis ends whose middle is a round number of units as well.
export function topOf(most, unit) {
  return 2 * unit * Math.max(1, Math.ceil(nice(Math.max(most / unit / 2, 1e-9))));
}

export class Bars {
  // words(value): a value as it is said, also beside its axis.
  constructor({ title, words }) {
    this.words = words;
    this.picture = svg("svg", { role: "img", class: "bars", "aria-label": title });
    this.title = title;
    this.key = h("p", { class: "key dim" });
    this.element = h("div", {}, this.key, this.picture);
    this.picture.addEventListener("pointermove", (event) => this.#point(event));
    this.picture.addEventListener("pointerleave", hideTip);
  }

  // layers: [{ name, look or state, values }]; limit: { name, values }, which can't be exceeded, drawn as a line;
  // unit: of what the axis has whole numbers.
  show(layers, { names, limit = null, unit = 1 }) {
    Object.assign(this, { layers, names });
    const { height, left, right, top, bottom } = SIZE;
    const width = Math.max(280, this.element.clientWidth);
    const totals = names.map((_, place) => layers.reduce((sum, one) => sum + (one.values[place] ?? 0), 0));
    const most = topOf(Math.max(...totals, ...(limit?.values ?? [])), unit);
    const step = (width - left - right) / names.length;
    const x = (place) => left + place * step;
    const y = (value) => height - bottom - (value / most) * (height - top - bottom);
    const marks = [];
    for (const part of [0, 0.5, 1]) {
      marks.push(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(most * part), y2: y(most * part) }));
      marks.push(label(left - 6, y(most * part) + 4, this.words(most * part), "end"));
    }
    const every = Math.ceil(names.length / Math.max(2, Math.floor(width / 90)));
    names.forEach((name, place) => {
      if ((names.length - 1 - place) % every === 0) marks.push(label(x(place) + step / 2, height - 6, name, "middle"));
    });
    totals.forEach((_, place) => {
      let below = 0;
      for (const { look, state, values } of layers) {
        const value = values[place] ?? 0;
        if (value > 0) {
          marks.push(svg("rect", { class: `layer ${look ?? ""}`, "data-state": state,
            x: x(place) + step * 0.1, width: Math.max(1, step * 0.8),
            y: y(below + value), height: Math.max(0.5, y(below) - y(below + value)) }));
        }
        below += value;
      }
    });
    if (limit) {
      const points = limit.values.flatMap((value, place) => [`${x(place)} ${y(value)}`, `${x(place + 1)} ${y(value)}`]);
      marks.push(svg("path", { class: "capacity", d: `M${points.join("L")}` }));
    }
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.replaceChildren(...marks);
    this.scale = { left, step, width };
    this.key.replaceChildren(...layers.map(({ name, look, state }) =>
      h("span", {}, h("i", { class: `swatch ${look ?? ""}`, data: state ? { state } : {} }), " ", h("bdi", {}, name))),
    limit ? h("span", { class: "of-capacity" }, limit.name) : "");
  }

  #point(event) {
    const box = this.picture.getBoundingClientRect();
    const { left, step, width } = this.scale;
    const place = Math.floor((((event.clientX - box.left) / box.width) * width - left) / step);
    if (!this.names[place]) {
      hideTip();
      return;
    }
    const lines = this.layers.filter(({ values }) => values[place])
      .map(({ name, values }) => h("div", {}, h("bdi", {}, name), ` ${this.words(values[place])}`));
    showTip(event, h("b", {}, this.names[place]), ...(lines.length ? lines.reverse() : ["nothing"]));
  }
}
