// A log of any size: the lines around what is seen are there, more are asked for on the way.

import { get, post } from "./api.js";
import { PLAIN, pieces, plainText, span } from "./ansi.js";
import { errorBox, h, setHidden, setText } from "./dom.js";
import { bytes } from "./format.js";
import { LogMatches } from "./logmatches.js";
import { LogTrack } from "./logtrack.js";
import { countWhile, Screen } from "./screen.js";

const STEP_BYTES = 65_536;
const MOST_LINES = 3000;
const NEAR_PX = 600;
const FOLLOW_MS = 700;
const MOST_HITS = 1_000_000; // that a tab has room for; the page says so if there are more

// Where in a log a link leads: "2.4711" is the line at byte 4711 of attempt 2, "2e.4711" of its errors.
export function placeOf(words) {
  const found = /^([0-9]{1,9})(e?)\.([0-9]{1,15})$/.exec(words || "");
  return found && { attempt: Number(found[1]), err: found[2] === "e", at: Number(found[3]) };
}

export class LogPane {
  // onplace(words): a line was chosen, which the address may say.
  constructor(jobId, { onplace = () => {}, title = "Log" } = {}) {
    this.jobId = jobId;
    this.onplace = onplace;
    this.attempt = null;
    this.err = false;
    this.running = false;
    this.follow = false;
    this.start = 0;
    this.end = 0;
    this.size = 0;
    this.busy = false;
    this.hits = [];
    this.hit = -1;
    this.sought = "";
    this.screen = new Screen();

    this.lines = h("div", { class: "lines" });
    this.matches = new LogMatches(jobId, { go: (at) => this.#leaveMatches(at), link: (at) => this.#link(at) });
    this.track = new LogTrack((share) => this.#goShare(share));
    this.box = h("div", { class: "log", tabIndex: 0, role: "log", "aria-label": title, "aria-live": "off",
      onscroll: () => this.#scrolled(), onclick: (event) => this.#clicked(event) }, this.lines, this.matches.element);
    this.trouble = errorBox();
    this.place = h("span", { class: "dim num place" });
    this.followBox = h("input", { type: "checkbox", onchange: () => this.#setFollow(this.followBox.checked) });
    this.wrapBox = h("input", { type: "checkbox",
      onchange: () => this.box.classList.toggle("wrap", this.wrapBox.checked) });
    this.errBox = h("input", { type: "checkbox",
      onchange: () => this.show(this.attempt, { err: this.errBox.checked, running: this.running }) });
    this.errLabel = h("label", { hidden: true }, this.errBox, " errors");
    this.onlyBox = h("input", { type: "checkbox", onchange: () => this.#showMatches() });
    this.seek = h("input", { type: "search", placeholder: "Search in the log…", "aria-label": "Search in the log" });
    this.found = h("span", { class: "dim num found", role: "status" });
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
    this.element = h("section", { class: "card logpane", "aria-label": title },
      h("div", { class: "bar tools" },
        h("h2", { class: "cut" }, title),
        h("label", {}, this.followBox, " follow"),
        h("label", {}, this.wrapBox, " wrap"),
        this.errLabel,
        h("button", { type: "button", class: "small", onclick: () => this.#goStart() }, "Start"),
        h("button", { type: "button", class: "small", onclick: () => this.#goEnd() }, "End"),
        this.seek,
        h("button", { type: "button", class: "small", "aria-label": "Previous match", onclick: () => this.next(-1) },
          "↑"),
        h("button", { type: "button", class: "small", "aria-label": "Next match",
          onclick: () => (this.seek.value !== this.sought ? this.search() : this.next(1)) }, "↓"),
        h("label", {}, this.onlyBox, " only matches"),
        this.found,
        h("span", { class: "grow" }),
        this.place,
        h("button", { type: "button", class: "small", onclick: () => this.#download() }, "Download")),
      this.trouble.element,
      h("div", { class: "logframe" }, this.box, this.track.element));
  }

  // ---- which log

  // At its end, or where `at` says. What runs is followed.
  async show(attempt, { err = false, hasErr = false, running = false, at = null } = {}) {
    this.attempt = attempt;
    this.err = err;
    this.errBox.checked = err;
    this.running = running;
    if (hasErr) setHidden(this.errLabel, false);
    this.#forget();
    this.#say(running && at === null);
    await this.#load(at === null ? {} : { around: at });
    if (at === null) this.#toEnd();
    else this.#lookAt(at, "target");
    this.#again();
  }

  // To the last line that has this text, be it among the errors.
  async find(text) {
    for (const err of this.errLabel.hidden ? [this.err] : [true, false]) {
      if (err !== this.err) await this.show(this.attempt, { err, running: this.running });
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
    this.#clear();
    this.start = 0;
    this.end = 0;
    this.size = 0;
    this.seek.value = "";
    this.search("");
  }

  #clear() {
    this.screen = new Screen();
    this.partialAt = null;
    this.lines.replaceChildren();
  }

  // ---- reading

  async #ask(more) {
    try {
      const answer = await get(`/api/jobs/${this.jobId}/log`,
        { attempt: this.attempt, err: this.err || undefined, bytes: STEP_BYTES, ...more });
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
    this.#clear();
    this.start = answer.start;
    this.#append(answer);
    if (Object.keys(more).length) this.#trimBottom();
    else this.#trimTop();
    this.#tellPlace();
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
    const { gone, changed: restored } = this.screen.undo();
    for (const row of gone) row.element.remove();
    const changed = this.screen.feed(answer.lines, answer.first ?? null, answer.partial);
    for (const row of restored) changed.add(row);
    this.#draw(changed);
    this.partialAt = answer.partial ? answer.lines.at(-1).at : null;
    this.end = answer.end;
    this.size = answer.size;
  }

  // New rows are at the end; others were drawn over.
  #draw(changed) {
    const fragment = document.createDocumentFragment();
    let style = PLAIN;
    for (const row of this.screen.rows) {
      if (changed.has(row)) {
        const isNew = !row.element;
        this.#fillLine(row, style);
        if (isNew) fragment.append(row.element);
      }
      style = row.after ?? PLAIN;
    }
    this.lines.append(fragment);
  }

  #fillLine(row, style) {
    const [found, after] = pieces(row.text, style);
    row.after = after;
    const number = h("a", { class: "n", href: this.#link(row.at), tabIndex: -1,
      "aria-label": row.number ? `line ${row.number}` : "link to this line", data: { n: row.number ?? "·" } });
    row.element ??= h("div", { class: "line", data: { at: row.at } });
    row.element.replaceChildren(number, ...found.map(([part, look]) => span(part, look)));
    const matches = this.sought && plainText(row.text).toLowerCase().includes(this.sought.toLowerCase());
    row.element.classList.toggle("match", Boolean(matches));
  }

  #trimTop() {
    const extra = this.screen.rows.length - MOST_LINES;
    if (extra <= 0) return;
    const before = this.box.scrollHeight;
    for (const row of this.screen.dropFirst(extra)) row.element.remove();
    this.start = this.screen.rows[0].at;
    if (!this.follow) this.box.scrollTop -= before - this.box.scrollHeight;
  }

  #trimBottom() {
    const extra = this.screen.rows.length - MOST_LINES;
    if (extra <= 0) return;
    const gone = this.screen.dropLast(extra);
    this.end = gone[0].at;
    this.partialAt = null;
    for (const row of gone) row.element.remove();
  }

  async #earlier() {
    if (this.busy || this.start <= 0) return;
    this.busy = true;
    try {
      const answer = await this.#ask({ before: this.start });
      if (!answer || this.closed || answer.start >= this.start) return;
      const earlier = new Screen();
      earlier.feed(answer.lines, answer.first ?? null);
      const before = this.box.scrollHeight;
      const rows = this.screen.prepend(earlier);
      let style = PLAIN;
      const fragment = document.createDocumentFragment();
      for (const row of rows) {
        this.#fillLine(row, style);
        style = row.after;
        fragment.append(row.element);
      }
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
      const from = this.partialAt ?? this.end;
      const answer = await this.#ask({ after: from });
      if (!answer || this.closed) return;
      if (answer.start < from) {
        this.#clear(); // The file was emptied, and begins anew.
        this.start = 0;
      }
      if (answer.size === this.size && answer.end === this.end && Boolean(this.partialAt) === answer.partial) return;
      this.#append(answer);
      this.#trimTop();
      this.#tellPlace();
      if (this.follow) this.#toEnd();
    } finally {
      this.busy = false;
    }
  }

  // ---- where one is

  // What runs is followed; of what has ended, what is still unread is read, and that was all.
  #again(delay = FOLLOW_MS) {
    clearTimeout(this.timer);
    if (this.closed || !this.follow) return;
    this.timer = setTimeout(async () => {
      const before = this.end;
      if (!document.hidden && this.follow) await this.#later();
      if (this.end < this.size && this.end !== before) this.#again(0);
      else if (this.running || document.hidden) this.#again();
      else this.#say(false);
    }, delay);
  }

  #say(follow) {
    this.follow = follow;
    this.followBox.checked = follow;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    if (this.onlyBox.checked) return;
    const below = scrollHeight - scrollTop - clientHeight;
    if (scrollTop < NEAR_PX) this.#earlier();
    if (!this.follow && below < NEAR_PX && this.end < this.size) this.#later();
    const atEnd = below < 30 && this.end >= this.size;
    if (this.follow && below > 60 && scrollTop < this.scrolledTo - 5) this.#setFollow(false);
    else if (!this.follow && this.running && atEnd && scrollTop > this.scrolledTo) this.#setFollow(true);
    this.scrolledTo = scrollTop;
    this.#tellPlace();
  }

  #toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
    this.scrolledTo = this.box.scrollTop;
  }

  async #setFollow(on) {
    this.#say(on);
    if (on) await this.#goEnd();
  }

  async #goEnd() {
    this.#hideMatches();
    if (this.end < this.size || !this.size) await this.#load({});
    if (this.running) this.#say(true);
    this.#toEnd();
    this.#again(0);
  }

  async #goStart() {
    this.#hideMatches();
    this.#say(false);
    if (this.start > 0) await this.#load({ after: 0 });
    this.box.scrollTop = 0;
  }

  // To a part of the whole log, as its track is dragged: at most one question at a time.
  async #goShare(share) {
    this.#hideMatches();
    this.#say(false);
    this.wanted = Math.floor(share * this.size);
    if (this.dragging) return;
    this.dragging = true;
    while (this.wanted !== null && !this.closed) {
      const at = this.wanted;
      this.wanted = null;
      if (at < this.start || at >= this.end) await this.#load({ around: at });
      this.#scrollTo(at);
    }
    this.dragging = false;
  }

  async #goTo(at, look) {
    this.#say(false);
    if (at < this.start || at >= this.end) await this.#load({ around: at });
    this.#lookAt(at, look);
  }

  // The row that shows what is at a place: the last one that begins there or before.
  #rowAt(at) {
    const { rows } = this.screen;
    return rows[countWhile(rows, (row) => row.at <= at) - 1] ?? rows[0];
  }

  #scrollTo(at) {
    const row = this.#rowAt(at);
    if (!row) return;
    this.box.scrollTop = row.element.offsetTop - this.box.clientHeight / 2;
    this.scrolledTo = this.box.scrollTop;
  }

  #lookAt(at, look) {
    for (const line of this.lines.querySelectorAll(`.${look}`)) line.classList.remove(look);
    this.#rowAt(at)?.element.classList.add(look);
    this.#scrollTo(at);
  }

