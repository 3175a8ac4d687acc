// The lines of a log as a terminal would show them: where a program moved the cursor up to draw its bars again (rich,
// tqdm with several bars), only the last drawing is left. Pure; what is in a line beside that is left as it is.

const UP = /\u001b\[(\d*)[AF]/g;
const ERASES = /\u001b\[\d*[KJ]/;
const NO_LETTER = /\u001b\[[0-?]*[ -/]*[@-~]|[\u0000-\u0008\u000b-\u001f\u007f]/g;

export class Screen {
  constructor() {
    this.rows = []; // { at, number, text }: where a row begins in the file, and what it shows
    this.up = 0; // how far above the next new row the cursor is
    this.over = 0; // how many rows above its first one were drawn over
    this.undone = null; // what the last line changed, while it has no end
  }

  // Takes lines in; `first` is the number of the first. Gives the rows that are new or changed.
  feed(lines, first = null, isPartial = false) {
    const changed = new Set();
    lines.forEach(({ at, text }, place) => {
      const isLast = isPartial && place === lines.length - 1;
      this.undone = isLast ? { rows: [], up: this.up, length: this.rows.length } : null;
      this.#line(at, first === null ? null : first + place, text, changed);
      if (isLast) this.up += 1; // There was no newline: the cursor is still on the row.
    });
    return changed;
  }

  // As if the line without an end had not been there; gives the rows that are gone or changed.
  undo() {
    if (!this.undone) return { gone: [], changed: [] };
    const { rows, up, length } = this.undone;
    this.undone = null;
    const gone = this.rows.splice(length);
    for (const [row, text] of rows) row.text = text;
    this.up = up;
    return { gone, changed: rows.map(([row]) => row).filter((row) => !gone.includes(row)) };
  }

  // What is before: of its last rows, this one drew over some.
  prepend(earlier) {
    const kept = this.over ? earlier.rows.slice(0, -this.over) : earlier.rows;
    this.over = Math.max(earlier.over, this.over - earlier.rows.length);
    this.rows.unshift(...kept);
    return kept;
  }

  dropFirst(count) {
    return this.rows.splice(0, count);
  }

  dropLast(count) {
    this.undone = null;
    this.up = 0;
    return this.rows.splice(this.rows.length - count);
  }

  #line(at, number, text, changed) {
    let cursor = this.rows.length - this.up;
    const parts = text.split(UP);
    for (let place = 0; place < parts.length; place += 2) {
      if (place) cursor -= Number(parts[place - 1] || 1);
      if (cursor < 0) {
        this.over = Math.max(this.over, -cursor);
        cursor = 0;
      }
      const more = place + 2 < parts.length;
      this.#write(cursor, { at, number, text: parts[place] }, more, changed);
    }
    this.up = this.rows.length - cursor - 1;
  }

  #write(cursor, { at, number, text }, isLeft, changed) {
    const shows = text.replace(NO_LETTER, "") !== "";
    if (cursor < this.rows.length) {
      if (!shows && !ERASES.test(text)) return;
      const row = this.rows[cursor];
      this.undone?.rows.push([row, row.text]);
      row.text = text;
      changed.add(row);
      return;
    }
    if (!shows && isLeft) return; // The cursor only came by.
    while (this.rows.length <= cursor) {
      const row = { at, number, text: this.rows.length === cursor ? text : "" };
      this.rows.push(row);
      changed.add(row);
    }
  }
}

// How many rows from the first on are such that `test` holds; after one for which it does not, it never does.
export function countWhile(rows, test) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(rows[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}
