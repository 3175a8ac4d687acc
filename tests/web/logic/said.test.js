// Errors in the words of the page, each with the field that it is about.

import assert from "node:assert";
import { test } from "node:test";

import { gaveWay, ran, stateShown } from "./format.js";
import { inPageWords, saidOfField } from "./said.js";

const KEYS = ["gpus", "mem", "time_limit", "slice", "after", "on", "preemptible"];

test("options are named as their fields are labelled, and commands stay as they are typed", () => {
  assert.strictEqual(inPageWords("--signal needs a time limit; add --time-limit 2h or --slice", KEYS),
    "--signal needs a time limit; add “Time limit: 2h” or “Slice”");
  assert.strictEqual(inPageWords("write e.g. --after 7,8", KEYS), "write e.g. “After: 7,8”");
  assert.strictEqual(inPageWords("on --on, or `stoker add --gpus 2`", KEYS), "on “On”, or `stoker add --gpus 2`");
  assert.strictEqual(inPageWords("with --preemptible give way", KEYS), "with “Preemptible” give way");
});

test("an error says no key twice", () => {
  const error = { option: "gpus", message: "gpus: 'x' is not a number of GPUs", hint: "write e.g. --gpus 2" };
  assert.deepStrictEqual(saidOfField(error, KEYS),
    { field: "gpus", message: "'x' is not a number of GPUs", hint: "write e.g. “GPUs: 2”" });
  assert.deepStrictEqual(saidOfField({ message: "no", hint: "" }, KEYS), { field: "", message: "no", hint: "" });
});

test("an attempt that gave way says for which job, a suspended one that it stands still", () => {
  assert.strictEqual(gaveWay({ cause: "gave way", detail: "7" }), "gave way for job 7");
  assert.strictEqual(gaveWay({ cause: "gave way", detail: "" }), "gave way");
  assert.strictEqual(gaveWay({ cause: "exit", detail: "after it was told to give way for job 7" }), "");
  const stands = { state: "running", started_at_ms: 1_000, suspended_ms: 500, suspended_at_ms: 4_000, ended_at_ms: null };
  assert.strictEqual(stateShown(stands), "suspended");
  assert.strictEqual(ran(stands, 9_000), 2_500, "the time that it stands still is not counted");
  assert.strictEqual(stateShown({ ...stands, suspended_at_ms: null }), "running");
});
