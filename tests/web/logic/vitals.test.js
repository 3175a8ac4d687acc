// How long a job has run and still runs, and how it ended, in words.

import assert from "node:assert";
import { test } from "node:test";

import { vitals } from "./vitals.js";

const MINUTE = 60_000;
const at = 1_000 * MINUTE;
const started = (more) => ({ state: "running", started_at_ms: at - 10 * MINUTE, submitted_at_ms: 0, attempts: [{}],
  retries: 0, time_limit_ms: null, exit_code: null, ...more });
const said = (job, why = {}) => Object.fromEntries(vitals(job, why, at));

test("the time left is the estimate, unless the limit comes first", () => {
  const why = { run_ms: 25 * MINUTE, learned_from: 3 };
  assert.deepStrictEqual(said(started(), why),
    { Elapsed: "10m 00s", "Time left": "about 15m 00s (from 3 earlier runs)" });
  assert.strictEqual(said(started({ time_limit_ms: 12 * MINUTE }), why)["Time left"], "at most 2m 00s");
  assert.strictEqual(said(started({ time_limit_ms: 60 * MINUTE }), why)["Time left"],
    "about 15m 00s (from 3 earlier runs)");
  assert.strictEqual(said(started())["Time left"], "not known");
  assert.strictEqual(said(started(), { run_ms: 5 * MINUTE, learned_from: 1 })["Time left"],
    "it runs longer than usual (from 1 earlier run)");
});

test("a job that ended says how long it ran and its exit code, also 0", () => {
  const ended = started({ state: "succeeded", ended_at_ms: at - MINUTE, exit_code: 0 });
  assert.deepStrictEqual(said(ended), { Ran: "9m 00s", "Exit code": "0" });
  const killed = { ...ended, state: "failed", exit_code: null, signal: "SIGKILL", retries: 2, attempts: [{}, {}] };
  assert.deepStrictEqual(said(killed), { Ran: "9m 00s", "Ended by": "signal SIGKILL", Attempt: "2 (2 retries after a failure)" });
});

test("a job that waits again says how its last attempt ended, and has no time left", () => {
  const waits = { state: "waiting", submitted_at_ms: at - 3 * MINUTE, attempts: [{ exit_code: 7 }], retries: 1 };
  assert.deepStrictEqual(said(waits),
    { "Waits since": "3m 00s", "Exit code of the last attempt": "7", Attempt: "1 (1 retry after a failure)" });
});
