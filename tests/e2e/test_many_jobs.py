"""Ten thousand jobs in the queue, and what users do with them."""

from __future__ import annotations

import json
import time

import pytest

from stoker_home import StokerHome
from waiting import eventually

MANY = 10_000


@pytest.fixture
def full(home: StokerHome) -> StokerHome:
    home.start(gpus="0-3")
    home.call("pause")
    jobs = [{"argv": ["true"], "name": f"n{n % 7}", "group": "g"} for n in range(MANY)]
    assert home.submit_all(jobs) == list(range(1, MANY + 1))
    return home


def test_ten_thousand_jobs_are_listed_cancelled_and_removed(full: StokerHome) -> None:
    shown = json.loads(full.stoker("ls", "--json"))
    assert len(shown["jobs"]) == MANY
    assert len(full.stoker("ls").splitlines()) > 10
    assert json.loads(full.stoker("status", "--json"))["counts"]["waiting"] == MANY
    assert "9999 jobs come before it" in full.stoker("why", "last")
    assert len(json.loads(full.stoker("cancel", "1-5000", "--json"))["ids"]) == 5000
    assert len(json.loads(full.stoker("cancel", "--all", "--json"))["ids"]) == 5000
    assert json.loads(full.stoker("status", "--json"))["counts"]["cancelled"] == MANY
    assert len(json.loads(full.stoker("rm", "--all", "--json"))["ids"]) == MANY
    assert json.loads(full.stoker("ls", "--all", "--json"))["jobs"] == []
    full.call("resume")
    assert full.submit("true") == MANY + 1


def test_ten_thousand_waiting_jobs_survive_a_kill_and_go_on(full: StokerHome) -> None:
    full.call("hold", select={"ids": [f"101-{MANY}"]})
    full.kill_daemon()
    full.start()
    counts = full.call("status")["counts"]
    assert (counts["waiting"], counts["held"]) == (100, MANY - 100)
    full.call("resume")
    eventually(lambda: full.call("status")["counts"]["succeeded"] == 100, "those released ran")
    assert full.call("status")["counts"]["held"] == MANY - 100


def test_hundreds_of_removed_jobs_leave_no_directory(home: StokerHome) -> None:
    from pathlib import Path

    home.start()
    ids = home.submit_all([{"argv": ["true"], "gpus": 0, "cpus": 0}] * 300)
    home.until_final(ids[0], ids[-1])
    eventually(lambda: home.call("status")["counts"]["succeeded"] == 300, "all ran")
    home.call("remove", select={"all": True})
    attempts = Path(home.home.attempts)
    eventually(lambda: not list(attempts.glob("*/*")), "their directories are deleted")


def test_the_end_of_a_job_and_the_start_of_the_next_share_one_turn(home: StokerHome) -> None:
    home.start(gpus="0")
    home.call("pause")
    ids = home.submit_all([{"argv": ["true"], "gpus": 1}] * 200)
    before, began = home.call("hello")["turns"]["count"], time.monotonic()
    home.call("resume")
    home.until_final(ids[-1])
    turns, took_s = home.call("hello")["turns"]["count"] - before, time.monotonic() - began
    # Where a job takes long, that it has started is committed before it ends, after 50 ms.
    assert turns <= len(ids) + took_s / 0.05 + 10
