"""`stoker adopt`: processes that Stoker did not start, counted as jobs until they end."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest

from outside import Process, Train, end
from stoker.errors import StokerError, UsageError
from stoker.library.client import Client as Library
from stoker_home import StokerHome
from waiting import eventually

ENDED = "ended; exit code unknown: Stoker did not start it"


def adopt(home: StokerHome, process: Process, *words: str) -> int:
    return int(home.stoker("adopt", str(process.pid), *words))


def refused(home: StokerHome, *words: str) -> str:
    """What a command line is refused with, in one line."""
    ran = home.cli(*words)
    assert (ran.code != 0, ran.out, ran.err.count("\n")) == (True, "", 1), ran
    return ran.err


def why(home: StokerHome, job_id: int) -> str:
    text: str = home.call("why", select={"ids": [str(job_id)]})["jobs"][0]["text"]
    return text


def test_an_adopted_process_is_a_job_that_runs_and_holds_its_gpus_until_it_ends(
    reused: StokerHome, train: Train
) -> None:
    process = train()
    ran = reused.cli("adopt", str(process.pid), "--on", "0,1", "--name", "by hand")
    job_id, shown = int(ran.out), f"{process.pid} (cat -)"
    assert ran.err == f"stoker: job {job_id} is process {shown} on GPUs 0, 1\n"
    job = reused.until_state(job_id, "running")
    assert reused.until_pid(job_id) == process.pid
    assert (job["name"], job["gpus"], job["command"]) == ("by hand", ["0", "1"], "cat -")
    assert job["adopted"] == shown and job["cwd"] == os.getcwd()
    assert f"process {shown}" in reused.stoker("show", str(job_id))
    assert (job["log"], job["attempts"][0]["log"]) == (None, None), "Stoker has no output of it"
    assert "adopted, and Stoker has no output" in reused.cli("logs", str(job_id)).err
    assert "by hand" in reused.stoker("ls") and "by hand" in reused.stoker("status")
    other = reused.add("--on", "0", "--", "true", "x")
    assert why(reused, other) == f"needs 1 GPU, 0 of 1 free (used by adopted job {job_id})"
    process.kill()  # It is a zombie until its parent has looked, and has ended all the same.
    [ended] = reused.until_final(job_id)
    assert (ended["state"], ended["exit_code"], ended["reason"]) == ("lost", None, ENDED)
    assert reused.until_final(other)[0]["state"] == "succeeded"


def test_python_adopts_a_process_and_lets_it_go(reused: StokerHome, train: Train) -> None:
    process = train()
    reused.call("config_set", name="gpus", value="0:24G,1:24G")
    with Library(home=reused.home.root) as library:
        job_id = library.adopt(process.pid, on=[0, 1], mem="8G", name="by hand", group="mine")
        job = reused.until_state(job_id, "running")
        assert (job["name"], job["group"], job["gpus"]) == ("by hand", "mine", ["0", "1"])
        assert job["need"]["mem_mib"] == 8192 and str(process.pid) in job["adopted"]
        late: Any = {"time_limit": "2h"}
        with pytest.raises(UsageError, match="time_limit comes too late for a process"):
            library.adopt(process.pid, **late)
        with pytest.raises(StokerError, match="was adopted: Stoker did not start it"):
            library.cancel(job_id)
        assert library.cancel(job_id, let_go=True) == [job_id]
    assert reused.until_final(job_id)[0]["state"] == "cancelled" and process.poll() is None


def test_jobs_that_require_only_its_end_start_then_and_others_are_skipped(
    reused: StokerHome, train: Train
) -> None:
    process = train()
    job_id = str(adopt(reused, process, "--on", "0"))
    any_end = reused.add("--after-any", job_id, "--", "true", "x")
    success = reused.add("--after", job_id, "--", "true", "x")
    end(process)
    states = [job["state"] for job in reused.until_final(any_end, success)]
    assert states == ["succeeded", "skipped"]


def test_it_is_held_over_a_kill_of_the_daemon_and_ends_if_it_has_ended_meanwhile(
    home: StokerHome, train: Train
) -> None:
    home.start(gpus="0,1")
    still, gone = train(), train()
    one, two = adopt(home, still, "--on", "0"), adopt(home, gone, "--on", "1")
    home.until_pid(one)
    home.kill_daemon()
    end(gone)
    assert home.cli("daemon", "start").code == 0
    assert home.until_final(two)[0]["reason"] == ENDED
    assert (home.job(one)["state"], home.job(one)["pid"]) == ("running", still.pid)
    waits = home.add("--on", "0", "--", "true", "x")
    assert home.job(waits)["state"] == "waiting"
    end(still)
    assert [job["state"] for job in home.until_final(one, waits)] == ["lost", "succeeded"]


@pytest.mark.parametrize("how", ["--kill", "--drain"])
def test_a_daemon_that_ends_with_its_jobs_leaves_it_to_the_next_one(
    home: StokerHome, train: Train, how: str
) -> None:
    home.start(gpus="0,1")
    process = train()
    job_id = adopt(home, process, "--on", "0")
    daemon = home.daemon_pid()
    home.stoker("daemon", "stop", how)
    eventually(lambda: daemon not in home.daemons(), "the daemon has ended")
    assert process.poll() is None
    home.stoker("daemon", "start")
    assert home.job(job_id)["state"] == "running"
    end(process)
    assert home.until_final(job_id)[0]["state"] == "lost"


def test_no_cancel_touches_its_process(reused: StokerHome, train: Train) -> None:
    process = train()
    job_id = adopt(reused, process, "--on", "0", "--group", "mine")
    was = f"job {job_id} was adopted: Stoker did not start it, and does not stop it"
    for words in ([str(job_id)], ["--group", "mine"]):
        assert refused(reused, "cancel", *words).startswith(f"stoker: {was}; `kill {process.pid}`")
    sibling = reused.add("--group", "mine", "--hold", "--", "true", "x")
    told = reused.cli("cancel", "--group", "mine")
    assert (told.code, told.err) == (0, f"cancelling job {sibling}; left out: {was}\n")
    told = reused.cli("cancel", "--all")
    assert (told.code, told.err) == (0, f"nothing to do; left out: {was}\n")
    assert reused.job(job_id)["state"] == "running" and process.poll() is None


def test_what_is_let_go_frees_its_gpus_and_goes_on(reused: StokerHome, train: Train) -> None:
    process = train()
    job_id = adopt(reused, process, "--on", "0", "--group", "mine")
    assert "named by their ids" in refused(reused, "cancel", "--group", "mine", "--let-go")
    held = reused.add("--hold", "--", "true", "x")
    assert f"job {held} was not adopted" in refused(reused, "cancel", str(held), "--let-go")
    reused.stoker("cancel", str(job_id), "--let-go")
    assert reused.until_final(job_id)[0]["state"] == "cancelled"
    next_one = reused.add("--on", "0", "--", "true", "x")
    assert reused.until_final(next_one)[0]["state"] == "succeeded"
    assert process.poll() is None
    again = adopt(reused, process, "--on", "0")
    end(process)
    assert reused.until_final(again)[0]["state"] == "lost"


def test_what_makes_no_sense_for_it_is_refused_in_one_line(
    reused: StokerHome, train: Train
) -> None:
    process = train()
    job_id = str(adopt(reused, process, "--on", "0"))
    assert f"`stoker cancel {job_id} --let-go`" in refused(reused, "rm", job_id)
    assert f"job {job_id} is running" in refused(reused, "hold", job_id)
    assert f"job {job_id} is running" in refused(reused, "edit", job_id, "--priority", "1")
    assert "Stoker has no output of it" in refused(reused, "logs", job_id)
    assert "has not ended" in refused(reused, "retry", job_id)
    end(process)
    reused.until_final(int(job_id))
    assert "can't start it again" in refused(reused, "retry", job_id)
    assert reused.cli("rm", job_id).err == f"removed: job {job_id}\n"


def test_a_process_that_is_not_there_or_not_one_to_adopt_is_refused(
    reused: StokerHome, train: Train
) -> None:
    ended = train()
    end(ended)
    on = ("--on", "0")
    assert f"there is no process {ended.pid}" in refused(reused, "adopt", str(ended.pid), *on)
    assert "process id" in refused(reused, "adopt", "train.py", *on)
    zombie = train()
    zombie.kill()
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert f"there is no process {zombie.pid}" in refused(reused, "adopt", str(zombie.pid), *on)
    with pytest.raises(StokerError, match=f"sees no process {zombie.pid}: it has ended"):
        reused.call("adopt", process=str(zombie.pid), on=["0"])
    with pytest.raises(StokerError, match="runs in another PID namespace"):
        reused.call("adopt", process=f"{os.getpid()}@1", on=["0"])
    for pid in (reused.daemon_pid(), reused.keeper_pid()):
        assert f"process {pid} is Stoker's own" in refused(reused, "adopt", str(pid), *on)
    assert not [job for job in reused.jobs().values() if job["state"] == "running"]


def test_a_thread_is_no_process_to_adopt(reused: StokerHome) -> None:
    told: list[int] = []
    over = threading.Event()

    def wait() -> None:
        told.append(threading.get_native_id())
        over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        eventually(lambda: bool(told), "the thread runs")
        said = refused(reused, "adopt", str(told[0]), "--on", "0")
        assert f"{told[0]} is a thread and not a process" in said
    finally:
        over.set()
        thread.join()


def test_what_is_a_job_already_is_not_adopted_again(reused: StokerHome, train: Train) -> None:
    process = train()
    job_id = adopt(reused, process, "--on", "0")
    said = refused(reused, "adopt", str(process.pid), "--on", "1")
    assert f"process {process.pid} is of job {job_id} already" in said
    ours = reused.add("--", "sleep", "1000")
    pid = reused.until_pid(ours)
    said = refused(reused, "adopt", str(pid), "--on", "1")
    assert f"process {pid} is of job {ours} already" in said


def test_what_does_not_fit_is_refused_and_does_not_wait(reused: StokerHome, train: Train) -> None:
    process = train()
    pid = str(process.pid)
    ours = reused.add("--on", "2", "--", "sleep", "1000")
    reused.until_pid(ours)
    said = refused(reused, "adopt", pid, "--on", "1,2")
    assert f"GPU 2 has no room for it: job {ours} holds it" in said
    assert "there is no GPU 9" in refused(reused, "adopt", pid, "--on", "9")
    said = refused(reused, "adopt", pid)
    assert f"no driver tells which GPUs process {pid} uses; name its GPUs" in said
    assert "memory" in refused(reused, "adopt", pid, "--on", "1", "--mem", "8G")
    assert len(reused.jobs()) == 1  # Nothing of all that was queued.


def test_where_no_gpu_is_known_it_declares_those_that_it_is_on(
    home: StokerHome, train: Train
) -> None:
    home.start()
    answer = json.loads(home.stoker("adopt", str(train().pid), "--on", "3", "--json"))
    assert (answer["gpus"], answer["process"].endswith("(cat -)")) == (["3"], True)
    assert home.call("gpus")["gpus"][0]["jobs"] == [answer["id"]]
