"""A point that its search stops early, as users meet it: neither failed nor cancelled."""

from __future__ import annotations

import json

import pytest

from stoker_home import StokerHome, kill_and_wait
from waiting import eventually

WHY = "at step 9: loss 0.81 (asha)"


@pytest.fixture
def point(home: StokerHome) -> int:
    """A job that runs, ignores nothing, and ends well when it is told to."""
    home.start(gpus="0")
    job = home.add("--retries", "3", "--", "sh", "-c", "trap 'exit 0' TERM; sleep 100 & wait")
    eventually(lambda: home.job(job)["state"] == "running", "it runs")
    return job


def _stopped(home: StokerHome, job: int) -> None:
    assert home.call("stop_early", job_id=job, attempt=1, why=WHY)["stopped"]
    eventually(lambda: home.job(job)["state"] == "stopped", "it has ended")


def test_what_is_stopped_early_is_shown_as_such_by_every_verb(home: StokerHome, point: int) -> None:
    needs_success = home.add("--after", str(point), "--", "true")
    needs_end = home.add("--after-any", str(point), "--", "true")
    _stopped(home, point)
    shown = home.job(point)
    assert (shown["attempt"], shown["reason"]) == (1, f"stopped early {WHY}")
    assert "stopped early" in home.stoker("show", str(point))
    assert home.stoker("why", str(point)) == f"job {point} was stopped early {WHY}\n"
    listed = json.loads(home.stoker("ls", "--state", "stopped", "--json"))["jobs"]
    assert [job["id"] for job in listed] == [point]
    assert home.cli("wait", str(point)).code == 0
    assert home.cli("wait", str(needs_end)).code == 0
    assert home.job(needs_success)["state"] == "skipped"
    left = home.cli("retry", "--all")
    assert "left out: 1 stopped" in left.err and home.job(point)["state"] == "stopped"
    home.stoker("rm", "--all", "--state", "stopped")
    assert point not in home.jobs()


def test_it_is_run_again_if_its_user_names_it(home: StokerHome, point: int) -> None:
    _stopped(home, point)
    home.stoker("retry", str(point))
    eventually(lambda: home.job(point)["state"] == "running", "it runs again")
    # That was about the attempt before.
    assert not home.call("stop_early", job_id=point, attempt=1, why=WHY)["stopped"]
    assert home.job(point)["state"] == "running"


def test_a_daemon_that_is_killed_forgets_nothing_of_it(home: StokerHome) -> None:
    home.start(gpus="0")
    job = home.add("--grace", "1s", "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    eventually(lambda: home.job(job)["state"] == "running", "it runs")
    assert home.call("stop_early", job_id=job, attempt=1, why=WHY)["stopped"]
    kill_and_wait(home.daemon_pid())
    home.start()
    eventually(lambda: home.job(job)["state"] == "stopped", "it has ended")
    shown = home.job(job)
    assert (shown["signal"], shown["reason"]) == (9, f"stopped early {WHY}")
    assert not home.call("stop_early", job_id=job, attempt=1, why="again")["stopped"]


def test_what_has_ended_or_is_cancelled_keeps_its_own_outcome(home: StokerHome) -> None:
    home.start(gpus="0")
    good = home.add("--", "true")
    assert home.cli("wait", str(good)).code == 0
    assert not home.call("stop_early", job_id=good, attempt=1, why=WHY)["stopped"]
    assert home.job(good)["state"] == "succeeded"
    waits = home.add("--hold", "--", "true")
    for number in (0, 1):
        assert not home.call("stop_early", job_id=waits, attempt=number, why=WHY)["stopped"]
    assert home.job(waits)["state"] == "held"
