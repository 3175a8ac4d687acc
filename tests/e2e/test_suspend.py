"""Jobs that are suspended: all their processes stand still, and go on, whoever dies meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from stoker_home import StokerHome, lines_of, processes_with
from waiting import eventually

# A shell that waits for a Python program, for one that has a session of its own, and for one that
# has two threads and makes children all the time. Each says so when it has done its work.
TREE = """
python=$1; said=$2
$python -c "
import subprocess, sys, threading, time
def make():
    for _ in range(30):
        subprocess.run(['true']); time.sleep(0.01)
thread = threading.Thread(target=make); thread.start(); make(); thread.join()
open(sys.argv[1], 'a').write('python\\n')" $said &
setsid sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; echo session >> '$said &
wait
echo shell >> $said
"""


def tree(stoker: StokerHome, *words: str) -> tuple[int, Path]:
    """A job of several processes, and the file in which they say that they are done."""
    said = stoker.work / f"said{len(list(stoker.work.iterdir()))}"
    script = stoker.work / "tree.sh"
    script.write_text(TREE)
    return stoker.add(*words, "--", "bash", str(script), sys.executable, str(said)), said


def states(stoker: StokerHome, job: int) -> dict[int, str]:
    """The states of all processes of a job."""
    found = {}
    here = set(stoker.processes())
    for pid in here.intersection(processes_with(b"STOKER_JOB_ID=%d" % job)):
        try:
            found[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
    return {pid: state for pid, state in found.items() if state not in "ZX"}


def until_there(stoker: StokerHome, job: int, count: int = 3) -> None:
    """Wait for the processes of a job."""
    eventually(lambda: len(states(stoker, job)) >= count, "all its processes run")


def until_it_stands(stoker: StokerHome, job: int) -> dict[int, str]:
    """Wait until the daemon says that nothing of it runs; its processes."""
    eventually(lambda: "not all" not in stoker.job(job)["reason"], "all its processes have stopped")
    found = states(stoker, job)
    assert found and set(found.values()) == {"T"}, found
    return found


def test_all_processes_of_a_suspended_job_stand_still_and_go_on(reused: StokerHome) -> None:
    job, said = tree(reused, "--time-limit", "10m")
    until_there(reused, job, 4)
    assert reused.stoker("suspend", str(job)) == ""
    stopped = until_it_stands(reused, job)
    assert len(stopped) >= 4 and not said.exists()
    view = reused.job(job)
    assert view["state"] == "running" and view["gpus"] and view["suspended_at_ms"]
    assert "suspended for" in reused.stoker("why", str(job))
    listed = reused.stoker("ls", str(job))
    assert "suspended" in listed.splitlines()[1].split()
    reused.stoker("resume", str(job))
    (ended,) = reused.until_final(job)
    assert ended["state"] == "succeeded"
    assert sorted(lines_of(said)) == ["python", "session", "shell"]
    assert ended["suspended_at_ms"] is None and ended["suspended_ms"] > 0
    assert "suspended" in reused.stoker("show", str(job))


def test_a_daemon_that_is_killed_leaves_a_job_suspended_longer_than_its_time_limit(
    stoker: StokerHome,
) -> None:
    job, said = tree(stoker, "--time-limit", "4s")
    until_there(stoker, job)
    stoker.stoker("suspend", str(job))
    until_it_stands(stoker, job)
    stoker.kill_daemon()
    assert set(states(stoker, job).values()) == {"T"}
    stoker.start()
    since_ms = until_suspended_for_ms(stoker, job, 6_000)
    until_it_stands(stoker, job)
    stoker.kill_daemon()
    stoker.start()
    assert stoker.job(job)["suspended_at_ms"] == since_ms
    stoker.stoker("resume", str(job))
    (ended,) = stoker.until_final(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    assert ended["suspended_ms"] >= 6_000 and len(lines_of(said)) == 3


def until_suspended_for_ms(stoker: StokerHome, job: int, ms: int) -> int:
    """Wait until a job has been suspended for so long; since when it is."""
    since_ms = stoker.job(job)["suspended_at_ms"]

    def for_long() -> bool:
        return bool(time.time() * 1000 - since_ms >= ms)

    assert since_ms is not None
    eventually(for_long, f"it is suspended for {ms} ms")
    return int(since_ms)


def test_what_is_continued_by_hand_is_stopped_again_by_the_next_daemon(stoker: StokerHome) -> None:
    job = stoker.add("--", "sleep", "1000")
    until_there(stoker, job, 1)
    stoker.stoker("suspend", str(job))
    (pid,) = until_it_stands(stoker, job)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: states(stoker, job)[pid] != "T", "it goes on")
    assert stoker.job(job)["suspended_at_ms"]
    stoker.kill_daemon()
    stoker.start()
    eventually(lambda: states(stoker, job)[pid] == "T", "it is stopped again")
    stoker.stoker("cancel", str(job))
    assert stoker.until_final(job)[0]["state"] == "cancelled"


def test_a_suspended_job_that_is_cancelled_or_put_back_heeds_its_signal(reused: StokerHome) -> None:
    script = "trap 'echo heard > $0; exit 7' TERM; while :; do sleep 0.05; done"
    for verb in ("cancel", "requeue"):
        heard = reused.work / f"heard-{verb}"
        job = reused.add("--grace", "50s", "--", "bash", "-c", script, str(heard))
        until_there(reused, job, 1)
        reused.stoker("suspend", str(job))
        until_it_stands(reused, job)
        reused.stoker(verb, str(job))
        eventually(heard.exists, f"it heeds its signal on {verb}")
        if verb == "cancel":
            assert reused.until_final(job)[0]["state"] == "cancelled"
        else:  # Another attempt is not suspended.
            until_attempt(reused, job, 2)
            assert reused.until_state(job, "running")["suspended_at_ms"] is None
            reused.stoker("cancel", str(job))
            reused.until_final(job)


def until_attempt(stoker: StokerHome, job: int, number: int) -> None:
    """Wait until a job has another attempt."""
    eventually(lambda: stoker.job(job)["attempt"] == number, f"attempt {number}")


def test_daemon_stop_kill_ends_a_suspended_job(stoker: StokerHome) -> None:
    job = stoker.add("--", "sleep", "1000")
    until_there(stoker, job, 1)
    stoker.stoker("suspend", str(job))
    until_it_stands(stoker, job)
    stoker.stoker("daemon", "stop", "--kill")
    assert not states(stoker, job)


def test_each_race_is_one_clear_line(reused: StokerHome) -> None:
    done = reused.add("--", "true")
    reused.until_final(done)
    running = reused.add("--", "sleep", "1000")
    held = reused.add("--hold", "--", "true")
    waits = reused.add("--after", str(running), "--", "true")
    reused.until_pid(running)
    said = {
        ("suspend", done): "has ended already (succeeded)",
        ("suspend", held): "is held",
        ("suspend", waits): f"is waiting; `stoker hold {waits}` keeps it from starting",
        ("resume", running): "is not suspended: it is running",
        ("resume", waits): "is not suspended: it is waiting",
        ("resume", done): "has ended already (succeeded)",
    }
    for (verb, job), words in said.items():
        answer = reused.cli(verb, str(job))
        assert answer.code == 1 and answer.err.count("\n") == 1, answer
        assert f"stoker: job {job} {words}" in answer.err
    reused.stoker("suspend", str(running))
    answer = reused.cli("suspend", str(running))
    assert f"job {running} is suspended already; `stoker resume {running}`" in answer.err
    # Of several, those are changed that can be.
    answer = reused.cli("suspend", "--json", str(held), str(done), str(running))
    assert answer.code == 1
    answer = reused.cli("resume", "--json", str(held), str(running))
    assert json.loads(answer.out)["ids"] == [running]
    assert [held] in json.loads(answer.out)["left_out"].values()
    reused.stoker("cancel", f"{running}-{waits}")
    reused.until_final(running, held, waits)


def test_resume_means_jobs_a_group_or_the_queue_as_it_is_told(reused: StokerHome) -> None:
    jobs = [reused.add("--group", name, "--", "sleep", "1000") for name in ("a", "a", "b")]
    for job in jobs:
        reused.until_pid(job)
    reused.stoker("suspend", "--all")
    reused.stoker("pause", "--group", "a")
    reused.stoker("pause")

    def suspended() -> list[int]:
        return [job for job in jobs if reused.job(job)["suspended_at_ms"] is not None]

    assert suspended() == jobs
    assert json.loads(reused.stoker("resume", "--json")) == {
        "schema": 1, "group": None, "paused": False,
    }  # fmt: skip
    assert suspended() == jobs
    answer = json.loads(reused.stoker("resume", "--group", "a", "--json"))
    assert (answer["ids"], answer["paused"], suspended()) == (jobs[:2], False, jobs[2:])
    reused.stoker("resume", "--all")
    assert suspended() == []
    reused.stoker("cancel", *map(str, jobs))
    reused.until_final(*jobs)


def test_adopted_and_attached_jobs_are_refused_and_told_what_to_do(reused: StokerHome) -> None:
    own = subprocess.Popen(["sleep", "1000"])
    attached = reused.popen("run", "--gpus", "0", "--", "sleep", "1000")
    try:
        reused.stoker("adopt", str(own.pid), "--on", "1")
        adopted = max(reused.jobs())
        job = eventually(
            lambda: next((i for i, one in reused.jobs().items() if one["attached"]
                          and one["state"] == "running"), None), "it runs in its terminal",
        )  # fmt: skip
        answer = reused.cli("suspend", str(adopted))
        assert "was adopted: Stoker did not start it, and sends it no signals" in answer.err
        assert f"`kill -STOP {own.pid}` stops it" in answer.err
        answer = reused.cli("suspend", str(job))
        assert f"job {job} runs in a terminal; Ctrl-Z there stops it" in answer.err
        reused.stoker("cancel", str(job))
    finally:
        own.kill()
        own.wait()
        attached.terminate()
        attached.wait()
    reused.until_final(*reused.jobs())
