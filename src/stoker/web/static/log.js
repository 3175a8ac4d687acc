// A log of any size: the lines around what is seen are there, more are asked for on the way.

import { get, post } from "./api.js";
import { PLAIN, pieces, plainText, span } from "./ansi.js";
import { errorBox, h, setHidden, setText } from "./dom.js";
import { bytes } from "./format.js";

const STEP_BYTES = 65_536;
const MOST_LINES = 3000;
const NEAR_PX = 600;
const FOLLOW_MS = 700;
const STILL_MS = 3000;
const MOST_HITS = 1_000_000; // that a tab has room for; the page says so if there are more

export class LogPane {
  constructor(jobId) {
    this.jobId = jobId;
    this.attempt = null;
    this.err = false;
    this.running = false;
    this.follow = true;
    this.start = 0;
    this.end = 0;
    this.size = 0;
    this.busy = false;
    this.hits = [];
    this.hit = -1;
    this.sought = "";

    this.lines = h("div", { class: "lines" });
    this.box = h("div", { class: "log", tabIndex: 0, role: "log", "aria-label": "Log", "aria-live": "off",
      onscroll: () => this.#scrolled() }, this.lines);
    this.trouble = errorBox();
    this.place = h("span", { class: "dim num place" });
    this.followBox = h("input", { type: "checkbox", checked: true,
      onchange: () => this.#setFollow(this.followBox.checked) });
    this.wrapBox = h("input", { type: "checkbox",
      onchange: () => this.box.classList.toggle("wrap", this.wrapBox.checked) });
    this.errBox = h("input", { type: "checkbox",
      onchange: () => this.show(this.attempt, { err: this.errBox.checked, running: this.running }) });
    this.errLabel = h("label", { hidden: true }, this.errBox, " errors");
    this.seek = h("input", { type: "search", placeholder: "Search in the log…", "aria-label": "Search in the log" });
    this.found = h("span", { class: "dim num found" });
    this.seek.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        if (this.seek.value !== this.sought) this.search();
        else this.next(event.shiftKey ? -1 : 1);
      }
    });
    this.seek.addEventListener("input", () => {
      if (!this.seek.value) this.search();
    });
    this.element = h("section", { class: "card logpane", "aria-label": "Log" },
      h("div", { class: "bar tools" },
        h("h2", {}, "Log"),
        h("label", {}, this.followBox, " follow"),
        h("label", {}, this.wrapBox, " wrap"),
        this.errLabel,
        h("button", { type: "button", class: "small", onclick: () => this.#goStart() }, "Start"),
        h("button", { type: "button", class: "small", onclick: () => this.#setFollow(true) }, "End"),
        this.seek,
        h("button", { type: "button", class: "small", "aria-label": "Previous match", onclick: () => this.next(-1) },
          "↑"),
        h("button", { type: "button", class: "small", "aria-label": "Next match",
          onclick: () => (this.seek.value !== this.sought ? this.search() : this.next(1)) }, "↓"),
        this.found,
        h("span", { class: "grow" }),
        this.place,
        h("button", { type: "button", class: "small", onclick: () => this.#download() }, "Download")),
      this.trouble.element,
      this.box);
  }

  // ---- which log

  async show(attempt, { err = false, hasErr = false, running = false } = {}) {
    this.attempt = attempt;
    this.err = err;
    this.running = running;
    if (hasErr) setHidden(this.errLabel, false);
    this.#forget();
    this.follow = true;
    this.followBox.checked = true;
    await this.#load({});
    this.#toEnd();
    this.#again();
  }

  // To the last line that has this text, be it among the errors.
  async find(text) {
    for (const err of this.errLabel.hidden ? [this.err] : [true, false]) {
      if (err !== this.err) {
        this.errBox.checked = err;
        await this.show(this.attempt, { err, running: this.running });
      }
      this.seek.value = text.replace(/…$/, "");
      await this.search();
      if (this.hits.length) return;
    }
  }

  setRunning(running) {
    if (this.running === running) return;
    this.running = running;
    this.#again(50);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }

  #forget() {
    this.lines.replaceChildren();
    this.start = 0;
    this.end = 0;
    this.size = 0;
    this.last = null;
    this.style = PLAIN;
    this.search("");
  }

  // ---- reading

  #query(more) {
    return { attempt: this.attempt, err: this.err || undefined, bytes: STEP_BYTES, ...more };
  }

  async #ask(more) {
    try {
      const answer = await get(`/api/jobs/${this.jobId}/log`, this.#query(more));
      this.trouble.clear();
      return answer;
    } catch (error) {
      if (error.code === "not_found" && this.running) setText(this.place, error.message);
      else if (error.status) this.trouble.show(error);
      return null;
    }
  }

  async #load(more) {
    const answer = await this.#ask(more);
    if (!answer || this.closed) return;
    this.lines.replaceChildren();
    this.style = PLAIN;
    this.start = answer.start;
    this.#append(answer);
    await this.#fill();
  }

  // What was loaded may be too little to fill the pane, and then it could not be scrolled for more.
  async #fill() {
    for (let tries = 0; tries < 20 && this.start > 0
      && this.box.scrollHeight <= this.box.clientHeight + NEAR_PX; tries += 1) {
      const before = this.start;
      await this.#earlier();
      if (this.start === before || this.closed) return;
    }
  }

  #append(answer) {
    // A line that had no end yet is read again from its beginning, and replaced.
    if (this.last !== null && this.last?.dataset.partial) {
      this.style = this.last.before;
      this.last.remove();
    }
    const fragment = document.createDocumentFragment();
    for (const line of answer.lines) {
      const element = this.#line(line, this.style);
      this.style = element.after;
      fragment.append(element);
    }
    const newest = fragment.lastElementChild;
    if (newest && answer.partial) newest.dataset.partial = "yes";
    this.lines.append(fragment);
    this.last = this.lines.lastElementChild;
    this.end = answer.end;
    this.size = answer.size;
    this.#trimTop();
    this.#tellPlace();
  }

  #line({ at, text }, style) {
    const [found, after] = pieces(text, style);
    const element = h("div", { class: "line", data: { at } }, ...found.map(([part, look]) => span(part, look)));
    element.before = style;
    element.after = after;
    const matches = this.sought && plainText(text).toLowerCase().includes(this.sought.toLowerCase());
    if (matches) element.classList.add("match");
    return element;
  }

  #trimTop() {
    const extra = this.lines.childElementCount - MOST_LINES;
    if (extra <= 0) return;
    const before = this.box.scrollHeight;
    for (let i = 0; i < extra; i += 1) this.lines.firstElementChild.remove();
    this.start = Number(this.lines.firstElementChild.dataset.at);
    if (!this.follow) this.box.scrollTop -= before - this.box.scrollHeight;
  }

  #trimBottom() {
    let extra = this.lines.childElementCount - MOST_LINES;
    while (extra > 0) {
      const line = this.lines.lastElementChild;
      this.end = Number(line.dataset.at);
      line.remove();
      extra -= 1;
    }
    this.last = this.lines.lastElementChild;
    this.style = this.last ? this.last.after : PLAIN;
  }

  async #earlier() {
    if (this.busy || this.start <= 0) return;
    this.busy = true;
    try {
      const answer = await this.#ask({ before: this.start });
      if (!answer || this.closed || answer.start >= this.start) return;
      let style = PLAIN;
      const fragment = document.createDocumentFragment();
      for (const line of answer.lines) {
        const element = this.#line(line, style);
        style = element.after;
        fragment.append(element);
      }
      const before = this.box.scrollHeight;
      this.lines.prepend(fragment);
      this.box.scrollTop += this.box.scrollHeight - before; // What is read stays where it is.
      this.start = answer.start;
      this.#trimBottom();
      this.#tellPlace();
    } finally {
      this.busy = false;
    }
  }

