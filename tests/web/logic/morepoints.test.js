// A sweep that is to have more points begins with those that it has.

import assert from "node:assert";
import { test } from "node:test";

import { spaceOf, templateOf } from "./morepoints.js";

test("each parameter has a line with the values that points have, as they are typed", () => {
  const points = [{ params: { lr: 0.1, act: "relu", tag: "a, b" } }, { params: { lr: 0.001, act: "relu", tag: "1" } },
    { params: { lr: 0.1, act: "gelu", deep: true } }];
  assert.deepStrictEqual(spaceOf(points), ["lr=0.1,0.001", "act=relu,gelu", 'tag="a, b","1"', "deep=true"]);
});

test("values become places, and those that were appended are left out", () => {
  assert.strictEqual(templateOf(["python", "train.py", "--lr", "1e-3", "--bs", "16"], { lr: 0.001, bs: 16 }),
    "python train.py");
  assert.strictEqual(templateOf(["python", "train.py", "16", "--lr", "0.1", "-v"], { lr: 0.1, bs: 16 }),
    "python train.py {bs} --lr {lr} -v");
  assert.strictEqual(templateOf(["echo", "1", "1", "a b"], { x: 1 }), "echo 1 1 'a b'");
});
