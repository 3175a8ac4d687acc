// Usage over days, and saved views: what is worked out without a browser.

import assert from "node:assert/strict";
import test from "node:test";

import { topOf } from "./bars.js";
import { forgetView, savedViews, saveView } from "./savedviews.js";
import { capacityOf, edgesOf, hours, layersOf, percent } from "./stretches.js";

const HOUR = 3_600_000;

test("days are cut at midnight, also where the clock is set forward or back", () => {
  for (const zone of ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]) {
    process.env.TZ = zone;
    for (const at of ["2026-03-30T12:00", "2026-10-26T00:10", "2026-11-03T23:59", "2026-01-01T00:00"]) {
      const now = new Date(at).getTime();
      const edges = edgesOf("7d", now);
      assert.equal(edges.length, 8);
      for (const edge of edges) assert.equal(new Date(edge).getHours(), 0, `${zone} ${at}`);
      assert.ok(edges[6] <= now && now < edges[7]);
      assert.ok(edges.every((edge, place) => !place || edge > edges[place - 1]));
    }
    const today = edgesOf("24h", new Date("2026-05-05T10:30").getTime());
    assert.equal(today.length, 25);
    assert.equal(new Date(today[24]).getHours(), 11);
  }
});

test("there is no GPU time yet in what is still to come", () => {
  assert.deepEqual(capacityOf([0, HOUR, 2 * HOUR, 3 * HOUR], 4, 1.5 * HOUR), [4 * HOUR, 2 * HOUR, 0]);
});

test("hours and shares that are small are not none", () => {
  assert.deepEqual([0, 100, HOUR, 12.4 * HOUR, 1234 * HOUR].map(hours), ["0", "<0.1", "1", "12", "1,234"]);
  assert.deepEqual([percent(0, 10), percent(1, 1000), percent(1, 3), percent(1, 0)], ["0 %", "<1 %", "33 %", ""]);
});

test("the few who used most are layers of their own, and the rest is one", () => {
  const found = [{ name: "a", gpu_ms: [5, 0] }, { name: "b", gpu_ms: [2, 1] }, { name: "c", gpu_ms: [1, 1] },
    { name: "", gpu_ms: [0, 4] }];
  assert.deepEqual(layersOf(found, 2), [{ name: "a", values: [5, 0] }, { name: "b", values: [2, 1] },
    { name: null, values: [1, 5] }]);
  assert.deepEqual(layersOf(found.slice(0, 2), 2).length, 2);
});

test("an axis ends at a round number of its unit, and so does its middle", () => {
  assert.deepEqual([topOf(22, 1), topOf(3, 1), topOf(0, 1), topOf(8 * HOUR, HOUR)], [40, 4, 2, 10 * HOUR]);
});

test("views are kept by name, the latest first, and whatever else is in the store is left out", () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  assert.deepEqual(savedViews(storage), []);
  saveView("mine", "#/?text=mine", storage);
  saveView("bad", "#/?show=failed", storage);
  saveView("mine", "#/?text=mine&sort=time", storage);
  assert.deepEqual(savedViews(storage), [{ name: "mine", address: "#/?text=mine&sort=time" },
    { name: "bad", address: "#/?show=failed" }]);
  forgetView("mine", storage);
  assert.deepEqual(savedViews(storage).map((one) => one.name), ["bad"]);
  storage.setItem("stoker.views", "[{\"name\":\"x\",\"address\":\"https://elsewhere\"},3,null");
  assert.deepEqual(savedViews(storage), []);
  storage.setItem("stoker.views", "[{\"name\":\"x\",\"address\":\"https://elsewhere\"},3,null]");
  assert.deepEqual(savedViews(storage), []);
});
