"""The controller dies, freezes, forgets: nothing is declared failed, and it heals by itself."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from slurm.cluster import Cluster
from stoker_home import StokerHome, lines_of
from waiting import PATIENCE_S, eventually


def ran(folder: Path) -> Counter[str]:
    """How often each job wrote its line."""
    return Counter(line for path in folder.iterdir() for line in lines_of(path))


def test_jobs_are_shown_as_last_known_while_the_controller_does_not_answer(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    # What it forgets when it is killed is ours, and not the end of jobs of earlier tests.
    cluster.restart_controller()
    go = tmp_path / "go"
    running = there.add("--on-cluster", "--", f"until [ -e {go} ]; do sleep 0.1; done; exit 3")
    waiting = there.add("--on-cluster", "--at", "+1h", "--", "true")
    there.until_state(running, "running")
    there.until_state(waiting, "submitted")
    cluster.kill_controller()
    check = there.popen("cluster", "check", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # It takes Slurm's commands several seconds to give up.
    eventually(lambda: "has not answered" in str(there.job(waiting)["reason"]), "it is marked")
    assert there.job(running)["state"] == "running"
    assert there.job(waiting)["state"] == "submitted"
    assert "the cluster has not answered for" in there.stoker("why", str(running))
    # How a job ends is known from its own files all the same, and a new one waits its turn.
    new = there.add("--on-cluster", "--", "true")
    go.touch()
    (job,) = there.until_final(running)
    assert (job["state"], job["exit_code"]) == ("failed", 3)
    assert there.job(new)["state"] == "submitted"
    out, err = check.communicate(timeout=PATIENCE_S)
    assert check.returncode == 1 and b"it does not answer" in out
    assert b"something is missing: controller" in err
    cluster.start_controller()
    assert there.until_final(new)[0]["state"] == "succeeded"
    eventually(lambda: "not answered" not in str(there.job(waiting)["reason"]), "it has healed")
    there.until_state(waiting, "submitted")  # Again, if the controller has forgotten it.


def test_a_job_that_waits_is_cancelled_although_the_controller_is_dead(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    job_id = there.add("--on-cluster", "--at", "+1h", "--", f"touch {tmp_path}/ran")
    there.until_state(job_id, "submitted")
    eventually(cluster.jobs, "Slurm has it")
    cluster.kill_controller()
    there.stoker("cancel", str(job_id))
    assert there.until_final(job_id)[0]["state"] == "cancelled"
    cluster.start_controller()
    eventually(lambda: not cluster.jobs(), "it is taken from the cluster when that is back")


def test_a_controller_that_hangs_delays_no_job_of_this_machine(
    there: StokerHome, cluster: Cluster
) -> None:
    there.call("config_set", name="gpus", value="0")
    cluster.stop_controller()
    try:
        remote = there.add("--on-cluster", "--", "true")
        for _ in range(5):
            assert there.until_final(there.submit("true"))[0]["state"] == "succeeded"
        assert there.job(remote)["state"] == "submitted"
    finally:
        cluster.continue_controller()
    assert there.until_final(remote)[0]["state"] == "succeeded"


@pytest.mark.parametrize("wait_until", ["taken", "some have run"])
def test_a_controller_killed_in_the_middle_loses_and_doubles_nothing(
    there: StokerHome, cluster: Cluster, tmp_path: Path, wait_until: str
) -> None:
    """It saves its state every few seconds only, so it forgets what it has acknowledged."""
    marks = tmp_path / "marks"
    marks.mkdir()
    jobs = [
        {
            "shell": f"sleep 0.2; echo {number} >> {marks}/$STOKER_JOB_ID; exit {number % 3}",
            "executor": "slurm",
            "gpus": 1,
        }
        for number in range(40)
    ]
    # It is to forget what it is told from here on, and nothing of what an earlier test has done.
    cluster.restart_controller()
    ids = there.submit_all(jobs)
    if wait_until == "taken":
        eventually(lambda: all(there.jobs()[i]["cluster"] for i in ids), "Slurm has taken them")
    else:
        eventually(lambda: sum(ran(marks).values()) >= 8, "some have run")
    cluster.kill_controller()
    cluster.start_controller()

    def over() -> bool:
        cluster.mend()
        jobs = there.jobs()
        return all(jobs[job_id]["ended_at_ms"] for job_id in ids)

    eventually(over, "all have ended", 120)
    for number, job in enumerate(there.until_final(*ids)):
        assert job["exit_code"] == number % 3, f"{job['id']}: {job['state']}, {job['reason']}"
    assert ran(marks) == Counter({str(number): 1 for number in range(40)})


def test_gpus_are_not_kept_by_a_job_that_runs_only_in_the_memory_of_a_controller(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    """Killed, it takes up what it had saved; its nodes told its predecessor that the job ended."""
    go = tmp_path / "go"
    node = ("--gpus", "4", "--slurm", "--nodelist=n1")
    command = f"until [ -e {go} ]; do sleep 0.1; done; exit 3"
    job_id = there.add("--on-cluster", *node, "--", command)
    there.until_state(job_id, "running")
    cluster.restart_controller()
    cluster.copy_state("while it runs")
    go.touch()
    assert there.until_final(job_id)[0]["exit_code"] == 3
    eventually(lambda: not cluster.jobs(), "Slurm knows that it has ended")
    cluster.kill_controller()
    cluster.put_state_back("while it runs")
    cluster.start_controller()
    next_one = there.add("--on-cluster", *node, "--", "exit 4")
    (job,) = there.until_final(next_one)
    assert (job["exit_code"], job["attempt"]) == (4, 1)
    assert there.job(job_id)["exit_code"] == 3
