// Ranges, all of a short list by their ids, and all of a long one by what they match.

import assert from "node:assert";
import { test } from "node:test";

import { Chosen, MOST_AT_ONCE, idsOf, rangesOf } from "./choosing.js";

const list = Array.from({ length: 2431 }, (_, place) => ({ id: 5000 - place }));
const at = (place) => list[place];
const asked = [];
const made = () => new Chosen(async (from, to) => {
  asked.push(to - from + 1);
  return list.slice(from, to + 1);
});
const placeOf = (id) => list.findIndex((job) => job.id === id);

test("a range goes from the last one that was ticked, in both directions, over jobs that are not seen", async () => {
  const chosen = made();
  chosen.set(at(2000), 2000, true);
  await chosen.rangeTo(5, placeOf);
  assert.strictEqual(chosen.jobs.size, 1996);
  assert.ok(chosen.has(at(5).id) && chosen.has(at(2000).id) && !chosen.has(at(4).id));
  assert.ok(asked.every((many) => many <= MOST_AT_ONCE));
});

test("a range from one that was unticked unticks", async () => {
  const chosen = made();
  await chosen.chooseAll(500);
  assert.deepStrictEqual([chosen.all, chosen.jobs.size], [false, 500]);
  chosen.set(at(10), 10, false);
  await chosen.rangeTo(19, placeOf);
  assert.strictEqual(chosen.jobs.size, 490);
});

test("a range starts where its first job is now, though the list has moved", async () => {
  const chosen = made();
  chosen.set(at(7), 3, true); // it was at place 3
  await chosen.rangeTo(9, placeOf);
  assert.deepStrictEqual([...chosen.jobs.keys()].sort(), [at(9).id, at(8).id, at(7).id]);
});

test("all of a long list are those that match, whichever these are", async () => {
  const chosen = made();
  chosen.set(at(1), 1, true);
  await chosen.chooseAll(list.length);
  assert.ok(chosen.all && chosen.has(1) && chosen.jobs.size === 0);
  chosen.clear();
  assert.ok(!chosen.some);
});

test("an address says which are chosen by ranges, and one that is no such thing says nothing", () => {
  assert.strictEqual(rangesOf([7, 2, 1, 3, 11]), "1-3,7,11");
  assert.deepStrictEqual(idsOf("1-3,7,11"), [1, 2, 3, 7, 11]);
  assert.deepStrictEqual(idsOf("x,1e9,-3,5-4"), []);
  assert.strictEqual(idsOf("1-999999999").length, 10_000);
});
