// The log: which line a link leads to, its scrollbar, and colours that can be read.

import assert from "node:assert/strict";
import test from "node:test";

import { contrast, readable } from "./ansi.js";
import { placeOf } from "./log.js";
import { marksOf, thumbOf } from "./logtrack.js";

test("a link to a line names its attempt and its place, and nothing else is one", () => {
  assert.deepEqual(placeOf("2.4711"), { attempt: 2, err: false, at: 4711 });
  assert.deepEqual(placeOf("1e.0"), { attempt: 1, err: true, at: 0 });
  for (const words of [null, "", "2", "2.", ".3", "2.-1", "2.3x", "a.1"]) assert.equal(placeOf(words), null);
});

test("the thumb is where one is, reaches both ends, and is never too small to take", () => {
  assert.deepEqual(thumbOf([0, 1000], 1000), { top: 0, height: 1 });
  assert.deepEqual(thumbOf([250, 500], 1000), { top: 0.25, height: 0.25 });
  assert.equal(thumbOf([0, 100], 10 ** 9).top, 0);
  const last = thumbOf([10 ** 9 - 100, 10 ** 9], 10 ** 9);
  assert.ok(last.height >= 0.02 && Math.abs(last.top + last.height - 1) < 1e-9, JSON.stringify(last));
});

test("hits beside each other are one mark", () => {
  assert.deepEqual(marksOf([0, 1, 2, 999], 1000), [0, 149]);
});

test("any colour of a log can be read on white and on black", () => {
  const papers = [[251, 252, 253], [14, 18, 22]];
  for (let r = 0; r < 256; r += 51) {
    for (let g = 0; g < 256; g += 51) {
      for (let b = 0; b < 256; b += 51) {
        for (const paper of [...papers, [r, b, g]]) {
          assert.ok(contrast(readable([r, g, b], paper), paper) >= 4.5, `${r} ${g} ${b} on ${paper}`);
        }
      }
    }
  }
  assert.deepEqual(readable([0, 0, 200], papers[0]), [0, 0, 200], "what can be read stays as it is");
});
