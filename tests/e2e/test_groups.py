"""`stoker groups`: what groups there are, and how many of each may run at a time."""

from __future__ import annotations

import json

import pytest

from stoker_home import StokerHome
from waiting import eventually


def running(stoker: StokerHome) -> int:
    return [job["state"] for job in stoker.jobs().values()].count("running")


def test_the_limit_of_a_sweep_can_be_changed_and_lifted(reused: StokerHome) -> None:
    reused.stoker("sweep", "x=range(4)", "--name", "s", "--max-running", "1", "--", "sleep 600 {x}")
    eventually(lambda: running(reused) == 1, "one runs")
    assert "at most 1" in reused.stoker("why", str(reused.first_id + 1))
    ran = reused.cli("groups", "limit", "s", "2")
    assert (ran.code, ran.out, ran.err) == (0, "", "at most 2 of group s run at a time\n")
    eventually(lambda: running(reused) == 2, "two run")
    ran = reused.cli("groups", "limit", "s", "none")
    assert ran.err == "no limit for group s any more\n"
    eventually(lambda: running(reused) == 4, "all run")


def test_a_lower_limit_stops_nothing_that_runs(reused: StokerHome) -> None:
    reused.submit_all([{"argv": ["sleep", "600"], "group": "g"} for _ in range(3)])
    eventually(lambda: running(reused) == 3, "all run")
    answer = json.loads(reused.stoker("groups", "limit", "g", "1", "--json"))
    assert answer == {"schema": 1, "group": "g", "max_running": 1}
    last = reused.submit("true", group="g")
    assert "at most 1" in reused.stoker("why", str(last))
    assert running(reused) == 3


def test_groups_are_listed_with_their_jobs_limits_and_pauses(reused: StokerHome) -> None:
    assert reused.cli("groups").err == "no groups\n"
    reused.until_final(reused.submit("false", group="old"))
    reused.submit_all([{"argv": ["sleep", "600"], "group": "new", "gpus": 4} for _ in range(3)])
    reused.call("limit_group", group="new", max_running=2)
    reused.call("pause", group="old")
    reused.call("limit_group", group="empty", max_running=7)
    reused.until_state(reused.first_id + 1, "running")
    shown = [line.split("  ") for line in reused.stoker("groups").splitlines()]
    words = [[word.strip() for word in line if word.strip()] for line in shown]
    assert words == [
        ["GROUP", "LIMIT", "STATES"],
        ["empty", "7"],
        ["old", "1 failed", "paused"],
        ["new", "2", "2 waiting, 1 running"],
    ]
    listed = json.loads(reused.stoker("groups", "--json"))
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
    reused: StokerHome, words: list[str], code: int, message: str
) -> None:
    reused.submit("true", group="g", hold=True)
    ran = reused.cli("groups", "limit", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert message in ran.err
    assert reused.call("groups")["groups"][0]["max_running"] is None
