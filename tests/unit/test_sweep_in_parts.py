"""A long sweep is queued in parts, of which the next is made while the daemon takes one in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.errors import UsageError
from stoker.submission import sweeps
from stoker.sweep import notation
from stoker.sweep.points import Choosing, Space
from stoker.sweep.values import Point, Value
from unit.scripted_daemon import ScriptedDaemon

NO_SEARCH: dict[str, Any] = {"searches": [], "points": []}


@pytest.fixture(autouse=True)
def _few_in_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "_FIRST_IN_A_MESSAGE", 2)
    monkeypatch.setattr(sweeps, "_MOST_IN_A_MESSAGE", 3)


def planned(space: str, *words: str) -> sweeps.Plan:
    request = {"jobs": [{}], "cwd": "/", "env": {"PATH": "/bin:/usr/bin"}, "user": "ada"}
    axes = (notation.parsed(space),)
    return sweeps.plan(
        sweeps.SweepSpec(Space(axes), Choosing(), words, "flags", "mine", request, {})
    )


class Daemon:
    """Takes in every other point; of the rest, it says that they have succeeded."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokens: set[str] = set()

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        given = [own["argv"][-1] for own in request["each"]]
        self.asked += given
        self.tokens.add(request["token"])
        ids = [int(text) for text in given if int(text) % 2 == 0]
        left_out = {"succeeded": len(given) - len(ids), "unfinished": 10, "not_tried": 100}
        return {"ids": ids, "left_out": left_out}


@pytest.mark.parametrize(("count", "parts"), [(1, 1), (2, 1), (5, 2), (6, 3), (8, 3), (9, 4)])
@pytest.mark.parametrize("rerun", [None, "all"])
def test_each_point_is_given_once_in_order_and_what_became_of_it_is_added_up(
    tmp_path: Path, count: int, parts: int, rerun: str | None
) -> None:
    plan = planned(f"x=range(0,{count},1)", "echo", "{x}")
    daemon = Daemon()
    with (
        ScriptedDaemon(tmp_path, {"submit": daemon, "searches": NO_SEARCH}) as scripted,
        Client(Home(str(tmp_path)), autostart=False) as client,
    ):
        told = sweeps.queue(client, plan, rerun, None)
        rules = [one["rerun"] for one in scripted.sent("submit")]
    assert daemon.asked == [str(number) for number in range(count)]
    assert rules == [rerun or "missing"] * parts and len(daemon.tokens) == parts
    assert told.ids == list(range(0, count, 2)) and told.done == count // 2
    assert (told.unfinished, told.passed_over) == (10 * parts, 100 * parts)


def test_after_a_part_that_is_refused_nothing_follows(tmp_path: Path) -> None:
    plan = planned("x=range(0,8,1)", "echo", "{x}")
    took = Daemon()
    refused = {"ok": False, "error": {"code": "usage", "message": "no such GPU", "hint": "x"}}

    def submit(request: dict[str, Any]) -> dict[str, Any]:
        return refused if took.asked else took(request)

    with (
        ScriptedDaemon(
            tmp_path, {"submit": submit, "hello": {}, "searches": NO_SEARCH}
        ) as scripted,
        Client(Home(str(tmp_path)), autostart=False) as client,
    ):
        with pytest.raises(UsageError, match="no such GPU"):
            sweeps.queue(client, plan, None, None)
        client.call("hello")  # What was sent before has arrived by then.
        given = [own["argv"][-1] for one in scripted.sent("submit") for own in one["each"]]
    assert given == list("01234"), "two parts of three"


@pytest.mark.parametrize("words", [("echo", "{x:d}"), ("echo `{x}`",), ("{x}", "a")])
def test_a_bad_point_is_found_before_the_first_is_queued(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        planned("x=1,2,3,4,5,'no such thing'", *words)


def test_jobs_are_made_when_they_are_asked_for_and_once() -> None:
    made: list[Any] = []

    def job_at(point: Point) -> dict[str, Any]:
        made.append(point["x"].data)
        return {"n": len(made)}

    points = [{"x": Value(number, str(number))} for number in range(9)]
    jobs = sweeps.Jobs(len(points), points, job_at)
    assert len(jobs) == 9 and not made
    assert [job["n"] for job in jobs[2:4]] == [3, 4] and made == [0, 1, 2, 3]
    assert jobs[-1]["n"] == 9 and [job["n"] for job in jobs] == list(range(1, 10))
    assert made == list(range(9)) and jobs[20:] == []
