// Slow answers don't pile up, and the last one shown is the last one asked for.

import assert from "node:assert";
import { test } from "node:test";

import { Turns } from "./turns.js";

// Questions that are answered when the test says so.
function slow() {
  const asked = [];
  const turns = new Turns((about) => new Promise((answer, fail) => asked.push({ about, answer, fail })));
  return { asked, turns };
}

const settled = () => new Promise(setImmediate);

test("what is asked many times while an answer is on its way is asked once more after it", async () => {
  const { asked, turns } = slow();
  const query = {};
  const first = turns.take(query);
  for (let n = 0; n < 5; n += 1) turns.take(query);
  assert.equal(asked.length, 1);
  asked[0].answer();
  await settled();
  assert.equal(asked.length, 2);
  asked[1].answer();
  await first;
  assert.equal(asked.length, 2);
  turns.take(query);
  assert.equal(asked.length, 3);
});

test("another question does not wait for a slow answer, which then asks no more", async () => {
  const { asked, turns } = slow();
  const old = turns.take("old");
  turns.take("old");
  turns.take("new");
  assert.deepEqual(asked.map(({ about }) => about), ["old", "new"]);
  asked[0].answer();
  await old;
  assert.equal(asked.length, 2);
  turns.take("new");
  assert.equal(asked.length, 2);
  asked[1].answer();
  await settled();
  assert.deepEqual(asked.map(({ about }) => about), ["old", "new", "new"]);
});

test("a question that goes wrong does not keep the next one waiting", async () => {
  const { asked, turns } = slow();
  const first = turns.take("one");
  asked[0].fail(new Error("wrong"));
  await assert.rejects(first, /wrong/);
  turns.take("one");
  assert.equal(asked.length, 2);
});
