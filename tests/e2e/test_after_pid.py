"""`--after-pid`: jobs that wait for processes that Stoker did not start."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from outside import Train, end
from stoker_home import StokerHome
from unit.queue_scene import Queue
from waiting import eventually


def test_a_job_starts_when_the_process_has_ended_and_says_for_which_it_waits(
    reused: StokerHome, train: Train
) -> None:
    process = train()
    job_id = reused.add("--after-pid", str(process.pid), "--", "true", "x")
    shown = f"{process.pid} (cat -)"
    [answer] = reused.call("why", select={"ids": [str(job_id)]})["jobs"]
    assert answer["text"] == f"waiting for process {shown} to end"
    assert reused.job(job_id)["after_pid"] == [shown]
    page = reused.stoker("show", str(job_id)).splitlines()
    assert f"  after process  {shown}" in page
    assert all(line[15:17] == "  " and line[17] != " " for line in page[1:]), "in one column"
    end(process)
    assert reused.until_final(job_id)[0]["state"] == "succeeded"


def test_a_process_that_its_parent_has_not_reaped_has_ended(
    reused: StokerHome, train: Train
) -> None:
    process = train()
    job_id = reused.add("--after-pid", str(process.pid), "--", "true", "x")
    process.kill()
    assert reused.until_final(job_id)[0]["state"] == "succeeded"
    assert process.returncode is None  # It is a zombie still.


def test_it_is_awaited_over_a_kill_of_the_daemon(home: StokerHome, train: Train) -> None:
    home.start(gpus="0,1")
    still, gone = train(), train()
    one = home.add("--after-pid", str(still.pid), "--", "true", "x")
    two = home.add("--after-pid", str(gone.pid), "--", "true", "x")
    home.kill_daemon()
    end(gone)
    assert home.cli("daemon", "start").code == 0
    assert home.until_final(two)[0]["state"] == "succeeded"
    assert home.job(one)["state"] == "waiting"
    end(still)
    assert home.until_final(one)[0]["state"] == "succeeded"


def test_a_cancelled_job_leaves_the_process_alone(reused: StokerHome, train: Train) -> None:
    process = train()
    job_id = reused.add("--after-pid", str(process.pid), "--", "true", "x")
    reused.stoker("cancel", str(job_id))
    assert reused.job(job_id)["state"] == "cancelled"
    assert process.poll() is None


def test_a_process_that_is_not_there_is_refused_in_one_line(reused: StokerHome) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    ran = reused.cli("add", "--after-pid", str(ended.pid), "--", "true", "x")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"there is no process {ended.pid}" in ran.err
    ran = reused.cli("add", "--after-pid", "train.py", "--", "true", "x")
    assert (ran.code, "--after-pid" in ran.err) == (2, True)


def test_what_the_daemon_does_not_see_as_it_was_named_is_refused(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    with pytest.raises(Exception, match="runs in another PID namespace"):
        queue.submit([{"argv": ["true"], "after_pid": [f"{os.getpid()}@1"]}])
    with pytest.raises(Exception, match="is not a process id"):
        queue.submit([{"argv": ["true"], "after_pid": ["../1"]}])


def test_a_thread_is_no_process(tmp_path: Path) -> None:
    told: list[int] = []
    over = threading.Event()

    def wait() -> None:
        told.append(threading.get_native_id())
        over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        eventually(lambda: bool(told), "the thread runs")
        with pytest.raises(Exception, match="is a thread and not a process"):
            Queue(tmp_path).submit([{"argv": ["true"], "after_pid": [str(told[0])]}])
    finally:
        over.set()
        thread.join()


def test_a_process_of_another_boot_or_with_another_start_has_ended() -> None:
    from stoker.core.foreign import ForeignProcess
    from stoker.daemon.awaited_processes import awaited
    from stoker.executors.foreign import lives

    [requirement] = awaited([str(os.getpid())])
    assert requirement.process is not None and lives(requirement.process)
    me = ForeignProcess.of(requirement.process)
    assert not lives(me._replace(boot="another").kept)
    assert not lives(me._replace(start_time=me.start_time - 1).kept)


def test_points_of_a_sweep_and_lines_of_a_batch_wait_too(reused: StokerHome, train: Train) -> None:
    process = train()
    pid = str(process.pid)
    (reused.work / "jobs.csv").write_text(f"command,after-pid\ntrue x,{pid}\n")
    reused.stoker("batch", "--no-wait", "jobs.csv")
    reused.stoker("sweep", "lr=1,2", "--after-pid", pid, "--", "true", "x")
    ids = [reused.nth(number) for number in (1, 2, 3)]
    assert {reused.job(job_id)["state"] for job_id in ids} == {"waiting"}
    end(process)
    for job_id in ids:
        assert reused.until_final(job_id)[0]["state"] == "succeeded"


def test_lines_of_a_feed_and_calls_of_the_library_take_it_as_the_command_line_does(
    reused: StokerHome, train: Train
) -> None:
    process = train()
    line = f"with stoker.Client() as c: print(c.add(['true', 'x'], after_pid={process.pid}))"
    ran = subprocess.run(
        [sys.executable, "-c", f"import stoker\n{line}"],
        env=reused.env, capture_output=True, text=True, cwd=reused.work,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    feed = reused.popen("feed", "--after-pid", str(process.pid), "-", stdin=subprocess.PIPE)
    assert feed.stdin is not None
    feed.stdin.write(b"true x\n")
    feed.stdin.close()
    ids = [reused.nth(number) for number in (1, 2)]
    eventually(lambda: len(reused.call("list", all=True)["jobs"]) >= 2, "both are queued")
    assert [reused.job(job_id)["state"] for job_id in ids] == ["waiting", "waiting"]
    end(process)
    assert feed.wait() == 0
