"""A searcher at work, with a daemon that only keeps what it is told: what it asks for, and when."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from stoker.search.searcher import Searcher
from stoker.search.space import acceptance, dimensions
from stoker.search.spec import Ends, Objective, Search
from stoker.search.study import Study
from stoker.sweep import notation
from stoker.sweep.points import Repeat, Space
from stoker.text.jobs import FINAL_STATES

LOSS = Objective("loss", "min")
SEARCH = Search(
    "s", Space((notation.parsed("x=uniform(0,1)"),)), (LOSS,), Ends(samples=9), "random", 0, 2,
    ("true",), "flags", {}, {"cwd": "/"}, {},
)  # fmt: skip


@dataclass
class Daemon:
    """Jobs, their metrics, and what a searcher has said of its search."""

    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    metrics: dict[int, dict[str, float]] = field(default_factory=dict)
    elsewhere: set[int] = field(default_factory=set)  # jobs that are in another group by now
    told: dict[str, Any] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)  # of jobs that were retried
    last_id: int = 0

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self, f"_{op}")(**fields)
        return answer

    def _searches(self, name: str, newest: int, unsure: list[int]) -> dict[str, Any]:
        found = [
            [
                job["point"],
                job_id,
                job["state"],
                "exit",
                job["params"],
                self.attempts.get(job_id, 1),
            ]
            for job_id, job in self.jobs.items()
            if (job_id > newest or job_id in unsure) and job_id not in self.elsewhere
        ]
        return {"points": found}

    def _submit(self, each: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        known = {job["point"] for job in self.jobs.values()}
        new = [job for job in each if job["point"] not in known]
        ids = range(self.last_id + 1, self.last_id + 1 + len(new))
        self.last_id += len(new)
        self.jobs |= {one: {**job, "state": "waiting"} for one, job in zip(ids, new, strict=True)}
        return {"ids": list(ids)}

    def _points(self, points: list[str]) -> dict[str, Any]:
        return {"points": {job["point"]: {"id": one} for one, job in self.jobs.items()
                           if job["point"] in points}}  # fmt: skip

    def _metrics(self, select: dict[str, Any], names: list[str]) -> dict[str, Any]:
        rows = []
        for job in map(int, select["ids"]):
            for name, value in self.metrics.get(job, {}).items():
                said = value if math.isfinite(value) else repr(value)
                rows.append({"job": job, "attempt": 1, "name": name, "count": 1,
                             "last_step": 1, "min_step": 1, "max_step": 1,
                             "last": said, "min": said, "max": said})  # fmt: skip
        return {"unread": 0, "rows": rows}

    def _search_told(self, name: str, progress: dict[str, Any], ended: bool) -> dict[str, Any]:
        self.told = {**progress, "ended": ended}
        return {}

    def ends(self, job: int, state: str = "succeeded", **metrics: float) -> None:
        """Let a job have ended, with the values that it has printed."""
        self.jobs[job]["state"] = state
        self.metrics[job] = metrics

    def unfinished(self) -> list[int]:
        return [one for one, job in self.jobs.items() if job["state"] not in FINAL_STATES]


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


def _searcher(daemon: Daemon, home: Path, search: Search = SEARCH, over: str = "") -> Searcher:
    study = Study(
        str(home), search.name, dimensions(search.space), search.objectives, search.sampler,
        search.seed, acceptance(search.space, search.where),
    )  # fmt: skip
    return Searcher(search, study, daemon.call, over=over)


def test_a_point_that_is_held_waits_and_no_other_is_asked_for(
    daemon: Daemon, tmp_path: Path
) -> None:
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, max_running=None))
    searcher.look()
    for state in ("waiting", "held", "submitted"):
        daemon.jobs[1]["state"] = state
        searcher.look()
        assert (len(daemon.jobs), daemon.told["waits"]) == (1, "slot"), state
    daemon.jobs[1]["state"] = "running"
    searcher.look()
    assert len(daemon.jobs) == 2


def test_it_waits_for_a_slot_a_result_or_the_last_results(daemon: Daemon, tmp_path: Path) -> None:
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, ends=Ends(samples=3)))
    searcher.look()
    assert (len(daemon.jobs), daemon.told["waits"]) == (1, "slot")
    daemon.jobs[1]["state"] = "running"
    searcher.look()
    assert (len(daemon.jobs), daemon.told["waits"]) == (2, "result")
    daemon.ends(1, loss=0.5)
    daemon.jobs[2]["state"] = "running"
    searcher.look()
    assert (len(daemon.jobs), daemon.told["waits"]) == (3, "rest")
    for job in (2, 3):
        daemon.ends(job, loss=0.5)
    assert searcher.look()
    assert (daemon.told["waits"], daemon.told["over"]) == ("", "all trials were made")


def test_a_point_that_was_put_into_another_group_is_noted_and_given_up(
    daemon: Daemon, tmp_path: Path
) -> None:
    _searcher(daemon, tmp_path).look()
    for file in tmp_path.iterdir():
        file.unlink()  # Nothing is known of the first trial any more, but its point is there.
    daemon.elsewhere = {1}
    _searcher(daemon, tmp_path).look()
    assert len(daemon.jobs) == 2, "the next number has a job of its own"
    assert (daemon.told["trials"], daemon.told["told"]) == (2, 1)


def test_a_job_that_is_gone_takes_its_trial_along_only_if_no_later_one_has_its_place(
    daemon: Daemon, tmp_path: Path
) -> None:
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, max_running=1))
    searcher.look()
    daemon.jobs[2] = {**daemon.jobs.pop(1), "state": "running"}  # It was run again by its user.
    daemon.last_id = 2
    searcher.look()
    assert (daemon.told["trials"], daemon.told["told"], searcher.running) == (1, 0, {0: 2})
    del daemon.jobs[2]
    searcher.look()
    assert daemon.told["told"] == 1, "nothing more comes of it"


REPEATED = replace(SEARCH, space=replace(SEARCH.space, repeat=Repeat("seed", 3)), max_running=3)


def test_a_trial_has_no_value_if_one_of_its_repeats_has_none(
    daemon: Daemon, tmp_path: Path
) -> None:
    searcher = _searcher(daemon, tmp_path, REPEATED)
    searcher.look()
    assert [job["params"]["seed"] for job in daemon.jobs.values()] == [0, 1, 2]
    daemon.ends(1, loss=0.25)
    daemon.ends(2)
    daemon.ends(3, loss=0.25)
    searcher.look()
    assert (daemon.told["told"], daemon.told["best"]) == (1, [])
    for job, value in zip((4, 5, 6), (1.0, 2.0, 6.0), strict=True):
        daemon.ends(job, loss=value)
    searcher.look()
    assert daemon.told["best"] == [[1, 3.0]], "the mean of all three"


def test_infinite_values_are_said_as_text_and_those_without_a_mean_are_none(
    daemon: Daemon, tmp_path: Path
) -> None:
    searcher = _searcher(daemon, tmp_path, REPEATED)
    searcher.look()
    for job, value in zip((1, 2, 3), (math.inf, -math.inf, 1.0), strict=True):
        daemon.ends(job, loss=value)
    searcher.look()
    assert (daemon.told["told"], daemon.told["best"]) == (1, [])
    for job in (4, 5, 6):
        daemon.ends(job, loss=math.inf)
    searcher.look()
    assert daemon.told["best"] == [[1, "inf"]]


def test_a_point_that_is_retried_is_the_same_trial_and_told_anew(
    daemon: Daemon, tmp_path: Path
) -> None:
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, ends=Ends(samples=2)))
    searcher.look()
    daemon.ends(1, "failed")
    searcher.look()
    daemon.ends(2, loss=0.5)
    assert searcher.look()
    assert (daemon.told["failed"], daemon.told["best"]) == (1, [[1, 0.5]])
    daemon.jobs[1]["state"] = "waiting"  # stoker retry
    again = _searcher(daemon, tmp_path, replace(SEARCH, ends=Ends(samples=2)), "all were made")
    assert not again.look()
    assert (daemon.told["trials"], daemon.told["told"], daemon.told["left"]) == (2, 1, 1)
    daemon.ends(1, loss=0.25)
    daemon.attempts[1] = 2
    assert again.look()
    assert (daemon.told["trials"], daemon.told["failed"], daemon.told["best"]) == (
        2,
        0,
        [[0, 0.25]],
    )
    assert daemon.told["over"] == "all were made"
    daemon.ends(1, "failed")  # And it may have come to nothing while no searcher was there.
    daemon.attempts[1] = 3
    assert _searcher(daemon, tmp_path, replace(SEARCH, ends=Ends(samples=2))).look()
    assert daemon.told["best"] == [[1, 0.5]]
    assert len(daemon.jobs) == 2


def _fail(daemon: Daemon, searcher: Searcher, most: int) -> int:
    """How many points fail before the search is given up."""
    for count in range(most):
        for job in daemon.unfinished():
            daemon.ends(job, "failed")
        if searcher.look():
            return count + 1
    return most


def test_a_search_whose_first_eight_trials_fail_is_given_up(daemon: Daemon, tmp_path: Path) -> None:
    many = replace(SEARCH, ends=Ends(samples=20), max_running=1)
    searcher = _searcher(daemon, tmp_path, many)
    searcher.look()
    assert _fail(daemon, searcher, 20) == 8
    said = "the first 8 trials failed: see `stoker logs 1`; the same command goes on"
    assert (daemon.told["over"], daemon.told["failed"]) == (said, 8)
    searcher = _searcher(daemon, tmp_path, replace(many, since=8))
    assert not searcher.look(), "it was told to go on"
    assert _fail(daemon, searcher, 20) == 8
    assert (len(daemon.jobs), daemon.told["over"]) == (
        16,
        said.replace("first", "next").replace("logs 1", "logs 9"),
    )


def test_a_search_in_which_one_trial_ended_well_goes_on_after_eight_that_failed(
    daemon: Daemon, tmp_path: Path
) -> None:
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, ends=Ends(samples=20), max_running=1))
    searcher.look()
    daemon.ends(1, "stopped")
    searcher.look()
    assert _fail(daemon, searcher, 12) == 12
    assert daemon.told["over"] == ""


def _without_values(daemon: Daemon, searcher: Searcher, most: int) -> int:
    """How many points end without a value before the search is given up."""
    for count in range(most):
        for job in daemon.unfinished():
            daemon.ends(job, acc=1.0)
        if searcher.look():
            return count + 1
    return most


def test_a_search_whose_first_three_points_have_no_value_is_given_up(
    daemon: Daemon, tmp_path: Path
) -> None:
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, max_running=1))
    searcher.look()
    assert _without_values(daemon, searcher, 8) == 3
    assert daemon.told["over"] == "the points have no value of loss; they have acc"


def test_a_search_in_which_one_point_has_a_value_goes_on_without_others(
    daemon: Daemon, tmp_path: Path
) -> None:
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, max_running=1))
    searcher.look()
    daemon.ends(1, loss=0.5)
    searcher.look()
    assert _without_values(daemon, searcher, 7) == 7
    assert daemon.told["over"] == ""


def test_points_that_were_stopped_before_they_had_a_value_do_not_count(
    daemon: Daemon, tmp_path: Path
) -> None:
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, max_running=1))
    searcher.look()
    for job in range(1, 6):
        daemon.ends(job, "stopped")
        assert not searcher.look()
    assert daemon.told["stopped"] == 5


def test_a_search_ends_at_its_time_and_not_before(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends(samples=9, at_ms=2_000_000)
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, ends=ends))
    monkeypatch.setattr(time, "time", lambda: 1_999.0)
    assert not searcher.look()
    assert searcher.seconds_left() == 1.0
    monkeypatch.setattr(time, "time", lambda: 2_000.0)
    assert not searcher.look(), "the point that is under way is awaited"
    assert searcher.seconds_left() is None, "the clock has no more to say"
    assert (daemon.told["over"], daemon.told["ended"]) == ("its time is over", False)
    daemon.ends(1, loss=0.5)
    assert searcher.look()
    assert (daemon.told["over"], daemon.told["ended"]) == ("its time is over", True)
    assert len(daemon.jobs) == 1, "no point is asked for after that"


@pytest.mark.parametrize(
    ("goal", "value", "is_over"),
    [("min", 0.5, True), ("min", 0.6, False), ("max", 0.5, True), ("max", 0.4, False)],
)
def test_a_search_ends_when_the_objective_that_was_named_is_good_enough(
    daemon: Daemon, tmp_path: Path, goal: Any, value: float, is_over: bool
) -> None:
    objectives = (Objective("cost", "min" if goal == "max" else "max"), Objective("loss", goal))
    ends = Ends(samples=9, until=("loss", 0.5))
    searcher = _searcher(daemon, tmp_path, replace(SEARCH, objectives=objectives, ends=ends))
    searcher.look()
    daemon.ends(1, cost=0.5, loss=value)
    assert searcher.look() == is_over
