"""Which calls are deleted when: old ones, the oldest of too many, and none that is awaited."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.api.paths import Home
from stoker.daemon.retention import Clearing, Retention, results_kept
from stoker.errors import UsageError

DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS
CLEARED = "calls_cleared"


class Calls:
    """A kept call is worth one byte."""

    def __init__(self, *jobs: int) -> None:
        self.kept = dict.fromkeys(f"/{job}.call" for job in jobs)
        self.awaited: set[str] = set()
        self.looks = 0

    @property
    def total_bytes(self) -> int:
        return len(self.kept)

    def look(self) -> bool:
        return False

    def look_anew(self) -> None:
        self.looks += 1

    def delete(self, path: str, attempts: int) -> int | None:
        if path in self.awaited:
            return None
        self.kept.pop(path, None)
        return 1


class World:
    """Jobs that ended so many days ago; all but those with an even number are calls."""

    def __init__(self, ended_days_ago: dict[int, int]) -> None:
        self.ended = {job: NOW_MS - days * DAY_MS for job, days in ended_days_ago.items()}
        self.calls = Calls(*(job for job in self.ended if job % 2))
        self.settings: dict[str, str] = {}
        self.state: Any = SimpleNamespace(jobs={})

    def clearing(self, retention: Retention) -> Clearing:
        turn_loop: Any = SimpleNamespace(state=self.state, now_ms=lambda: NOW_MS)
        store: Any = SimpleNamespace(
            settings=lambda: self.settings, set_setting=self.settings.__setitem__
        )
        views: Any = SimpleNamespace(ended_between=self.between, calls_of=self.calls_of)
        calls: Any = self.calls
        made = Clearing(
            turn_loop, views, store, Home("/x"), lambda keys: True, lambda *_: None, calls
        )
        made.take(retention)
        return made

    def between(
        self, after: tuple[int, int], before_ms: int, most: int
    ) -> list[tuple[int, int, int]]:
        found = sorted((ms, job) for job, ms in self.ended.items() if job not in self.state.jobs)
        return [(ms, job, 1) for ms, job in found if (ms, job) > after and ms < before_ms][:most]

    def calls_of(self, jobs: list[int]) -> dict[int, str]:
        return {job: f"/{job}.call" for job in jobs if job % 2}

    def left(self) -> list[str]:
        return sorted(self.calls.kept)


def test_calls_are_deleted_when_they_are_old() -> None:
    world = World({1: 9, 2: 9, 3: 8, 5: 6})
    clearing = world.clearing(Retention(results_ms=7 * DAY_MS))
    clearing.clear()
    assert world.left() == ["/5.call"]
    clearing.take(Retention())
    world.ended = {5: 0}
    clearing.clear()
    assert world.left() == ["/5.call"]


def test_of_too_many_the_oldest_are_deleted_whatever_their_ids() -> None:
    world = World({1: 1, 3: 2, 5: 3, 7: 8})
    world.clearing(Retention(results_ms=7 * DAY_MS, results_bytes=2)).clear()
    assert world.left() == ["/1.call", "/3.call"]
    world.clearing(Retention(results_bytes=1)).clear()
    assert world.left() == ["/1.call"]
    world.clearing(Retention(results_bytes=1)).clear()
    assert world.left() == ["/1.call"]


def test_what_is_awaited_is_looked_at_again_also_by_the_next_daemon() -> None:
    world = World({1: 9, 3: 8, 5: 8})
    world.calls.awaited = {"/1.call"}
    kept = Retention(results_ms=7 * DAY_MS)
    clearing = world.clearing(kept)
    clearing.clear()
    clearing.clear()
    assert world.left() == ["/1.call"]
    world.calls.awaited.clear()
    world.clearing(kept).clear()
    assert world.left() == []
    clearing.clear()


def test_an_awaited_call_that_is_retried_meanwhile_is_kept() -> None:
    world = World({1: 9})
    world.calls.awaited = {"/1.call"}
    clearing = world.clearing(Retention(results_ms=7 * DAY_MS))
    clearing.clear()
    world.state.jobs[1] = "runs again"
    world.calls.awaited.clear()
    clearing.clear()
    assert world.left() == ["/1.call"]
    world.state.jobs.clear()
    world.ended[1] = NOW_MS  # It has ended once more.
    clearing.clear()
    assert world.left() == ["/1.call"]


def test_what_is_set_anew_is_compared_with_a_new_look() -> None:
    world = World({})
    world.clearing(Retention())
    assert world.calls.looks == 1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("7d,10G", (7 * DAY_MS, 10 << 30)),
        ("500M, 30m", (30 * 60_000, 500 << 20)),
        ("off", (None, None)),
        ("12h", (DAY_MS // 2, None)),
        ("2GiB", (None, 2 << 30)),
    ],
)
def test_a_bound_of_time_and_of_size_are_told_apart(
    text: str, kept: tuple[int | None, int | None]
) -> None:
    assert results_kept(text) == kept


@pytest.mark.parametrize("text", ["", "7d,8d", "1G,2G", "soon", "7", "10", "7d,10", "7d,10G,off"])
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        results_kept(text)
