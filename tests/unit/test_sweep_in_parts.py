"""A long sweep is queued in parts, of which the next is made while the daemon takes one in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.cli.sweeping import queueing
from stoker.errors import UsageError
from stoker.sweep import notation
from stoker.sweep.points import Choosing, Space
from stoker.sweep.values import Point, Value
from unit.scripted_daemon import Script, ScriptedDaemon


@pytest.fixture(autouse=True)
def _few_in_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "_IN_A_MESSAGE", 2)


def planned(space: str, *words: str) -> queueing.Plan:
    request = {"jobs": [{}], "cwd": "/", "env": {"PATH": "/bin:/usr/bin"}, "user": "ada"}
    axes = (notation.parsed(space),)
    return queueing.plan(
        queueing.Wish(Space(axes), Choosing(), words, "flags", "mine", request, {})
    )


class Daemon:
    """Knows some points from before, and gives the others numbers."""

    def __init__(self, plan: queueing.Plan, known: dict[int, str]) -> None:
        self.points = {
            plan.jobs[place]["point"]: {"id": 100 + place, "state": state}
            for place, state in known.items()
        }
        self.taken: list[str] = []

    def script(self) -> Script:
        return {"points": self._points, "submit": self._submit}

    def _points(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"points": {p: self.points[p] for p in request["points"] if p in self.points}}

    def _submit(self, request: dict[str, Any]) -> dict[str, Any]:
        first = len(self.taken) + 1
        self.taken += [own["argv"][-1] for own in request["each"]]
        return {"ids": list(range(first, len(self.taken) + 1))}


@pytest.mark.parametrize(
    ("count", "known", "queued"),
    [
        (1, {}, "0"),
        (5, {}, "01234"),
        (6, {0: "succeeded", 3: "failed", 4: "running", 5: "succeeded"}, "123"),
        (6, {0: "succeeded", 1: "succeeded"}, "2345"),
        (4, {2: "succeeded", 3: "waiting"}, "01"),
        (2, {0: "succeeded", 1: "succeeded"}, ""),
    ],
)
def test_each_point_is_looked_at_and_queued_once_in_order(
    tmp_path: Path, count: int, known: dict[int, str], queued: str
) -> None:
    plan = planned(f"x=range(0,{count},1)", "echo", "{x}")
    daemon = Daemon(plan, known)
    with (
        ScriptedDaemon(tmp_path, daemon.script()) as scripted,
        Client(Home(str(tmp_path)), autostart=False) as client,
    ):
        told = queueing.queue(client, plan, None, None)
        asked = [point for one in scripted.sent("points") for point in one["points"]]
    assert asked == [job["point"] for job in plan.jobs]
    assert "".join(daemon.taken) == queued and told.ids == list(range(1, len(queued) + 1))
    assert told.done == list(known.values()).count("succeeded")
    assert told.unfinished == count - told.done - len(queued)


@pytest.mark.parametrize("words", [("echo", "{x:d}"), ("echo `{x}`",), ("{x}", "a")])
def test_a_bad_point_is_found_before_the_first_is_queued(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        planned("x=1,2,3,4,5,'no such thing'", *words)


def test_jobs_are_made_when_they_are_asked_for_and_once() -> None:
    made: list[Any] = []

    def job_at(point: Point) -> dict[str, Any]:
        made.append(point["x"].data)
        return {"n": len(made)}

    jobs = queueing.Jobs([{"x": Value(number, str(number))} for number in range(9)], job_at)
    assert len(jobs) == 9 and not made
    assert [job["n"] for job in jobs[2:4]] == [3, 4] and made == [0, 1, 2, 3]
    assert jobs[-1]["n"] == 9 and [job["n"] for job in jobs] == list(range(1, 10))
    assert made == list(range(9)) and jobs[20:] == []
