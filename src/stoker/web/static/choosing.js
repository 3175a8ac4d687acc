// Which jobs of a list are chosen: some, each by its id, or all that match what the list is asked for.

export const MOST_AT_ONCE = 1000; // jobs that are asked for at a time
const MOST_IN_RANGE = 10_000; // that one order can name

// "1-3,7" for 1, 2, 3 and 7, so that an address has room for many.
export function rangesOf(ids) {
  const found = [];
  for (const id of [...ids].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last && last[1] === id - 1) last[1] = id;
    else found.push([id, id]);
  }
  return found.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(",");
}

export function idsOf(ranges) {
  const found = [];
  for (const part of ranges.split(",")) {
    const [, from, to] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(part) ?? [];
    if (!from) continue;
    for (let id = Number(from); id <= Number(to ?? from) && found.length < MOST_IN_RANGE; id += 1) found.push(id);
  }
  return found;
}

export class Chosen {
  // window(from, to): the jobs at these places of the list, also those that are not seen.
  constructor(window) {
    this.window = window;
    this.jobs = new Map(); // by id
    this.all = false; // all that match, however many
    this.anchor = null; // the place and the id of the last one that was chosen or not, from which a range goes
  }

  has(id) {
    return this.all || this.jobs.has(id);
  }

  get some() {
    return this.all || this.jobs.size > 0;
  }

  set(job, place, on) {
    this.anchor = { place, id: job.id, on };
    this.#put(job, on);
  }

  clear() {
    this.all = false;
    this.anchor = null;
    this.jobs.clear();
  }

  #put(job, on) {
    if (on) this.jobs.set(job.id, job);
    else this.jobs.delete(job.id);
  }

  // From the last one to this one, as the last one was; `placeOf` knows where a job is now.
  async rangeTo(place, placeOf) {
    const { id, on } = this.anchor;
    const start = placeOf(id) ?? this.anchor.place;
    const [from, to] = [Math.min(start, place), Math.max(start, place)];
    for (const job of await this.#between(from, Math.min(to, from + MOST_IN_RANGE - 1))) this.#put(job, on);
  }

  // One by one, so that some can be left out, unless they are too many.
  async chooseAll(total) {
    this.clear();
    if (total > MOST_AT_ONCE) this.all = true;
    else for (const job of await this.#between(0, total - 1)) this.#put(job, true);
  }

  async #between(from, to) {
    const found = [];
    for (let place = from; place <= to; place += MOST_AT_ONCE) {
      found.push(...(await this.window(place, Math.min(to, place + MOST_AT_ONCE - 1))));
    }
    return found;
  }
}
