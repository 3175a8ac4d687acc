// A list of any length: only the rows that are seen are there, and only they are asked for.

import { get } from "./api.js";
import { Chosen } from "./choosing.js";
import { h, setData, setHidden, setText } from "./dom.js";
import { Turns } from "./turns.js";

const PAGE = 60; // rows asked for at a time, so that tabs that look at the same share an answer
const MOST_ROWS = 400_000; // beyond which a browser has no pixels
const REFRESH_MS = 700;
const SETTLED_MS = 150; // without scrolling: what is seen may have been asked for some time ago
const SOON = 120; // rows away from which more are loaded while one scrolls
const AHEAD = 360; // rows that are loaded then
const MOST_AROUND = 1500; // rows kept on either side

export class WindowedList {
  // make(): a row's element with its cells; change(row, item): fills them in.
  constructor({ path, columns, make, change, open, empty }) {
    this.path = path;
    this.makeRow = make;
    this.changeRow = change;
    this.openItem = open;
    this.query = {};
    this.total = null;
    this.items = new Map(); // by place
    this.rows = new Map(); // elements by place
    this.unused = [];
    this.current = null; // the id of the item that the keys are at, and its place when it was last seen
    this.currentPlace = null;
    this.chosen = new Chosen((from, to) => this.#window(from, to));
    this.onchosen = () => {};
    this.onask = () => {}; // told what is asked for now
    this.whenLoaded = []; // what is to be done once what is seen of the list has come
    this.turns = new Turns((query) => this.#askSeen(query));
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.note = h("div", { class: "empty" }, "…");
    this.emptyWords = empty;
    this.heads = new Map();
    this.head = h("div", { class: "row head", role: "row" }, ...columns.map((column) => this.#head(column)));
    this.said = h("div", { class: "hidden", role: "status" }); // where the keys are, for who does not see it
    this.table = h("div", { role: "table", "aria-label": "Jobs" }, this.head, this.body);
    this.element = h("div", { class: "list card" }, this.table, this.note, this.said);
    this.onscroll = () => this.#scrolled();
    this.timer = null;
    this.stale = false;
    this.direction = 0; // of scrolling: -1 is up
    this.loading = false;
  }

  #head({ key, title, sort, hint }) {
    const cell = h("div", { class: `cell c-${key}`, role: "columnheader" });
    if (key === "pick") {
      this.allBox = h("input", { type: "checkbox", class: "write", "aria-label": "Choose all that match",
        title: "Choose all that match", onchange: () => this.chooseAll(this.allBox.checked) });
      cell.append(this.allBox);
      return cell;
    }
    if (!sort) {
      cell.append(title || h("span", { class: "hidden" }, "Chosen"));
      return cell;
    }
    const button = h("button", { type: "button", class: "sort", title: hint || `Sort by ${title.toLowerCase()}`,
      onclick: () => this.sortBy(sort) }, title);
    this.heads.set(sort, button);
    cell.append(button);
    return cell;
  }

  open() {
    addEventListener("scroll", this.onscroll, { passive: true });
    addEventListener("resize", this.onscroll, { passive: true });
    this.#showSort();
    this.refresh();
  }

  close() {
    removeEventListener("scroll", this.onscroll);
    removeEventListener("resize", this.onscroll);
    clearTimeout(this.timer);
    clearTimeout(this.settling);
    this.closed = true;
  }

  // Another list: from its beginning.
  ask(query) {
    // All that match are those of the list that is shown, in whatever order.
    if (this.chosen.all && ["text", "states"].some((key) => String(query[key]) !== String(this.query[key]))) {
      this.chooseNone();
    }
    this.query = query;
    this.items.clear();
    this.total = null;
    this.current = null;
    this.currentPlace = null;
    this.#showSort();
    this.onask(query);
    this.refresh();
  }

  sortBy(sort) {
    const { sort: before, descending, ...rest } = this.query;
    if (before !== sort) this.ask({ ...rest, sort });
    else if (!descending) this.ask({ ...rest, sort, descending: true });
    else this.ask(rest);
  }

  #showSort() {
    for (const [sort, button] of this.heads) {
      const active = this.query.sort === sort;
      button.parentElement.setAttribute("aria-sort",
        active ? (this.query.descending ? "descending" : "ascending") : "none");
    }
  }

  // Something has changed: look again, soon, and not all the time.
  refreshSoon() {
    this.stale = true;
    if (this.timer === null && !document.hidden) {
      this.timer = setTimeout(() => {
        this.timer = null;
        if (this.stale) this.refresh();
      }, REFRESH_MS);
    }
  }

  refresh() {
    return this.turns.take(this.query);
  }

  async #askSeen(query) {
    if (this.closed) return;
    this.stale = false;
    const [first, last] = this.#seen();
    const from = Math.floor(first / PAGE) * PAGE;
    const limit = Math.min(1000, Math.ceil((last - from + 1) / PAGE) * PAGE);
    let answer;
    try {
      answer = await get(this.path, { ...query, offset: from, limit });
    } catch (error) {
      if (this.closed || query !== this.query) return;
      if (this.total === null) {
        this.noted = null;
        this.draw();
        setText(this.note, `${error.message}. ${error.hint}`);
      }
      return;
    }
    if (this.closed || query !== this.query) return;
    this.#take(from, answer);
    this.#findCurrent();
    this.draw();
    this.#act();
  }

  // What is around is kept, so that nothing is blank on the way there; it is asked for anew once one stays.
  #take(from, { jobs, total }) {
    if (total !== this.total) this.items.clear();
    this.total = total;
    // What has moved here is not where it was any more.
    const moved = new Set(jobs.map((item) => item.id));
    for (const [place, item] of this.items) {
      const far = place < from - MOST_AROUND || place > from + jobs.length + MOST_AROUND;
      if (far || moved.has(item.id)) this.items.delete(place);
    }
    jobs.forEach((item, place) => this.items.set(from + place, item));
  }

