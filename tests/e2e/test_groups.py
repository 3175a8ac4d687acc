"""`stoker groups`: what groups there are, and how many of each may run at a time."""

from __future__ import annotations

import json

import pytest

from stoker_home import StokerHome
from waiting import eventually


@pytest.fixture
def stoker(lent: StokerHome) -> StokerHome:
    """It need not be a new one."""
    return lent


def running(stoker: StokerHome) -> int:
    return [job["state"] for job in stoker.jobs().values()].count("running")


def test_the_limit_of_a_sweep_can_be_changed_and_lifted(stoker: StokerHome) -> None:
    stoker.stoker("sweep", "x=range(4)", "--name", "s", "--max-running", "1", "--", "sleep 600 {x}")
    eventually(lambda: running(stoker) == 1, "one runs")
    assert "at most 1" in stoker.stoker("why", str(stoker.first_id + 1))
    ran = stoker.cli("groups", "limit", "s", "2")
    assert (ran.code, ran.out, ran.err) == (0, "", "at most 2 of group s run at a time\n")
    eventually(lambda: running(stoker) == 2, "two run")
    ran = stoker.cli("groups", "limit", "s", "none")
    assert ran.err == "no limit for group s any more\n"
    eventually(lambda: running(stoker) == 4, "all run")


def test_a_lower_limit_stops_nothing_that_runs(stoker: StokerHome) -> None:
    stoker.submit_all([{"argv": ["sleep", "600"], "group": "g"} for _ in range(3)])
    eventually(lambda: running(stoker) == 3, "all run")
    answer = json.loads(stoker.stoker("groups", "limit", "g", "1", "--json"))
    assert answer == {"schema": 1, "group": "g", "max_running": 1}
    last = stoker.submit("true", group="g")
    assert "at most 1" in stoker.stoker("why", str(last))
    assert running(stoker) == 3


def test_groups_are_listed_with_their_jobs_limits_and_pauses(stoker: StokerHome) -> None:
    assert stoker.cli("groups").err == "no groups\n"
    stoker.until_final(stoker.submit("false", group="old"))
    stoker.submit_all([{"argv": ["sleep", "600"], "group": "new", "gpus": 4} for _ in range(3)])
    stoker.call("limit_group", group="new", max_running=2)
    stoker.call("pause", group="old")
    stoker.call("limit_group", group="empty", max_running=7)
    stoker.until_state(stoker.first_id + 1, "running")
    shown = [line.split("  ") for line in stoker.stoker("groups").splitlines()]
    words = [[word.strip() for word in line if word.strip()] for line in shown]
    assert words == [
        ["GROUP", "LIMIT", "STATES"],
        ["empty", "7"],
        ["old", "1 failed", "paused"],
        ["new", "2", "2 waiting, 1 running"],
    ]
    listed = json.loads(stoker.stoker("groups", "--json"))
    assert listed["groups"][-1] == {
        "group": "new", "paused": False, "max_running": 2,
        "counts": {"waiting": 2, "running": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nobody", "2"], 3, "there is no group 'nobody'"),
        (["g", "0"], 2, "0"),
        (["g", "many"], 2, "many"),
        (["g"], 2, "needs N"),
    ],
)
def test_a_slip_is_told_in_one_line(
    stoker: StokerHome, words: list[str], code: int, message: str
) -> None:
    stoker.submit("true", group="g", hold=True)
    ran = stoker.cli("groups", "limit", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert message in ran.err
    assert stoker.call("groups")["groups"][0]["max_running"] is None
