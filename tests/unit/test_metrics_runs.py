"""Attempts that were put back, and the one that goes on, are one run with one series."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.metrics.attempt import Reading, read_attempt
from stoker.metrics.gathering import Sources, read
from stoker.metrics.kept import Kept
from stoker.metrics.lookup import Lookup
from stoker.metrics.runs import gone_on
from stoker.metrics.series import Series
from stoker.metrics.spec import Spec, run_of

FIRST = "epoch 1 loss=0.9 lr=1\nepoch 2 loss=0.5\nepoch 3 loss=0.1\nepoch 4 loss=0.3\n"
THEN = "epoch 5 loss=0.7\nepoch 6 loss=0.8\n"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    it = Home(tmp_path)
    yield it
    it.kept.close()


class Home:
    """Series that are kept, and the logs of job 1."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = Kept(str(path / "metrics.db"))
        self.lookup = Lookup(str(path / "metrics.db"))

    def spec(self, attempt: int, text: str, after: int | None = None) -> Spec:
        log = self.path / f"{attempt}.log"
        log.write_text(text)
        return Spec(1, attempt, log=str(log), after=after, ended=True)

    def store(self, *specs: Spec) -> None:
        for spec in specs:
            reading = Reading(spec)
            self.kept.go_on(reading)
            while reading.read(1 << 20, ended=spec.ended):
                pass
            self.kept.store([reading])

    def points(self, name: str = "loss", attempt: int | None = None) -> Any:
        return {one["name"]: one["points"] for one in self.lookup.curves(1, attempt)}.get(name)


def test_the_best_value_may_be_that_of_an_attempt_that_was_put_back(home: Home) -> None:
    home.store(home.spec(1, FIRST), home.spec(2, THEN, after=1))
    lr, loss = sorted(home.lookup.summaries([1]), key=lambda row: row["name"] == "loss")
    assert (loss["attempt"], loss["count"], loss["min"], loss["min_step"]) == (2, 6, 0.1, 3)
    assert (lr["name"], lr["last"]) == ("lr", 1), "what only the first one said is of the run too"
    assert home.lookup.ranked([1], "loss", "min") == [(1, 0.1)]
    assert home.lookup.names([1], 9) == {"loss": 1, "lr": 1}
    assert [step for step, _ in home.points()] == [1, 2, 3, 4, 5, 6]
    assert home.lookup.curves_of([1], "loss", 99)[0]["points"] == home.points()
    [(_, attempt, count, points)] = home.lookup.settled([1], "loss", {})
    assert (attempt, count, len(points)) == (2, 6, 6)
    assert home.points(attempt=1) == [[1, 0.9], [2, 0.5], [3, 0.1], [4, 0.3]]
    assert home.points(attempt=2) == [[5, 0.7], [6, 0.8]], "that attempt alone"
    assert home.points("lr", attempt=2) is None


def test_one_that_began_after_a_failure_begins_anew(home: Home) -> None:
    home.store(home.spec(1, FIRST), home.spec(2, THEN))
    assert home.points() == [[5, 0.7], [6, 0.8]]


def test_while_the_next_attempt_has_said_nothing_the_run_is_as_far_as_it_was(home: Home) -> None:
    home.store(home.spec(1, FIRST), home.spec(2, THEN, after=1), home.spec(3, "resumes\n", after=2))
    assert len(home.points()) == 6
    home.store(replace(home.spec(4, "epoch 6 loss=0.2\n", after=3), ended=False))
    assert home.points()[-2:] == [[5, 0.7], [6, 0.2]]


def test_what_is_kept_of_runs_is_that_of_the_latest_attempts(home: Home) -> None:
    for attempt in range(1, 20):
        before = attempt - 1 or None
        home.store(home.spec(attempt, f"step {attempt} loss={attempt}\n", after=before))
    with closing(sqlite3.connect(home.lookup.path)) as database:
        rows = database.execute("SELECT attempt FROM curves WHERE source = 9").fetchall()
    assert rows == [(18,), (19,)]
    assert len(home.points()) == 19


