// A group that is clicked becomes a word of the filter.

import assert from "node:assert";
import { test } from "node:test";

import { quoted, withGroup } from "./filter.js";

test("a group takes the place of another one, and the other words stay", () => {
  assert.strictEqual(withGroup("", "g1"), "group:g1");
  assert.strictEqual(withGroup('lr group:"a b" -state:failed', "g1"), "group:g1 lr -state:failed");
  assert.strictEqual(withGroup("group:a,b lr subgroup:x", ""), "lr subgroup:x");
});

test("a name with letters that mean something is quoted", () => {
  assert.deepStrictEqual(["a b", "a:b", "a,b", 'a"b', "a\"b'c", "lr*"].map(quoted),
    ['"a b"', '"a:b"', '"a,b"', "'a\"b'", "\"a?b'c\"", "lr*"]);
});