  // Rows that come into view soon, at most one question at a time.
  async #loadAhead(first, last) {
    const [before, after] = this.direction < 0 ? [AHEAD, PAGE] : [PAGE, AHEAD];
    const from = Math.max(0, Math.floor((first - before) / PAGE) * PAGE);
    const limit = Math.min(1000, Math.ceil((last + after - from + 1) / PAGE) * PAGE);
    const query = this.query;
    this.loading = true;
    try {
      const answer = await get(this.path, { ...query, offset: from, limit });
      if (!this.closed && query === this.query) this.#take(from, answer);
    } catch {
      this.loading = false;
      return; // It is asked for again when this is drawn the next time.
    }
    this.loading = false;
    if (this.closed) return;
    this.#findCurrent();
    this.draw();
    this.#act();
  }

  // A key that is pressed while what it is about is on its way waits for that, and the next ones for it.
  loaded(act) {
    this.whenLoaded.push(act);
    this.#act();
  }

  #act() {
    while (this.whenLoaded.length && this.isLoaded) this.whenLoaded.shift()();
  }

  // Whether it is known what there is, and what the keys are at, unless one has scrolled away from there.
  get isLoaded() {
    if (this.total === null) return false;
    const [first, last] = this.#seen();
    const place = this.currentPlace;
    return this.current !== null || place === null || place < first || place > last;
  }

  // The keys stay with their item wherever it has moved to, and come to one where there was none to see yet.
  #findCurrent() {
    if (this.current === null) {
      this.current = this.items.get(this.currentPlace)?.id ?? null;
      return;
    }
    for (const [place, item] of this.items) {
      if (item.id === this.current) this.currentPlace = place;
    }
  }

  #rowHeight() {
    return this.height || (this.height = this.#measure());
  }

  #measure() {
    const row = this.makeRow();
    row.style.visibility = "hidden";
    this.body.append(row);
    const height = row.getBoundingClientRect().height;
    row.remove();
    return height || 32;
  }

  #seen() {
    const height = this.#rowHeight();
    const top = this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / height) - 8);
    const last = Math.max(first, Math.ceil((innerHeight - top) / height) + 8);
    return [first, Math.min(last, Math.max(0, (this.total ?? PAGE) - 1))];
  }

  draw() {
    if (this.width !== innerWidth) {
      this.width = innerWidth;
      this.height = 0;
    }
    const height = this.#rowHeight();
    const total = Math.min(this.total ?? 0, MOST_ROWS);
    setHidden(this.note, total > 0);
    this.#drawAllBox();
    if (this.total === 0 && this.noted !== this.query) {
      this.noted = this.query;
      this.note.replaceChildren(...this.emptyWords());
    }
    const tall = `${total * height}px`;
    if (this.body.style.height !== tall) this.body.style.height = tall;
    if (!total) {
      for (const place of [...this.rows.keys()]) this.#drop(place);
      return;
    }
    const [first, last] = this.#seen();
    for (const place of [...this.rows.keys()]) if (place < first || place > last) this.#drop(place);
    for (let place = first; place <= Math.min(last, total - 1); place += 1) {
      this.#put(place, this.items.get(place), height);
    }
    if (!this.direction) this.#order();
    if (!this.loading && this.#lacks(first, last, total)) this.#loadAhead(first, last);
  }

  #drawAllBox() {
    const { all, some, jobs } = this.chosen;
    this.allBox.checked = all || (some && jobs.size >= this.total);
    this.allBox.indeterminate = some && !this.allBox.checked;
  }

  // Rows are used again where they are needed; once nothing moves, they stand in the page as they are seen.
  #order() {
    this.table.setAttribute("aria-rowcount", (this.total ?? 0) + 1);
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    let place = this.body.firstChild;
    for (const [, row] of [...this.rows].sort(([one], [other]) => one - other)) {
      if (row === place) place = place.nextSibling;
      else this.body.insertBefore(row, place);
    }
    if (focused && focused !== document.activeElement) focused.focus({ preventScroll: true });
  }

  // Whether rows are not there that are seen, or will be soon.
  #lacks(first, last, total) {
    const from = Math.max(0, this.direction < 0 ? first - SOON : first);
    const to = Math.min(total - 1, this.direction > 0 ? last + SOON : last);
    for (let place = from; place <= to; place += 1) if (!this.items.has(place)) return true;
    return false;
  }

  #scrolled() {
    this.direction = Math.sign(scrollY - (this.scrolledTo ?? scrollY)) || this.direction;
    this.scrolledTo = scrollY;
    this.draw();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      this.direction = 0;
      this.refresh();
    }, SETTLED_MS);
  }

  #put(place, item, height) {
    let row = this.rows.get(place);
    if (!row) {
      row = this.unused.pop() || this.#newRow();
      this.rows.set(place, row);
      row.style.transform = `translateY(${place * height}px)`;
      row.dataset.place = place;
      if (!row.isConnected) this.body.append(row);
      row.hidden = false;
    } else {
      const at = `translateY(${place * height}px)`;
      if (row.style.transform !== at) row.style.transform = at;
    }
    const isCurrent = Boolean(item) && item.id === this.current;
    setData(row, "current", isCurrent ? "yes" : "");
    if (isCurrent) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
    row.setAttribute("aria-rowindex", place + 2);
    setData(row, "chosen", item && this.chosen.has(item.id) ? "yes" : "");
    setData(row, "empty", item ? "" : "yes");
    if (item) this.changeRow(row, item);
  }

  #newRow() {
    const row = this.makeRow();
    row.addEventListener("click", (event) => {
      const place = Number(row.dataset.place);
      const item = this.items.get(place);
      if (!item) return;
      if (event.target.type === "checkbox") this.choose(item, event.target.checked, event.shiftKey);
      else if (!event.target.closest("a, button") && !getSelection().toString()) this.openItem(item);
    });
    // A range is not text that is marked.
    row.addEventListener("mousedown", (event) => event.shiftKey && event.preventDefault());
    return row;
  }

  #drop(place) {
    const row = this.rows.get(place);
    this.rows.delete(place);
    row.hidden = true;
    this.unused.push(row);
  }

  // This one; with `range` all from the last one that was chosen up to here.
  async choose(item, on, range = false) {
    if (this.chosen.all) return;
    if (!range || !this.chosen.anchor) this.chosen.set(item, this.#placeOf(item.id), on);
    else await this.#tried(() => this.chosen.rangeTo(this.#placeOf(item.id), (id) => this.#placeOf(id)));
    this.#choseSome();
  }

  async chooseAll(on = true) {
    if (on && this.total) await this.#tried(() => this.chosen.chooseAll(this.total));
    else this.chosen.clear();
    this.#choseSome();
  }

  chooseNone() {
    this.chosen.clear();
    this.#choseSome();
  }

  #choseSome() {
    this.onchosen();
    this.draw();
  }

  async #tried(act) {
    try {
      await act();
    } catch {
      // What could not be asked for is not chosen, as one sees.
    }
  }

  async #window(from, to) {
    return (await get(this.path, { ...this.query, offset: from, limit: to - from + 1 })).jobs;
  }

  #placeOf(id) {
    for (const [place, item] of this.items) if (item.id === id) return place;
    return undefined;
  }

  // The item that the keys are at, wherever it has moved to; none if it is not in what is shown of the list.
  at() {
    const item = this.current === null ? undefined : this.items.get(this.currentPlace);
    return item?.id === this.current ? item : undefined;
  }

  // To the next one; from where the last one was, if that is not in the list any more.
  move(step) {
    if (!this.total) return;
    const gone = this.current !== null && this.at() === undefined && step > 0;
    const next = this.currentPlace === null ? 0 : this.currentPlace + (gone ? 0 : step);
    this.currentPlace = Math.max(0, Math.min(next, this.total - 1));
    this.current = this.items.get(this.currentPlace)?.id ?? null;
    const height = this.#rowHeight();
    const top = this.body.getBoundingClientRect().top + this.currentPlace * height;
    const roof = 100;
    if (top < roof) scrollBy(0, top - roof);
    else if (top + height * 2 > innerHeight) scrollBy(0, top + height * 2 - innerHeight);
    this.draw();
    const item = this.at();
    setText(this.said, item ? `${item.id} ${item.name || item.command}, ${item.state}` : "");
  }
}
