"""Stopping a job stops all of it: the tree, what left the tree, and what will not listen."""

from __future__ import annotations

import sys
import time

from stoker_home import StokerHome, is_running, lines_of, pid_in
from waiting import eventually

STUBBORN = 'trap "" TERM; echo $$ > {pid}; while :; do sleep 0.05; done'


def cancel(stoker: StokerHome, job: int) -> None:
    stoker.call("cancel", select={"ids": [str(job)]})


def test_cancel_stops_the_whole_tree_and_what_left_it(reused: StokerHome) -> None:
    names = ["child", "grandchild", "setsid", "double fork", "nohup"]
    files = {name: reused.work / name.replace(" ", "_") for name in names}
    script = f"""
sh -c 'echo $$ > {files["child"]}; sh -c "echo \\$\\$ > {files["grandchild"]}; sleep 600"; :' &
setsid sh -c 'echo $$ > {files["setsid"]}; exec sleep 600' &
(setsid sh -c 'echo $$ > {files["double fork"]}; exec sleep 600' &)
nohup sh -c 'echo $$ > {files["nohup"]}; exec sleep 600' >/dev/null 2>&1 &
wait
"""
    job = reused.submit("sh", "-c", script, grace_ms=20_000)
    pids = [pid_in(path) for path in files.values()]
    cancel(reused, job)
    ended = reused.until_final(job)[0]
    assert ended["state"] == "cancelled"
    assert not any(is_running(pid) for pid in pids)
    took_ms = ended["ended_at_ms"] - ended["started_at_ms"]
    assert took_ms < 20_000, "nobody had to be killed"


# What torch_shm_manager does: it has a session of its own, and removes the segments of a process
# when its connection to that process ends. A signal ends it with its work undone.
KEEPS_SEGMENTS = """
import os, pathlib, signal, subprocess, sys, time
work = pathlib.Path(sys.argv[1])
helper = (
    "import os, pathlib, sys; work = pathlib.Path(sys.argv[1]); print('ready', flush=True); "
    "sys.stdin.read(); [one.unlink() for one in work.glob('segment*')]"
)
words = [sys.executable, "-c", helper, str(work)]
pipe = subprocess.PIPE
manager = subprocess.Popen(words, stdin=pipe, stdout=pipe, start_new_session=True)
manager.stdout.readline()

def asked(number, frame):
    (work / "asked").touch()
    while not (work / "saved").exists():
        time.sleep(0.01)
    sys.exit(0)

if len(sys.argv) > 2:
    signal.signal(signal.SIGTERM, asked)
for number in range(7):
    (work / f"segment{number}").touch()
(work / "manager").write_text(f"{manager.pid}\\n")
time.sleep(600)
"""


def _with_segments(stoker: StokerHome, *more: str) -> tuple[int, int]:
    script = stoker.work / "train.py"
    script.write_text(KEEPS_SEGMENTS)
    job = stoker.submit(sys.executable, str(script), str(stoker.work), *more)
    return job, pid_in(stoker.work / "manager")


def test_a_helper_that_cleans_up_when_its_parent_ends_can_do_so_when_it_is_cancelled(
    reused: StokerHome,
) -> None:
    job, manager = _with_segments(reused)
    cancel(reused, job)
    ended = reused.until_final(job)[0]
    assert (ended["state"], ended["signal"]) == ("cancelled", 15)
    assert not is_running(manager)
    assert not list(reused.work.glob("segment*"))


def test_a_helper_is_left_alone_while_a_cancelled_job_saves_its_work(reused: StokerHome) -> None:
    job, manager = _with_segments(reused, "saves")
    cancel(reused, job)
    eventually((reused.work / "asked").exists, "the job was asked to end")
    assert is_running(manager)
    (reused.work / "saved").touch()
    assert reused.until_final(job)[0]["exit_code"] == 0
    assert not list(reused.work.glob("segment*"))


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace_time(reused: StokerHome) -> None:
    pid_file = reused.work / "pid"
    job = reused.submit("sh", "-c", STUBBORN.format(pid=pid_file), grace_ms=700)
    pid = pid_in(pid_file)
    asked_at = time.monotonic()
    cancel(reused, job)
    ended = reused.until_final(job)[0]
    assert time.monotonic() - asked_at >= 0.7
    assert (ended["state"], ended["signal"]) == ("cancelled", 9)
    assert not is_running(pid)


