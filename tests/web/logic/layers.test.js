// What a job waits for stands to its left, what waits for it to its right.

import assert from "node:assert";
import { test } from "node:test";

import { BOX, levels, picture } from "./layers.js";

const jobs = (...ids) => ids.map((id) => ({ id, name: null, state: "waiting" }));

test("each link leads to the right, whatever shorter way there is too", () => {
  const links = [[1, 2, true], [1, 3, true], [2, 3, true], [3, 4, false], [4, 5, true], [3, 5, true]];
  const found = levels(3, links);
  assert.deepStrictEqual([1, 2, 3, 4, 5].map((id) => found.get(id)), [-2, -1, 0, 1, 2]);
  const { boxes, lines } = picture(3, jobs(1, 2, 3, 4, 5), links);
  const x = new Map(boxes.map((box) => [box.job.id, box.x]));
  assert.ok(links.every(([from, to]) => x.get(from) + BOX.width < x.get(to)));
  assert.strictEqual(lines.length, links.length);
  assert.strictEqual(lines.filter((line) => !line.must).length, 1);
});

test("no box lies over another, and of very many the rest is counted", () => {
  const links = Array.from({ length: 30 }, (_, place) => [1, place + 2, true]);
  const { boxes, rests, height, width } = picture(1, jobs(...Array.from({ length: 31 }, (_, id) => id + 1)), links);
  assert.strictEqual(boxes.length + rests[0].number, 31);
  for (const one of [...boxes, ...rests]) {
    assert.ok(one.x >= 0 && one.y >= 0 && one.x + BOX.width <= width && one.y + BOX.height <= height + 1e-9);
    const over = boxes.filter((other) => other !== one && other.x === one.x && Math.abs(other.y - one.y) < BOX.height);
    assert.deepStrictEqual(over, []);
  }
});
