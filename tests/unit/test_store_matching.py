"""Filters as conditions of SQL, on a table of four jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import pytest

from stoker.store.matching import Term, conditions

# id, name, state, queued, queued again, ended; and the GPUs and start of the latest attempt.
QUEUED = (1, "a%b", "waiting", 100, None, None)
AGAIN = (2, None, "waiting", 100, 400, None)
RUNS = (3, "[x]", "running", 100, None, None)
ENDED = (4, "x", "failed", 100, None, 500)
ATTEMPTS = [(2, '["0"]', 200), (3, '["0", "1"]', 300), (4, '["1"]', 200)]


def matching(*terms: Term) -> list[int]:
    with sqlite3.connect(":memory:") as db:
        db.execute(
            'CREATE TABLE jobs (id, name, state, submitted_at_ms INTEGER, "group", launch, attempt,'
            " queued_again_at_ms INTEGER, ended_at_ms INTEGER)"
        )
        db.execute(
            "CREATE TABLE attempts (job_id, gpus, started_at_ms INTEGER, number, placed_at_ms)"
        )
        for job_id, name, state, queued, again, ended in (QUEUED, AGAIN, RUNS, ENDED):
            launch = '{"argv": ["python", "train_1.py"]}'
            row = (job_id, name, state, queued, launch, again, ended)
            db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, NULL, ?, 1, ?, ?)", row)
        db.executemany("INSERT INTO attempts VALUES (?, ?, ?, 1, 0)", ATTEMPTS)
        where, values = conditions(terms)
        found = db.execute(f"SELECT id FROM jobs AS j WHERE {' AND '.join(where)}", values)
        return [row[0] for row in found]


@pytest.mark.parametrize(
    ("term", "ids"),
    [
        (("since", ("400",), False), [2, 4]),
        (("since", ("300",), False), [2, 3, 4]),
        (("since", ("501",), False), []),
        (("since", ("400",), True), [1, 3]),
        (("gpu", ("0",), False), [3]),
        (("gpu", ("0", "1"), False), [3, 4]),
        (("gpu", ("1",), True), [1, 2]),
        (("name", ("[x]",), False), [3, 4]),
        (("name", ("*",), True), [2]),
        (("text", ("TRAIN_1",), False), [1, 2, 3, 4]),
        (("text", ("train%",), False), []),
        (("text", ("a%",), True), [2, 3, 4]),
        (("text", ("2",), False), [2]),
    ],
)
def test_a_word_matches_what_a_job_has_and_its_negation_all_others(
    term: Term, ids: Sequence[int]
) -> None:
    assert matching(term) == ids


def test_all_words_must_match() -> None:
    assert matching(("gpu", ("1",), False), ("state", ("failed",), False)) == [4]