def test_a_cancelled_job_keeps_its_gpus_until_its_last_process_is_gone(reused: StokerHome) -> None:
    pid_file = reused.work / "pid"
    child = STUBBORN.format(pid=pid_file)
    first = reused.submit("sh", "-c", f"setsid sh -c '{child}' & exec sleep 600", gpus=4,
                          grace_ms=1200)  # fmt: skip
    stubborn = pid_in(pid_file)
    seen = reused.work / "seen"
    second = reused.submit("sh", "-c", f"kill -0 {stubborn} && echo alive >> {seen}; :", gpus=1)
    main = eventually(lambda: reused.job(first)["pid"], "its pid is told")
    cancel(reused, first)
    eventually(lambda: not is_running(main), "the main process has ended")
    states = {gpu["state"] for gpu in reused.call("gpus")["gpus"]}
    assert states == {"busy"} or not is_running(stubborn)
    reused.until_final(first, second)
    assert lines_of(seen) == [], "the next job started while the first one's child was alive"


def test_the_grace_time_of_a_job_counts_and_the_default_can_be_set(reused: StokerHome) -> None:
    reused.call("config_set", name="grace", value="400ms")
    pid_file = reused.work / "pid"
    job = reused.submit("sh", "-c", STUBBORN.format(pid=pid_file))
    pid_in(pid_file)
    assert reused.job(job)["grace_ms"] == 400
    cancel(reused, job)
    assert reused.until_final(job)[0]["signal"] == 9


def test_a_job_with_no_grace_time_is_killed_at_once(reused: StokerHome) -> None:
    pid_file = reused.work / "pid"
    job = reused.submit("sh", "-c", STUBBORN.format(pid=pid_file), grace_ms=0)
    pid_in(pid_file)
    cancel(reused, job)
    assert reused.until_final(job)[0]["signal"] == 9


def test_a_job_may_clean_up_when_it_is_asked_to_stop(reused: StokerHome) -> None:
    ready, saved = reused.work / "ready", reused.work / "saved"
    job = reused.submit(
        "sh", "-c",
        f"trap 'echo saved > {saved}; exit 3' TERM; echo > {ready}; while :; do sleep 0.02; done",
    )  # fmt: skip
    eventually(ready.exists)
    cancel(reused, job)
    ended = reused.until_final(job)[0]
    assert (ended["state"], ended["exit_code"]) == ("cancelled", 3)
    assert saved.exists()


def test_a_waiting_job_is_called_off_and_a_dependent_is_skipped(reused: StokerHome) -> None:
    blocker = reused.submit("sleep", "600", gpus=4)
    waiting = reused.submit("true")
    dependent = reused.submit("true", after=[str(waiting)])
    cancel(reused, waiting)
    assert reused.job(waiting)["state"] == "cancelled"
    skipped = reused.until_final(dependent)[0]
    assert skipped["state"] == "skipped"
    assert skipped["reason"] == f"job {waiting}, which it needs, ended as cancelled"
    assert reused.job(blocker)["state"] == "running"


def test_the_time_limit_ends_a_job_that_is_then_failed(reused: StokerHome) -> None:
    job = reused.submit("sleep", "600", time_limit_ms=300)
    ended = reused.until_final(job)[0]
    assert (ended["state"], ended["reason"], ended["signal"]) == ("failed", "time limit", 15)


def test_the_signal_comes_before_the_limit(reused: StokerHome) -> None:
    script = "trap 'echo warned; exit 7' USR1; while :; do sleep 0.02; done"
    job = reused.submit(
        "sh", "-c", script, time_limit_ms=60_000, signal="USR1", signal_before_ms=57_500
    )
    ended = reused.until_final(job)[0]
    assert (ended["state"], ended["exit_code"]) == ("failed", 7)
    assert "warned" in reused.log_of(job).splitlines()


def test_many_jobs_are_cancelled_by_one_order(reused: StokerHome) -> None:
    ids = reused.submit_all([{"argv": ["sleep", "600"], "gpus": 0, "cpus": 0}] * 20)
    for job_id in ids:
        reused.until_state(job_id, "running")
    pids = [reused.until_pid(job_id) for job_id in ids]
    assert reused.cli("cancel", f"{ids[0]}-{ids[-1]}").code == 0
    assert {job["state"] for job in reused.until_final(*ids)} == {"cancelled"}
    assert not any(is_running(pid) for pid in pids)
