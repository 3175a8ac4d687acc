"""The daemon is killed at any moment of a submission: none is lost, none is run twice."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from slurm.cluster import Cluster
from slurm.test_controller_gone import ran
from stoker.api.launch import start_daemon
from stoker_home import StokerHome, kill_and_wait
from waiting import eventually


def test_a_hundred_submissions_survive_a_daemon_that_is_killed_again_and_again(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    dice = random.Random(6)
    ids: list[int] = []
    kills = 0
    while len(ids) < 100:
        count = min(dice.choice((1, 1, 5, 14)), 100 - len(ids))
        first = len(ids)
        ids += there.submit_all(
            [
                {
                    "shell": f"echo {n} >> {marks}/$STOKER_JOB_ID; exit {n % 5}",
                    "executor": "slurm",
                    # Alike jobs share an array; some are not alike.
                    "gpus": dice.choice((0, 1)),
                }
                for n in range(first, first + count)
            ]
        )
        if dice.random() < 0.7:
            # From the moment of the commit until the cluster has answered is about this long.
            pause = dice.uniform(0.0, 0.15)
            eventually(_after(pause), "a moment has passed")
            kill_and_wait(there.daemons()[0])
            kills += 1
            start_daemon(there.home)
    assert kills >= 5
    for number, job in enumerate(there.until_final(*ids)):
        assert job["exit_code"] == number % 5, f"{job['id']}: {job['state']}, {job['reason']}"
        assert job["attempt"] == 1
    assert ran(marks) == Counter({str(number): 1 for number in range(100)})
    eventually(lambda: not cluster.jobs(), "nothing is left at the cluster")


def test_jobs_go_on_and_end_while_no_daemon_is_there(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    command = f"until [ -e {go} ]; do sleep 0.1; done; exit 4"
    running = there.add("--on-cluster", "--", command)
    waiting = there.add("--on-cluster", "--after-any", str(running), "--", "exit 5")
    there.until_state(running, "running")
    eventually(lambda: there.job(waiting)["cluster"], "Slurm has both")
    there.kill_daemon()
    go.touch()
    eventually(lambda: not cluster.jobs(), "both have ended")
    there.start()
    first, second = there.until_final(running, waiting)
    assert (first["exit_code"], second["exit_code"]) == (4, 5)


def test_a_job_that_is_cancelled_as_the_daemon_dies_is_cancelled_by_the_next(
    there: StokerHome, cluster: Cluster
) -> None:
    job_id = there.add("--on-cluster", "--", "sleep 600")
    there.until_state(job_id, "running")
    cluster.stop_controller()
    there.stoker("cancel", str(job_id))
    there.kill_daemon()
    cluster.continue_controller()
    there.start()
    (job,) = there.until_final(job_id)
    assert job["state"] == "cancelled"
    eventually(lambda: not cluster.jobs(), "it is gone from the cluster")


class _after:
    """True once so many seconds have passed since the first time it was asked."""

    def __init__(self, seconds: float) -> None:
        import time

        self._clock = time.monotonic
        self._until = time.monotonic() + seconds

    def __call__(self) -> bool:
        return self._clock() >= self._until
