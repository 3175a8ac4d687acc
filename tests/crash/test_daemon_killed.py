"""The daemon is killed at any moment: no job is lost, none runs twice, no exit code is invented."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from stoker import Executor
from stoker_home import (
    StokerHome,
    is_running,
    kill_and_wait,
    lines_of,
    pid_in,
)
from waiting import eventually

# Dozens of daemons are killed and started, one after the other.
pytestmark = pytest.mark.timeout(1500)

JOBS = 200
KILLS = 12
TAKEOVERS = 600
WARM_CALLS, WARM_KILLS = 150, 6


def test_200_jobs_run_exactly_once_however_often_the_daemon_is_killed(home: StokerHome) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    home.start(gpus="0-3")
    began, over = home.work / "began", home.work / "over"
    # Each job leaves its mark twice and ends with a code of its own; some are over at once.
    script = f"echo $STOKER_JOB_ID >> {began}; $1; echo $STOKER_JOB_ID >> {over}; exit $2"
    codes = [number % 251 for number in range(JOBS)]
    lengths = ["true", "sleep 0.03", "sleep 0.1"]
    ids = home.submit_all(
        [{"argv": ["sh", "-c", script, "job", chance.choice(lengths), str(code)]} for code in codes]
    )
    for number in range(KILLS):
        # Some are killed at once, most within the work; the last ones find much of it done.
        most = JOBS * (number + 1) // (KILLS + 4)
        wanted = chance.randint(min(len(lines_of(began)), most), most)
        until_lines(began, wanted)
        home.kill_daemon()
        if number % 2:
            # Nobody is there when these end.
            eventually(lambda: len(lines_of(over)) == len(lines_of(began)), "what ran is over")
        if number % 5 == 4:
            kill_while_it_starts(home)
        home.start()
    jobs = home.until_final(*ids)
    assert [job["exit_code"] for job in jobs] == codes
    assert Counter(lines_of(began)) == Counter({str(job_id): 1 for job_id in ids})
    assert all(job["attempt"] == 1 and job["signal"] is None for job in jobs)
    assert all(gpu["state"] == "free" for gpu in home.call("gpus")["gpus"])
    assert "Traceback" not in home.log_text()


def test_jobs_that_take_over_run_exactly_once_however_often_the_daemon_is_killed(
    home: StokerHome,
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    daemon = home.start(gpus="0-1")
    began = home.work / "began"
    # All alike and all end well: so one takes the place of another, most of the time.
    script = f"echo $STOKER_JOB_ID >> {began}"
    ids = home.submit_all([{"argv": ["sh", "-c", script]} for _ in range(TAKEOVERS)])
    for number in range(KILLS):
        least = len(lines_of(began)) + chance.randint(1, TAKEOVERS // KILLS // 2)
        until_lines(began, min(least, TAKEOVERS))
        kill_and_wait(daemon)  # It is not spoken to before, which would lead to a turn.
        if number % 5 == 4:
            kill_while_it_starts(home)
        daemon = home.start()
    jobs = home.until_final(*ids)
    assert Counter(lines_of(began)) == Counter({str(job_id): 1 for job_id in ids})
    assert all((job["attempt"], job["exit_code"]) == (1, 0) for job in jobs)
    assert "Traceback" not in home.log_text()


def until_lines(path: Path, least: int) -> None:
    eventually(lambda: len(lines_of(path)) >= least, f"{path.name} has {least} lines")


def kill_while_it_starts(home: StokerHome) -> None:
    """Start a daemon, and kill it as soon as its process is there."""
    # A job that the last daemon had just made looks like a daemon until its program is loaded.
    eventually(lambda: not home.daemons(), "the jobs of the last one run their programs")
    starter = home.popen("daemon", "start", stderr=-3)

    eventually(lambda: home.daemons() or starter.poll() is not None, "a daemon is starting")
    for pid in home.daemons():
        kill_and_wait(pid)
    starter.wait()


def test_running_jobs_go_on_and_are_shown_running_again(stoker: StokerHome) -> None:
    go = stoker.work / "go"
    job = stoker.submit("sh", "-c", f"while ! [ -e {go} ]; do sleep 0.02; done; exit 33")
    pid = stoker.until_pid(job)
    before = stoker.job(job)
    for _ in range(3):
        stoker.kill_daemon()
        assert is_running(pid)
        stoker.start()
        after = stoker.job(job)
        assert (after["state"], after["pid"], after["attempt"]) == ("running", pid, 1)
        assert after["started_at_ms"] == before["started_at_ms"]
        assert stoker.call("gpus")["gpus"][0]["jobs"] == [job]
    go.touch()
    assert stoker.until_final(job)[0]["exit_code"] == 33


def test_exit_codes_and_signals_of_jobs_that_ended_without_a_daemon_are_right(
    stoker: StokerHome,
) -> None:
    go = stoker.work / "go"
    wait = f"while ! [ -e {go} ]; do sleep 0.02; done; "
    endings = {"exit 0": (0, None), "exit 77": (77, None), "kill -9 $$": (None, 9),
               "kill -TERM $$": (None, 15)}  # fmt: skip
    ids = [stoker.submit("sh", "-c", wait + ending) for ending in endings]
    pids = []
    for job_id in ids:
        stoker.until_state(job_id, "running")
        pids.append(stoker.until_pid(job_id))
    stoker.kill_daemon()
    go.touch()
    eventually(lambda: not any(is_running(pid) for pid in pids), "all jobs have ended")
    stoker.start()
    jobs = stoker.until_final(*ids)
    assert [(job["exit_code"], job["signal"]) for job in jobs] == list(endings.values())
    assert all(job["ended_at_ms"] >= job["started_at_ms"] for job in jobs)


def test_a_job_can_be_cancelled_by_the_daemon_after_the_one_that_started_it(
    stoker: StokerHome,
) -> None:
    pid_file = stoker.work / "pid"
    job = stoker.submit(
        "sh", "-c", f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600' & sleep 600"
    )
    child = pid_in(pid_file)
    stoker.kill_daemon()
    stoker.start()
    stoker.call("cancel", select={"ids": [str(job)]})
    assert stoker.until_final(job)[0]["state"] == "cancelled"
    assert not is_running(child)


def test_an_order_to_stop_survives_the_daemon_that_took_it(stoker: StokerHome) -> None:
    ready = stoker.work / "ready"
    job = stoker.submit(
        "sh", "-c", f"trap '' TERM; echo > {ready}; while :; do sleep 0.05; done", grace_ms=1500
    )
    eventually(ready.exists)
    stoker.call("cancel", select={"ids": [str(job)]})
    stoker.kill_daemon()
    stoker.start()
    assert stoker.job(job)["state"] in ("stopping", "cancelled")
    ended = stoker.until_final(job)[0]
    assert (ended["state"], ended["signal"]) == ("cancelled", 9)


def test_a_cancelled_job_keeps_its_gpu_though_the_daemon_dies_before_its_last_process(
    stoker: StokerHome,
) -> None:
    pid_file = stoker.work / "pid"
    child = f'trap "" TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done'
    job = stoker.submit("sh", "-c", f"setsid sh -c '{child}' & exec sleep 600", grace_ms=3_000)
    stubborn = pid_in(pid_file)
    main = eventually(lambda: stoker.job(job)["pid"], "its pid is told")
    stoker.call("cancel", select={"ids": [str(job)]})
    eventually(lambda: not os.path.exists(f"/proc/{main}"), "the main process was reaped")
    stoker.kill_daemon()
    stoker.start()
    seen = (stoker.job(job)["state"], stoker.call("gpus")["gpus"][0]["state"])
    assert seen == ("stopping", "busy") or not is_running(stubborn)
    assert stoker.until_final(job)[0]["state"] == "cancelled"
    assert not is_running(stubborn)


def test_the_queue_its_settings_and_its_order_survive(stoker: StokerHome) -> None:
    stoker.call("pause")
    low = stoker.submit("true", priority=5, name="low", group="g")
    high = stoker.submit("true", priority=-5, hold=True)
    after = stoker.submit("true", after=[str(low)])
    stoker.call("limit_group", group="g", max_running=2)
    stoker.call("gpu_drain", gpus=["3"])
    before = stoker.jobs()
    gpus = stoker.call("gpus")["gpus"]
    stoker.kill_daemon()
    stoker.start()
    assert stoker.jobs() == before
    assert stoker.call("gpus")["gpus"] == gpus
    stoker.call("resume")
    stoker.call("release", select={"ids": [str(high)]})
    assert {job["state"] for job in stoker.until_final(low, high, after)} == {"succeeded"}


def test_an_attached_job_that_waits_finds_the_new_daemon(stoker: StokerHome) -> None:
    blocker = stoker.submit("sleep", "600", gpus=4)
    stoker.until_state(blocker, "running")
    waiting = stoker.popen("run", "--", "sh", "-c", "exit 12", stderr=-1)
    eventually(lambda: len(stoker.jobs()) == 2, "the attached job is queued")
    stoker.kill_daemon()
    stoker.start()
    stoker.call("cancel", select={"ids": [str(blocker)]})
    assert waiting.wait(60) == 12


def test_an_attached_job_that_runs_goes_on_and_its_exit_code_is_kept(stoker: StokerHome) -> None:
    go = stoker.work / "go"
    running = stoker.popen(
        "run", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 9"
    )
    eventually(lambda: len(stoker.jobs()) == 1)
    stoker.until_state(1, "running")
    stoker.until_pid(1)
    stoker.kill_daemon()
    go.touch()
    assert running.wait(60) == 9
    stoker.start()
    assert stoker.until_final(1)[0]["exit_code"] == 9


def test_a_submission_that_is_repeated_with_its_token_queues_nothing_twice(
    stoker: StokerHome,
) -> None:
    jobs = [{"argv": ["true"]}, {"argv": ["false"]}]
    first = stoker.submit_all(jobs, token="abc")
    assert stoker.submit_all(jobs, token="abc") == first
    stoker.kill_daemon()
    stoker.start()
    assert stoker.submit_all(jobs, token="abc") == first
    assert stoker.submit_all(jobs, token="abd") == [3, 4]
    assert len(stoker.jobs()) == 4


def test_submissions_under_fire_are_taken_exactly_once(home: StokerHome) -> None:
    home.start(gpus="0-3")
    home.call("pause")
    chance = random.Random(7)
    adders = []
    for number in range(12):
        name = f"n{number}"
        adders.append(home.popen("add", "--name", name, "--", "true", stdout=-1, stderr=-1))
        if number % 3 == 2:
            eventually(lambda: any(a.poll() is not None for a in adders), "one of them is done")
            for _ in range(chance.randint(1, 2)):
                try:
                    os.kill(home.daemon_pid(), signal.SIGKILL)
                except Exception:
                    continue
    for adder in adders:
        _, err = adder.communicate(timeout=120)
        assert adder.returncode == 0, err
    home.start()
    names = Counter(job["name"] for job in home.jobs().values())
    assert names == Counter({f"n{number}": 1 for number in range(12)})


@pytest.mark.parametrize("verb", ["wait", "logs", "run", "add"])
def test_a_client_that_is_killed_harms_nobody(stoker: StokerHome, verb: str) -> None:
    blocker = stoker.submit("sleep", "600", gpus=4)
    stoker.until_state(blocker, "running")
    words = {"wait": ["1"], "logs": ["-f", "1"], "run": ["--", "true"], "add": ["--", "true"]}[verb]
    client = stoker.popen(verb, *words, stdout=-3, stderr=-3)
    if verb == "run":
        eventually(lambda: len(stoker.jobs()) == 2)
    client.kill()
    client.wait()
    stoker.call("cancel", select={"ids": [str(blocker)]})
    assert stoker.until_final(blocker)[0]["state"] == "cancelled"
    if verb == "run":
        assert stoker.until_final(2)[0]["reason"] == "its terminal was gone"
    assert stoker.until_final(stoker.submit("true"))[0]["state"] == "succeeded"


def test_warm_calls_run_exactly_once_however_often_the_daemon_is_killed(
    home: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    monkeypatch.setenv("STOKER_HOME", home.home.root)
    home.start(gpus="0-3")
    began = home.work / "began"

    def mark(number: int) -> int:
        with open("/proc/self/cmdline", encoding="utf-8") as words:
            line = os.environ["STOKER_JOB_ID"] + " " + words.read()
        fd = os.open(began, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, line.replace("\0", " ").encode() + b"\n")
        os.close(fd)
        return number

    with Executor(warm=True) as executor:
        results = executor.map(mark, range(WARM_CALLS))
        for number in range(WARM_KILLS):
            most = WARM_CALLS * (number + 1) // (WARM_KILLS + 2)
            until_lines(began, chance.randint(min(len(lines_of(began)), most), most))
            home.kill_daemon()
            home.start()
        assert list(results) == list(range(WARM_CALLS))
    lines = lines_of(began)
    jobs = home.jobs().values()
    assert Counter(line.split()[0] for line in lines) == Counter({str(j["id"]): 1 for j in jobs})
    assert all((job["attempt"], job["exit_code"]) == (1, 0) for job in jobs)
    assert sum("--warm-server" in line for line in lines) > WARM_CALLS // 3, "most were warm"
    assert "Traceback" not in home.log_text()
