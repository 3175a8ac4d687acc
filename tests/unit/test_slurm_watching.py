"""Slurm is asked for all jobs in one call, and the more seldom the less there is to hear."""

from __future__ import annotations

import time

import pytest

from stoker.executors.slurm.calls import Answer
from stoker.executors.slurm.squeue import NoAnswer
from stoker.executors.slurm.watching import Watcher

JOB = b'{"jobs": [{"job_id": %d, "comment": "t:b"}]}'
NOTHING = b'{"jobs": [], "errors": []}'


def answer(out: bytes = NOTHING, *, took_s: float = 0.01, **fields: object) -> Answer:
    usual = {"ok": True, "error": "", "silent": False, "not_now": False}
    return Answer(out=out, took_s=took_s, **(usual | fields))  # type: ignore[arg-type]


def pauses(watcher: Watcher, count: int, took_s: float = 0.01) -> list[float]:
    """How long it waits after each answer."""
    found, now = [], 100.0
    for _ in range(count):
        watcher.words(now)
        assert watcher.take(answer(took_s=took_s), now)
        found.append(watcher.due_at - now)
        now = watcher.due_at
    return found


def test_it_asks_more_and_more_seldom_up_to_twice_a_minute() -> None:
    found = pauses(Watcher("t:"), 20)
    assert found[0] == 0.5 and found == sorted(found) and found[-1] == 30.0


def test_a_cluster_that_answers_slowly_is_asked_less() -> None:
    assert min(pauses(Watcher("t:"), 5, took_s=4.0)) == 40.0


def test_after_something_was_done_it_asks_soon() -> None:
    watcher = Watcher("t:")
    pauses(watcher, 20)
    watcher.due_at = time.monotonic() + 30.0
    watcher.soon()
    assert watcher.due_at <= time.monotonic() + 0.5
    assert pauses(watcher, 1) == [0.5]


def test_a_controller_that_counts_back_has_forgotten_something() -> None:
    watcher = Watcher("t:")
    assert not watcher.counts_back(24)
    assert watcher.take(answer(JOB % 48), 0.0), "a task of that array has a number of its own"
    assert watcher.counts_back(24) and watcher.counts_back(30)
    assert not watcher.counts_back(49)
    watcher.take(answer(JOB % 5_000_000), 0.0)
    assert not watcher.counts_back(1), "it has begun anew"
    assert not watcher.counts_back(2)


def test_a_controller_that_is_not_reached_has_not_said_that_there_are_no_jobs() -> None:
    watcher = Watcher("t:")
    assert not watcher.take(answer(ok=False, silent=True), 0.0)
    with pytest.raises(NoAnswer):
        watcher.take(answer(b'{"jobs": [], "errors": [{"error": "no contact"}]}'), 0.0)
    assert watcher.never_asked


def test_where_there_is_no_json_the_text_is_read_at_once() -> None:
    watcher = Watcher("t:")
    assert "--json" in watcher.words(5.0)
    assert not watcher.take(answer(b"", ok=False, error="unrecognized option '--json'"), 5.0)
    assert watcher.due_at == 5.0 and "--json" not in watcher.words(5.0)
    line = b"6|6|3-4|PENDING|0|0||n.b|t:b|Resources|\n"
    assert watcher.take(answer(line), 5.0)
    assert sorted(watcher.by_place) == [("b", 3), ("b", 4)]
