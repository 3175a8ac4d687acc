"""docs/architecture.md says what the code does: every state, every move, every law of adoption."""

from __future__ import annotations

import re
from pathlib import Path

from stoker.core.model import Cause, JobState
from stoker.core.moves import MOVES

TEXT = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
MOVE = re.compile(r"^\| `(\w+)` \| `(\w+)` \| (.+) \|$", re.MULTILINE)


def test_every_job_state_is_defined_in_prose() -> None:
    defined = re.findall(r"^\*\*`(\w+)`\*\*: \w", TEXT, re.MULTILINE)
    assert sorted(defined) == sorted(JobState)


def test_every_legal_move_is_in_the_table_and_no_other_is() -> None:
    documented = [(JobState(source), JobState(target)) for source, target, _ in MOVE.findall(TEXT)]
    legal = {(a, b) for (a, _), targets in MOVES.items() for b in targets if b is not a}
    assert sorted(documented) == sorted(legal)


def test_every_cause_of_a_failure_is_named() -> None:
    for cause in (Cause.EXIT, Cause.TIME_LIMIT, Cause.NOT_STARTED):
        assert f"`{cause}`" in TEXT
