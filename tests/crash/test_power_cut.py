"""Daemon, keeper and jobs are gone at once, as when the power fails; or the keeper alone is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.executors.adoption import Past
from stoker_home import StokerHome, is_running, kill_and_wait, lines_of
from waiting import eventually


def test_jobs_that_ran_are_lost_and_nothing_else_changes(stoker: StokerHome) -> None:
    done = stoker.submit("sh", "-c", "exit 3")
    stoker.until_final(done)
    running = stoker.submit("sleep", "600", gpus=4)
    waiting = stoker.submit("sh", "-c", "exit 4")
    held = stoker.submit("true", hold=True)
    stoker.until_state(running, "running")
    before = stoker.jobs()
    stoker.power_cut()
    stoker.start()
    after = stoker.jobs()
    assert after[done] == before[done]
    assert after[held] == before[held]
    lost = after[running]
    assert (lost["state"], lost["exit_code"], lost["signal"]) == ("lost", None, None)
    assert lost["reason"]
    assert stoker.until_final(waiting)[0]["exit_code"] == 4
    assert stoker.cli("wait", str(running)).code == 1


def test_jobs_with_retries_run_again(stoker: StokerHome) -> None:
    ran, go = stoker.work / "ran", stoker.work / "go"
    script = f"echo $STOKER_ATTEMPT >> {ran}; until [ -e {go} ]; do sleep 0.02; done; exit 0"
    job = stoker.submit("sh", "-c", script, retries=1)
    eventually(lambda: lines_of(ran) == ["1"])
    stoker.until_pid(job)
    stoker.power_cut()
    stoker.start()
    go.touch()
    ended = stoker.until_final(job)[0]
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    assert [attempt["state"] for attempt in ended["attempts"]] == ["lost", "succeeded"]
    assert lines_of(ran) == ["1", "2"]


def test_a_lost_job_can_be_retried_by_hand(stoker: StokerHome) -> None:
    go = stoker.work / "go"
    job = stoker.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done")
    stoker.until_pid(job)
    stoker.power_cut()
    stoker.start()
    assert stoker.job(job)["state"] == "lost"
    go.touch()
    stoker.call("retry", select={"ids": [str(job)]})
    assert stoker.until_final(job)[0]["state"] == "succeeded"


def test_what_depends_on_a_lost_job_is_skipped(stoker: StokerHome) -> None:
    job = stoker.submit("sleep", "600")
    needs = stoker.submit("true", after=[str(job)])
    any_end = stoker.submit("true", after_any=[str(job)])
    stoker.until_pid(job)
    stoker.power_cut()
    stoker.start()
    assert stoker.until_final(needs)[0]["state"] == "skipped"
    assert stoker.until_final(any_end)[0]["state"] == "succeeded"


def test_a_keeper_that_is_killed_alone_disturbs_nothing(stoker: StokerHome) -> None:
    go = stoker.work / "go"
    wait = f"until [ -e {go} ]; do sleep 0.02; done; exit 21"
    job = stoker.submit("sh", "-c", wait)
    stoker.until_pid(job)
    kill_and_wait(stoker.keeper_pid())
    go.touch()
    assert stoker.until_final(job)[0]["exit_code"] == 21
    assert stoker.until_final(stoker.submit("sh", "-c", "exit 22"))[0]["exit_code"] == 22
    stoker.cli("daemon", "restart")
    assert stoker.until_final(stoker.submit("sh", "-c", "exit 23"))[0]["exit_code"] == 23


def test_without_a_keeper_an_exit_code_that_nobody_saw_is_not_invented(stoker: StokerHome) -> None:
    go = stoker.work / "go"
    job = stoker.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 0")
    pid = stoker.until_pid(job)
    kill_and_wait(stoker.keeper_pid())
    stoker.kill_daemon()
    stoker.start()
    assert stoker.job(job)["state"] == "running"
    go.touch()
    eventually(lambda: not is_running(pid))
    ended = stoker.until_final(job)[0]
    assert (ended["state"], ended["exit_code"]) == ("lost", None)


def test_a_machine_that_was_started_anew_takes_no_process_for_a_job(stoker: StokerHome) -> None:
    job = stoker.submit("sleep", "600")
    pid = stoker.until_pid(job)
    keeper = stoker.keeper_pid()
    stoker.kill_daemon()
    kill_and_wait(keeper)
    for ledger in Path(stoker.home.root, "ledgers").glob("*.ledger"):
        text = ledger.read_text()
        boot = text.split()[1]
        ledger.write_text(text.replace(boot, "00000000-0000-0000-0000-000000000000"))
    stoker.start()
    assert stoker.job(job)["state"] == "lost"
    assert "machine went down" in stoker.job(job)["reason"]
    assert is_running(pid), "a process that may be somebody else's is left alone"


def test_a_reused_pid_is_not_taken_for_the_job(stoker: StokerHome) -> None:
    job = stoker.submit("sleep", "600")
    pid = stoker.until_pid(job)
    keeper = stoker.keeper_pid()
    stoker.kill_daemon()
    kill_and_wait(keeper)
    for ledger in Path(stoker.home.root, "ledgers").glob("*.ledger"):
        # The same pid, but a process that was started at another time.
        lines = [
            " ".join([*line.split()[:4], "1"]) if line.startswith("pid ") else line
            for line in ledger.read_text().splitlines()
        ]
        ledger.write_text("\n".join(lines) + "\n")
    kill_and_wait(pid)
    stoker.start()
    assert stoker.job(job)["state"] == "lost"


def test_a_daemon_whose_keeper_was_killed_at_its_start_delays_no_other(
    home: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the keeper would start it; but its parent is another by now, which lives on.
    os.makedirs(home.home.root, 0o700)
    ready, report = os.pipe()
    daemon = subprocess.Popen(
        [sys.executable, "-m", "stoker.daemon.main", str(report), "4194000-77"],
        env=home.env, pass_fds=[report], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(report)
    assert os.read(ready, 100) == b"ready\n"
    os.close(ready)
    home.until_final(home.submit("true", gpus=0))
    daemon.kill()
    daemon.wait()
    ledgers = Path(home.home.root, "ledgers")
    [path] = ledgers.glob("*.ledger")
    with path.open("a") as file:
        file.write("intent 99 1\n")  # It was killed just then.
    monkeypatch.delattr(time, "sleep")
    past = Past(Path(home.home.attempts), ledgers)
    past.tidy([])
    assert not path.exists()
