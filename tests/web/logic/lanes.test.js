// Bars of the timeline are true to scale, lie beside each other, and what is too small is counted.

import assert from "node:assert";
import { test } from "node:test";

import { CELL_PX, MOST_LANES, around, moved, placed, showing, ticks, zoomed } from "./lanes.js";

const VIEW = { from: 0, to: 100_000, width: 1000 };
const ended = (id, from, to) => ({ id, from, to, until: to, ahead: false });

function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

test("each bar is as wide as its time, none lies over another, and each job is drawn or counted", () => {
  const next = random(7);
  for (let turn = 0; turn < 50; turn += 1) {
    const jobs = Array.from({ length: 120 }, (_, id) => {
      const from = Math.floor(next() * 95_000);
      return ended(id, from, from + Math.floor(next() ** 4 * 5_000));
    });
    const { bars, counted } = placed(jobs, VIEW);
    for (const { job, left, width } of bars) {
      assert.ok(Math.abs(left - job.from / 100) < 1e-6 && Math.abs(width - (job.to - job.from) / 100) < 1e-6);
    }
    for (const one of bars) {
      for (const other of bars) {
        if (one === other || one.lane !== other.lane) continue;
        const apart = one.left + one.width <= other.left + 1e-6 || other.left + other.width <= one.left + 1e-6;
        assert.ok(apart);
      }
    }
    const told = [...bars.map((one) => one.job.id), ...counted.flatMap((one) => one.jobs.map((job) => job.id))];
    assert.deepStrictEqual(told.sort((a, b) => a - b), jobs.map((job) => job.id));
    const cells = counted.map((one) => one.left);
    assert.ok(new Set(cells).size === cells.length && counted.every((one) => one.width <= CELL_PX));
  }
});

test("a job of no time is counted, and never drawn as a bar", () => {
  const { bars, counted } = placed([ended(1, 50_000, 50_000), ended(2, 50_100, 50_150)], VIEW);
  assert.deepStrictEqual(bars, []);
  assert.deepStrictEqual(counted.map((one) => one.jobs.map((job) => job.id)), [[1, 2]]);
});

test("a job that runs goes on to its expected end, and to the edge if that is not known", () => {
  const known = { id: 1, from: 10_000, to: 40_000, until: 70_000, ahead: false };
  const { bars } = placed([known, ended(2, 60_000, 65_000)], VIEW);
  const shown = bars.map(({ job, left, width, lane, rest, open }) => [job.id, left, width, lane, rest, open ?? false]);
  assert.deepStrictEqual(shown, [[1, 100, 300, 0, false, false], [1, 400, 300, 0, true, false],
    [2, 600, 50, 1, false, false]]);
  const unknown = placed([{ ...known, until: null }], VIEW).bars[1];
  assert.deepStrictEqual([unknown.left, unknown.width, unknown.rest, unknown.open], [400, 600, true, true]);
});

test("a job that has just started is drawn although it is not wide yet", () => {
  const { bars, counted } = placed([{ id: 1, from: 40_000, to: 40_010, until: null, ahead: false }], VIEW);
  assert.strictEqual(counted.length, 0);
  assert.deepStrictEqual(bars.map((one) => one.rest), [false, true]);
});

test("jobs beside each other beyond what there is room for are counted", () => {
  const jobs = Array.from({ length: MOST_LANES + 2 }, (_, id) => ended(id, 1000, 50_000));
  const { bars, lanes, counted } = placed(jobs, VIEW);
  assert.deepStrictEqual([bars.length, lanes, counted[0].jobs.length], [MOST_LANES, MOST_LANES, 2]);
});

test("what is not seen is neither drawn nor counted, and what reaches over an edge is cut there", () => {
  const { bars, counted } = placed([ended(1, -9000, -8000), ended(2, -5000, 5000), ended(3, 99_000, 200_000),
    ended(4, 100_001, 200_000)], VIEW);
  assert.deepStrictEqual(bars.map(({ job, left, width }) => [job.id, left, width]), [[2, 0, 50], [3, 990, 10]]);
  assert.deepStrictEqual(counted, []);
});

test("a range looks back as far as it says, and ahead by a quarter of that", () => {
  assert.deepStrictEqual(around(10 * 3_600_000, 1), { from: 9 * 3_600_000, to: 10.25 * 3_600_000 });
});

test("what is pointed at stays where it is when one zooms", () => {
  const view = zoomed({ from: 0, to: 1000_000 }, 0.5, 0.25);
  assert.deepStrictEqual(view, { from: 125_000, to: 625_000 });
  assert.deepStrictEqual(moved(view, 0.5), { from: 375_000, to: 875_000 });
  const all = showing([{ from: 1000, to: 3000 }, { from: 2000, to: 9000 }]);
  assert.ok(all.from < 1000 && all.to > 9000);
});

test("an axis names round moments that do not touch, however much it shows", () => {
  for (let span = 500; span < 31 * 86_400_000; span *= 1.7) {
    const view = { from: 1_700_000_123_456, to: 1_700_000_123_456 + span };
    const found = ticks(view, 900, 72);
    assert.ok(found.length >= 1 || span > 86_400_000, `none in ${span} ms`);
    const gaps = found.slice(1).map((tick, place) => ((tick.ms - found[place].ms) / span) * 900);
    assert.ok(gaps.every((gap) => gap >= 71), `${gaps}`);
  }
});
