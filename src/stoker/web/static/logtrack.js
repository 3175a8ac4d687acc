// The scrollbar of a whole log, of which a pane holds only a part: where one is, where the hits are, and how to get
// elsewhere.

import { h, setHidden } from "./dom.js";

const LEAST = 0.03; // of the height, so that the thumb can be taken hold of
const MARKS = 150; // that can be told apart

// Top and height of the thumb, as parts of the track, for the bytes that are seen.
export function thumbOf([from, to], size) {
  const height = Math.max(LEAST, Math.min(1, (to - from) / size));
  return { top: Math.min(1 - height, (from / size) * (size > to - from ? (1 - height) / (1 - (to - from) / size) : 1)),
    height };
}

// Where hits are, as numbers of the places that can be told apart; each place once.
export function marksOf(hits, size) {
  return [...new Set(hits.map((at) => Math.min(MARKS - 1, Math.floor((at / size) * MARKS))))];
}

export class LogTrack {
  constructor(go) {
    this.thumb = h("i", { class: "thumb" });
    this.marks = h("div", {});
    this.element = h("div", { class: "track-of-log", "aria-hidden": "true", title: "The whole log" }, this.marks,
      this.thumb);
    const toPointer = (event) => {
      const box = this.element.getBoundingClientRect();
      go(Math.max(0, Math.min(0.999999, (event.clientY - box.top) / box.height)));
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      event.preventDefault();
      toPointer(event);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (this.element.hasPointerCapture(event.pointerId)) toPointer(event);
    });
  }

  show(seen, size, hits) {
    setHidden(this.element, seen[1] - seen[0] >= size);
    const { top, height } = thumbOf(seen, size);
    this.thumb.style.top = `${(100 * top).toFixed(2)}%`;
    this.thumb.style.height = `${(100 * height).toFixed(2)}%`;
    if (this.hits === hits && this.counted === hits.length && this.size === size) return;
    Object.assign(this, { hits, counted: hits.length, size });
    this.marks.replaceChildren(...marksOf(hits, size).map((place) => {
      const mark = h("i", { class: "hitmark" });
      mark.style.top = `${(100 * place) / MARKS}%`;
      return mark;
    }));
  }
}
