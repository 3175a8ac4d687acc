// The cards of the GPUs, and the axes of their plots: which size, which words, which ticks.

import assert from "node:assert/strict";
import test from "node:test";

import { cardSize, memoryInShort } from "./gpu.js";
import { memoryTicks } from "./plot.js";

test("the ticks of memory are whole GiB that reach the most", () => {
  assert.deepEqual(memoryTicks(23.5 * 1024), [0, 8192, 16384, 24576]);
  assert.deepEqual(memoryTicks(80 * 1024), [0, 20480, 40960, 61440, 81920]);
  assert.deepEqual(memoryTicks(2500), [0, 1024, 2048, 3072]);
  assert.deepEqual(memoryTicks(200), [0, 64, 128, 192, 256]);
  for (let mib = 1; mib < 600_000; mib += 377) {
    const ticks = memoryTicks(mib);
    assert.ok(ticks.at(-1) >= mib && ticks.length >= 2 && ticks.length <= 6, `${mib}: ${ticks}`);
    if (mib > 1024) assert.ok(ticks.every((one) => one % 1024 === 0), `${mib}: ${ticks}`);
  }
});

test("a small card says what is used of all, or what is reserved where nothing is measured", () => {
  assert.equal(memoryInShort({ ours_mib: 17 * 1024, others_mib: 0, memory_mib: 24_064 }), "17 / 23.5 GiB");
  assert.equal(memoryInShort({ ours_mib: 1024, others_mib: 512, memory_mib: 24 * 1024 }), "1.5 / 24 GiB");
  assert.equal(memoryInShort({ reserved_mib: 8192, memory_mib: 24 * 1024 }), "8 / 24 GiB");
  assert.equal(memoryInShort({ reserved_mib: 0, memory_mib: null }), "");
});

test("cards are small where many would push the list off the screen, unless the user says otherwise", () => {
  assert.equal(cardSize(null, 4, 1440), "large");
  assert.equal(cardSize(null, 8, 1440), "small");
  assert.equal(cardSize(null, 2, 360), "small");
  assert.equal(cardSize("large", 8, 360), "large");
  assert.equal(cardSize("small", 1, 1440), "small");
});