  // The rows at the top and at the bottom of the pane, as places in the file.
  #seen() {
    const { rows } = this.screen;
    const { scrollTop, clientHeight } = this.box;
    const until = (px) => countWhile(rows, (row) => row.element.offsetTop <= px);
    const [first, last] = [until(scrollTop) - 1, until(scrollTop + clientHeight)];
    return [rows[Math.max(0, first)]?.at ?? this.start, rows[last]?.at ?? this.end];
  }

  #tellPlace() {
    if (!this.size) {
      setText(this.place, "empty");
      return;
    }
    const all = this.start <= 0 && this.end >= this.size;
    setText(this.place, all ? bytes(this.size) : `${bytes(this.start)} – ${bytes(this.end)} of ${bytes(this.size)}`);
    this.track.show(this.#seen(), this.size, this.hits);
  }

  // ---- links to lines

  #link(at) {
    return `#/job/${this.jobId}?log=${this.attempt}${this.err ? "e" : ""}.${at}`;
  }

  #clicked(event) {
    const number = event.target.closest("a.n");
    if (!number || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const { at } = number.parentElement.dataset;
    if (this.onlyBox.checked) this.#leaveMatches(Number(at));
    else this.#lookAt(Number(at), "target");
    this.onplace(`${this.attempt}${this.err ? "e" : ""}.${at}`);
  }

  // ---- searching

  async search(text = this.seek.value) {
    this.sought = text;
    this.hits = [];
    this.hit = -1;
    for (const line of this.lines.querySelectorAll(".match, .hit")) line.classList.remove("match", "hit");
    this.#tellPlace();
    this.#showMatches();
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
    for (const row of this.screen.rows) {
      if (plainText(row.text).toLowerCase().includes(text.toLowerCase())) row.element.classList.add("match");
    }
    this.hit = this.hits.length; // The last one first: the end of a log is what matters.
    this.next(-1);
  }

  async next(step) {
    if (!this.hits.length) return;
    this.hit = (this.hit + step + this.hits.length) % this.hits.length;
    const [place, all] = [this.hit + 1, this.hits.length].map((number) => number.toLocaleString("en"));
    setText(this.found, `${place} of ${all}${this.more ? "+" : ""}`);
    if (this.onlyBox.checked) this.matches.lookAt(this.hits[this.hit]);
    else await this.#goTo(this.hits[this.hit], "hit");
    this.#tellPlace();
  }

  #showMatches() {
    const only = this.onlyBox.checked;
    setHidden(this.lines, only);
    this.matches.show(only ? this.sought : null, { attempt: this.attempt, err: this.err || undefined });
    if (only) this.#say(false);
    else if (this.hit >= 0) this.#lookAt(this.hits[this.hit], "hit");
  }

  #hideMatches() {
    if (!this.onlyBox.checked) return;
    this.onlyBox.checked = false;
    this.#showMatches();
  }

  async #leaveMatches(at) {
    this.#hideMatches();
    await this.#goTo(at, "target");
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