  async #later() {
    if (this.busy) return;
    this.busy = true;
    try {
      const from = this.last?.dataset.partial ? Number(this.last.dataset.at) : this.end;
      const answer = await this.#ask({ after: from });
      if (!answer || this.closed) return;
      if (answer.start < from) {
        this.lines.replaceChildren(); // The file was emptied, and begins anew.
        this.last = null;
        this.start = 0;
      }
      if (answer.size === this.size && answer.end === this.end && !answer.partial) return;
      const same = answer.partial && this.last?.dataset.partial && answer.lines.length === 1
        && answer.size === this.size;
      if (!same) this.#append(answer);
      if (this.follow) this.#toEnd();
    } finally {
      this.busy = false;
    }
  }

  // ---- where one is

  #again(delay = this.running ? FOLLOW_MS : STILL_MS) {
    clearTimeout(this.timer);
    if (this.closed) return;
    this.timer = setTimeout(async () => {
      if (!document.hidden && this.follow) {
        const before = this.end;
        await this.#later();
        if (this.end < this.size && this.end !== before) return this.#again(0);
      }
      this.#again();
    }, delay);
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const below = scrollHeight - scrollTop - clientHeight;
    if (scrollTop < NEAR_PX) this.#earlier();
    if (!this.follow && below < NEAR_PX && this.end < this.size) this.#later();
    const atEnd = below < 30 && this.end >= this.size;
    if (this.follow && below > 60 && scrollTop < this.scrolledTo - 5) this.#setFollow(false);
    else if (!this.follow && atEnd && scrollTop > this.scrolledTo) this.#setFollow(true);
    this.scrolledTo = scrollTop;
    this.#tellPlace();
  }

  #toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
    this.scrolledTo = this.box.scrollTop;
  }

  async #setFollow(on) {
    this.follow = on;
    this.followBox.checked = on;
    if (on) {
      if (this.end < this.size || !this.size) await this.#load({});
      this.#toEnd();
      this.#again(0);
    }
  }

  async #goStart() {
    this.follow = false;
    this.followBox.checked = false;
    if (this.start > 0) await this.#load({ after: 0 });
    this.box.scrollTop = 0;
  }

  #tellPlace() {
    if (!this.size) {
      setText(this.place, "empty");
      return;
    }
    const all = this.start <= 0 && this.end >= this.size;
    setText(this.place, all ? bytes(this.size) : `${bytes(this.start)} – ${bytes(this.end)} of ${bytes(this.size)}`);
  }

  // ---- searching

  async search(text = this.seek.value) {
    this.sought = text;
    this.hits = [];
    this.hit = -1;
    for (const line of this.lines.querySelectorAll(".match, .hit")) line.classList.remove("match", "hit");
    if (!text) {
      setText(this.found, "");
      return;
    }
    setText(this.found, "…");
    let following = 0;
    while (following !== null && this.hits.length < MOST_HITS && this.sought === text) {
      try {
        const answer = await get(`/api/jobs/${this.jobId}/log/search`,
          { attempt: this.attempt, err: this.err || undefined, text, after: following, places: true });
        for (const { at } of answer.matches) this.hits.push(at);
        following = answer.next;
        if (following !== null) setText(this.found, `${this.hits.length.toLocaleString("en")} so far`);
      } catch (error) {
        this.trouble.show(error);
        return;
      }
      if (this.closed) return;
    }
    if (this.sought !== text) return;
    this.more = following !== null;
    if (!this.hits.length) {
      setText(this.found, "not found");
      return;
    }
    for (const line of this.lines.children) {
      if (line.textContent.toLowerCase().includes(text.toLowerCase())) line.classList.add("match");
    }
    this.hit = this.hits.length; // The last one first: the end of a log is what matters.
    this.next(-1);
  }

  async next(step) {
    if (!this.hits.length) return;
    this.hit = (this.hit + step + this.hits.length) % this.hits.length;
    const [place, all] = [this.hit + 1, this.hits.length].map((number) => number.toLocaleString("en"));
    setText(this.found, `${place} of ${all}${this.more ? "+" : ""}`);
    this.follow = false;
    this.followBox.checked = false;
    const at = this.hits[this.hit];
    if (at < this.start || at >= this.end) await this.#load({ around: at });
    for (const line of this.lines.querySelectorAll(".hit")) line.classList.remove("hit");
    const line = this.lines.querySelector(`[data-at="${at}"]`);
    if (!line) return;
    line.classList.add("hit");
    this.box.scrollTop = line.offsetTop - this.box.clientHeight / 2;
    this.scrolledTo = this.box.scrollTop;
  }

  async #download() {
    this.trouble.clear();
    try {
      const { url } = await post("/api/log/ticket", { id: this.jobId, attempt: this.attempt, err: this.err });
      const link = h("a", { href: url, download: "" });
      document.body.append(link);
      link.click();
      link.remove();
    } catch (error) {
      this.trouble.show(error);
    }
  }
}
