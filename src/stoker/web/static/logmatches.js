// Only the lines of a log that show a text, each with its number.

import { get } from "./api.js";
import { pieces, span } from "./ansi.js";
import { h, setHidden, setText } from "./dom.js";
import { count } from "./format.js";

const MOST_SHOWN = 2000;

export class LogMatches {
  constructor(jobId, { go, link }) {
    this.jobId = jobId;
    this.go = go;
    this.link = link;
    this.list = h("div", { class: "lines" });
    this.note = h("p", { class: "dim note" });
    this.more = h("button", { type: "button", class: "small", hidden: true, onclick: () => this.#read() }, "More");
    this.element = h("div", { class: "matches", hidden: true }, this.list, this.note, this.more);
  }

  // Of null, nothing is shown.
  show(text, which) {
    setHidden(this.element, text === null);
    const key = JSON.stringify([text, which]);
    if (text === null || key === this.key) return;
    this.key = key;
    this.text = text;
    this.which = which;
    this.following = 0;
    this.shown = 0;
    this.list.replaceChildren();
    setHidden(this.more, true);
    if (text) this.#read();
    else setText(this.note, "Type what to look for above, and press Enter.");
  }

  lookAt(at) {
    for (const line of this.list.querySelectorAll(".hit")) line.classList.remove("hit");
    const line = this.list.querySelector(`[data-at="${at}"]`);
    line?.classList.add("hit");
    line?.scrollIntoView({ block: "center" });
  }

  async #read() {
    const { key } = this;
    setHidden(this.more, true);
    const until = this.shown + MOST_SHOWN;
    while (this.following !== null && this.shown < until) {
      setText(this.note, `${count(this.shown, "line")}, still searching…`);
      try {
        const answer = await get(`/api/jobs/${this.jobId}/log/search`,
          { ...this.which, text: this.text, after: this.following });
        if (key !== this.key) return;
        this.following = answer.next;
        this.shown += answer.matches.length;
        this.list.append(...answer.matches.map((match) => this.#line(match)));
      } catch (error) {
        setText(this.note, `${error.message}. ${error.hint}`);
        return;
      }
    }
    setText(this.note, this.shown ? count(this.shown, "line") : "No line shows that.");
    setHidden(this.more, this.following === null);
  }

  #line({ at, line, text }) {
    const [found] = pieces(text);
    const number = h("a", { class: "n", href: this.link(at), "aria-label": line ? `line ${line}` : "to this line",
      data: { n: line ?? "·" } });
    return h("div", { class: "line", data: { at } }, number, ...found.map(([part, look]) => span(part, look)));
  }
}