def test_files_that_are_read_anew_change_the_run_as_well(home: Home) -> None:
    rows = home.path / "rows.csv"
    home.store(home.spec(1, FIRST))
    for text in ("step,acc\n9,0.5\n", "step,loss\n9,0.5\n"):
        rows.write_text(text)
        home.store(replace(home.spec(2, THEN, after=1), folder=str(rows), ended=False))
    assert home.points("acc") is None
    assert home.points()[-1] == [9, 0.5]


def test_a_database_of_the_first_form_learns_of_runs_when_it_is_asked(tmp_path: Path) -> None:
    home = Home(tmp_path)
    first, then = home.spec(1, FIRST), home.spec(2, THEN)
    home.store(first, then)
    home.kept.close()
    with closing(sqlite3.connect(home.lookup.path)) as database:
        database.executescript("ALTER TABLE attempts DROP COLUMN after; PRAGMA user_version = 1")
    for log in (first.log, then.log):
        Path(str(log)).unlink()
    home.kept = Kept(home.lookup.path)
    assert home.lookup.whole([1]) == {(1, 1)}, "so the second is handed over once more"
    home.store(replace(then, after=1))
    assert len(home.points()) == 6
    home.kept.close()


PARTS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["loss", "acc"]), st.integers(0, 99)), max_size=6
)


@given(st.lists(PARTS, min_size=2, max_size=4), st.lists(st.integers(0, 11), max_size=12))
def test_in_whatever_order_attempts_are_read_the_run_is_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    said: Sequence[Sequence[tuple[int, str, int]]],
    order: Sequence[int],
) -> None:
    home = Home(tmp_path_factory.mktemp("runs"))
    texts = ["".join(f"step {s} {name}={v}\n" for s, name, v in part) for part in said]
    specs = [
        home.spec(number, text, after=number - 1 or None) for number, text in enumerate(texts, 1)
    ]
    for turn in [*order, *range(len(specs))]:  # Some are read in part, and then to their end.
        spec, text = specs[turn % len(specs)], texts[turn % len(specs)]
        if turn >= len(specs):
            Path(str(spec.log)).write_text(text[: text.find("\n") + 1])
        home.store(replace(spec, ended=False))
        Path(str(spec.log)).write_text(text)
    home.store(*specs)
    expected: dict[str, Series] = {}
    for spec in specs:
        expected = gone_on(expected, read_attempt(spec))
    found = {one["name"]: one["points"] for one in home.lookup.curves(1, None)}
    assert found == {name: json.loads(json.dumps(s.said_curve())) for name, s in expected.items()}
    home.kept.close()


def test_what_is_read_by_a_front_end_itself_is_of_the_whole_run(tmp_path: Path) -> None:
    attempts = []
    for number, (state, text) in enumerate(
        [("failed", "final 1\n"), ("requeued", "final 2\n"), ("succeeded", "final 3\n")], 1
    ):
        log = tmp_path / f"{number}.log"
        log.write_text(text)
        attempts.append({"attempt": number, "state": state, "log": str(log), "err_log": None,
                         "dir": str(tmp_path / str(number))})  # fmt: skip
    job = {"id": 1, "attempt": 3, "attempts": attempts, "options": {}, "cwd": "/", "name": None,
           "params": {}}  # fmt: skip
    sources = Sources.said([r"own=final (\S+)"], None)
    [own] = read(job, sources)
    assert (own.summary.attempt, own.points) == (3, [(0, 2), (1, 3)])
    [own] = read(job, sources, 1)
    assert own.points == [(0, 1)]


def test_a_run_goes_back_to_the_attempt_that_no_other_was_put_back_before() -> None:
    assert run_of(1, ()) == [1]
    assert run_of(5, {1, 3, 4}) == [3, 4, 5]
    assert run_of(2, {2, 3}) == [2]
