// The jobs around one as a picture: what it waits for, and what waits for it. Each leads to its job.

import { get } from "./api.js";
import { h, setHidden, svg } from "./dom.js";
import { count } from "./format.js";
import { BOX, picture } from "./layers.js";

const EVERY_MS = 5000;

export class Related {
  constructor(id) {
    this.id = id;
    this.ids = new Set([id]);
    this.canvas = h("div", { class: "related" });
    this.note = h("p", { class: "dim" });
    this.element = h("section", { class: "card pad", hidden: true, "aria-label": "Waits for, and waited for by" },
      h("h2", {}, "Waits for → this job → waits for it"), h("div", { class: "scroll-x" }, this.canvas), this.note);
    this.timer = null;
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }

  hear({ changed, many }) {
    if (many || changed.some((id) => this.ids.has(id))) this.soon();
  }

  soon() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.ask();
    }, EVERY_MS);
  }

  async ask() {
    try {
      const answer = await get(`/api/jobs/${this.id}/related`);
      if (!this.closed) this.show(answer);
    } catch {
      // The next time will do.
    }
  }

  show({ jobs, links, more }) {
    setHidden(this.element, !links.length);
    const key = JSON.stringify([jobs, links]);
    if (!links.length || key === this.key) return;
    this.key = key;
    this.ids = new Set(jobs.map((job) => job.id));
    const { width, height, boxes, rests, lines } = picture(this.id, jobs, links);
    const focus = this.canvas.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.canvas.style.width = `${width}rem`;
    this.canvas.style.height = `${height}rem`;
    this.canvas.replaceChildren(
      svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
        lines.map(({ path, must }) => svg("path", { d: path, class: must ? "must" : "any" }))),
      ...boxes.map(({ job, x, y }) => placed(h(job.id === this.id ? "b" : "a", {
        class: "box cut state", data: { state: job.state }, title: `${job.id} ${job.name || ""}: ${job.state}`,
        ...(job.id === this.id ? {} : { href: `#/job/${job.id}` }),
      }, h("span", { class: "cut" }, h("span", { class: "num" }, `${job.id} `), h("bdi", {}, job.name || ""),
        h("span", { class: "hidden" }, ` ${job.state}`))), x, y)),
      ...rests.map(({ number, x, y }) => placed(h("span", { class: "box dim" }, `and ${number} more`), x, y)));
    const own = this.canvas.querySelector("b");
    const view = this.canvas.parentElement;
    if (!this.seen) view.scrollLeft = own.offsetLeft + own.offsetWidth / 2 - view.clientWidth / 2;
    this.seen = true;
    if (focus) this.canvas.querySelector(`[href="${CSS.escape(focus)}"]`)?.focus();
    const waits = links.some(([, , must]) => !must) ? "Dashed: it only has to end. " : "";
    this.note.textContent = waits + (more ? `There are more jobs; of each step ${count(40, "link")} are shown.` : "");
  }
}

function placed(element, x, y) {
  element.style.left = `${x}rem`;
  element.style.top = `${y}rem`;
  element.style.width = `${BOX.width}rem`;
  element.style.height = `${BOX.height}rem`;
  return element;
}
