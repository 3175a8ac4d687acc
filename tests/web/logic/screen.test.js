// Bars that are drawn again by moving the cursor up are shown once.

import assert from "node:assert/strict";
import test from "node:test";

import { plainText } from "./ansi.js";
import { Screen } from "./screen.js";

function lines(text) {
  let at = 0;
  return text.split("\n").map((line) => {
    const found = { at, text: line.slice(line.lastIndexOf("\r") + 1) };
    at += line.length + 1;
    return found;
  });
}

const shown = (screen) => screen.rows.map(({ text }) => plainText(text));
// As rich draws two bars, again and again.
const RICH = "begin\na 0%\nb 0%" + ["50", "100"].map((part) =>
  `\r\x1b[2K\x1b[1A\x1b[2Ka ${part}%\nb ${part}%`).join("") + "\nend";

test("of bars that rich draws again only the last drawing is left", () => {
  const screen = new Screen();
  screen.feed(lines(RICH), 1);
  assert.deepEqual(shown(screen), ["begin", "a 100%", "b 100%", "end"]);
  assert.deepEqual(screen.rows.map(({ number }) => number), [1, 2, 5, 6]);
  assert.equal(screen.over, 0);
});

test("two bars of tqdm are two rows", () => {
  const screen = new Screen();
  // The server keeps of each part between movements what it showed at last.
  screen.feed([{ at: 0, text: "0: 10%" }, { at: 8, text: "1: 10%\x1b[A0: 50%" }, { at: 30, text: "1: 70%\x1b[A0: 90%" }]);
  assert.deepEqual(shown(screen), ["0: 90%", "1: 70%"]);
});

test("in whatever pieces a log comes, its rows are the same", () => {
  const all = lines(RICH);
  for (let cut = 1; cut < all.length; cut += 1) {
    const screen = new Screen();
    screen.feed(all.slice(0, cut), 1);
    screen.feed(all.slice(cut), 1 + cut);
    assert.deepEqual(shown(screen), ["begin", "a 100%", "b 100%", "end"]);
    // Read from its end: what comes before loses the rows that were drawn over.
    const late = new Screen();
    late.feed(all.slice(cut), 1 + cut);
    const early = new Screen();
    early.feed(all.slice(0, cut), 1);
    late.prepend(early);
    assert.deepEqual(shown(late), ["begin", "a 100%", "b 100%", "end"], `cut before line ${cut + 1}`);
  }
});

test("a line without an end is taken back before it is read again", () => {
  const screen = new Screen();
  screen.feed([{ at: 0, text: "a" }, { at: 2, text: "b\x1b[1Ac" }], 1, true);
  assert.deepEqual(shown(screen), ["c", "b"]);
  const { gone, changed } = screen.undo();
  assert.deepEqual([gone.length, changed.length], [1, 1]);
  assert.deepEqual(shown(screen), ["a"]);
  screen.feed([{ at: 2, text: "bb" }, { at: 5, text: "d" }], 2);
  assert.deepEqual(shown(screen), ["a", "bb", "d"]);
  assert.deepEqual(screen.undo(), { gone: [], changed: [] });
});
