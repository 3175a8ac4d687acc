"""What differs between two answers is enough to make the new one of the old one."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import stoker.web
from stoker.web.deltas import MOST_KEPT, Told, change

STATIC = Path(stoker.web.__file__).parent / "static"


def made_up(chance: random.Random, depth: int = 3) -> Any:
    kind = chance.choice(("number", "text", "null", "flag", "list", "long", "object"))
    if depth == 0 or kind in ("number", "text", "null", "flag"):
        return chance.choice((3, 7, 2.5, "a", "", None, True, False, "__proto__"))
    if kind == "object":
        names = chance.sample(("a", "b", "c", "__proto__", "length"), chance.randint(0, 4))
        return {name: made_up(chance, depth - 1) for name in names}
    return [made_up(chance, depth - 1) for _ in range(chance.randint(0, 5 + 15 * (kind == "long")))]


def mutated(chance: random.Random, value: Any) -> Any:
    """A value that is much like another."""
    if chance.random() < 0.1:
        return made_up(chance)
    if isinstance(value, dict):
        kept = {name: mutated(chance, one) for name, one in value.items() if chance.random() > 0.1}
        return kept | ({"new": made_up(chance, 1)} if chance.random() < 0.2 else {})
    if isinstance(value, list):
        kept = [one if chance.random() < 0.8 else mutated(chance, one) for one in value]
        more = [made_up(chance, 1) for _ in range(chance.randint(0, 3))]
        return [kept, kept + more, kept[: chance.randint(0, len(kept))]][chance.randint(0, 2)]
    return value


def test_the_page_makes_the_new_answer_of_the_old_one_and_what_changed(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        assert not os.environ.get("CI"), "the page's logic needs node"
        pytest.skip("no node: the page's part of this is not tried")
    chance = random.Random(7)
    cases = []
    for _ in range(500):
        old = made_up(chance)
        new = mutated(chance, old)
        cases.append({"old": old, "new": new, "change": change(old, new)})
    assert any("at" in (case["change"] or {}) for case in cases)
    assert any("each" in (case["change"] or {}) for case in cases)
    (tmp_path / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    shutil.copy(STATIC / "deltas.js", tmp_path)
    script = """import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { changed } from "./deltas.js";
for (const { old, new: wanted, change } of JSON.parse(readFileSync("cases.json", "utf8"))) {
  const before = JSON.stringify(old);
  assert.deepEqual(changed(old, change), wanted, JSON.stringify({ old, change }));
  assert.equal(JSON.stringify(old), before, "the old one is as it was");
}"""
    (tmp_path / "try.js").write_text(script, encoding="utf-8")
    ran = subprocess.run([node, "try.js"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_of_a_sweep_of_5000_points_little_is_said_when_few_points_change() -> None:
    points = 5_000
    states = ["waiting"] * points
    old = {"columns": {"id": list(range(points)), "state": states},
           "metrics": [{"name": "loss", "last": [None] * points}]}  # fmt: skip
    new = json.loads(json.dumps(old))
    for place in range(40, 52):
        new["columns"]["state"][place] = "running"
        new["metrics"][0]["last"][place] = 0.25
    said = json.dumps(change(old, new))
    assert len(said) < 1_000 < len(json.dumps(new)) / 50


def test_only_the_last_answers_are_kept() -> None:
    told = Told()
    for number in range(MOST_KEPT + 2):
        told.note(str(number), number)
    assert told.since("1") is None and told.since(None) is None
    assert told.since(str(MOST_KEPT + 1)) == MOST_KEPT + 1
