// Which of very many lines are drawn.

import assert from "node:assert";
import { test } from "node:test";

import { thinned } from "./sweepdata.js";

// The parts of all points of a grid with so many values for each parameter, in the order in which they are queued.
function grid(...sizes) {
  const total = sizes.reduce((product, size) => product * size, 1);
  let period = total;
  return [total, sizes.map((size) => {
    period /= size;
    const own = period;
    return Array.from({ length: total }, (_, place) => (Math.floor(place / own) % size) / Math.max(1, size - 1));
  })];
}

test("every value of every axis keeps a line, whatever the sizes of a grid", () => {
  const grids = [[10, 20, 30], [2, 3001], [1501, 2], [32, 32, 2], [7, 11, 13, 2], [100, 100], [3, 1000], [50, 64]];
  for (const sizes of grids) {
    const [total, axes] = grid(...sizes);
    const drawn = thinned(total, axes, 1500);
    assert.ok(drawn.length <= Math.max(1500, ...sizes), `${sizes}: ${drawn.length}`);
    axes.forEach((parts, axis) => {
      const whole = new Set(parts.map((part) => Math.round(part * 150)));
      const kept = new Set(drawn.map((place) => Math.round(parts[place] * 150)));
      assert.deepStrictEqual([...whole].filter((part) => !kept.has(part)), [], `axis ${axis} of ${sizes}`);
    });
  }
});

test("the lines that are drawn are spread evenly over the values of every axis", () => {
  for (const sizes of [[5, 4, 125], [10, 10, 50], [4, 8, 16, 10]]) {
    const [total, axes] = grid(...sizes);
    const drawn = thinned(total, axes, 1500);
    axes.forEach((parts, axis) => {
      if (sizes[axis] > 20) return;
      const many = new Map();
      for (const place of drawn) many.set(parts[place], (many.get(parts[place]) || 0) + 1);
      const fair = drawn.length / sizes[axis];
      for (const number of many.values()) {
        assert.ok(number > fair * 0.7 && number < fair * 1.3, `${sizes}: ${[...many]}`);
      }
    });
  }
});
