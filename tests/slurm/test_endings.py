"""Every end is told exactly, and one kind from another: by itself, by Slurm, by somebody else."""

from __future__ import annotations

import sys
from pathlib import Path

from slurm.cluster import Cluster
from stoker_home import StokerHome, lines_of
from waiting import eventually

FOREVER = "echo ready; while :; do sleep 0.1; done"


def running(there: StokerHome, *words: str) -> int:
    """A job that the cluster has started, and that has said so."""
    job_id = there.add("--on-cluster", *words, "--", FOREVER)
    there.until_state(job_id, "running")
    eventually(lambda: "ready" in there.log_of(job_id), "the job runs")
    return job_id


def known_as(there: StokerHome, job_id: int) -> str:
    """The id that Slurm has for a job."""
    place: dict[str, str] = eventually(lambda: there.job(job_id)["cluster"], "Slurm has it")
    return place["id"]


def test_exit_codes_and_signals_are_told_apart_and_told_exactly(there: StokerHome) -> None:
    expected = {
        "exit 0": (0, None, "succeeded"),
        "exit 7": (7, None, "failed"),
        "exit 143": (143, None, "failed"),
        "exit 255": (255, None, "failed"),
        "kill -TERM $$": (None, 15, "failed"),
        "kill -KILL $$": (None, 9, "failed"),
        "kill -INT $$": (None, 2, "failed"),
        "kill -SEGV $$": (None, 11, "failed"),
    }
    ids = there.submit_all([{"shell": command, "executor": "slurm"} for command in expected])
    ends = [(job["exit_code"], job["signal"], job["state"]) for job in there.until_final(*ids)]
    assert dict(zip(expected, ends, strict=True)) == expected


def test_a_program_that_is_missing_on_the_node_is_said_to_be(there: StokerHome) -> None:
    (job,) = there.until_final(there.add("--on-cluster", "--", "no-such-program", "x"))
    assert job["state"] == "failed"
    assert job["reason"] == "could not start: no-such-program: No such file or directory"


def test_a_job_that_can_never_run_there_is_refused_in_slurms_own_words(there: StokerHome) -> None:
    (job,) = there.until_final(there.add("--on-cluster", "--gpus", "99", "--", "true"))
    assert job["state"] == "failed"
    assert "Requested node configuration is not available" in job["reason"]


def test_a_job_that_waits_there_is_cancelled_at_once(there: StokerHome, cluster: Cluster) -> None:
    job_id = there.add("--on-cluster", "--at", "+1h", "--", "true")
    there.until_state(job_id, "submitted")
    eventually(cluster.jobs, "Slurm has it")
    there.stoker("cancel", str(job_id))
    (job,) = there.until_final(job_id)
    assert job["state"] == "cancelled" and job["started_at_ms"] is None
    eventually(lambda: not cluster.jobs(), "it is gone from the cluster too")


def test_a_job_that_runs_there_is_asked_to_stop(there: StokerHome, cluster: Cluster) -> None:
    job_id = running(there)
    there.stoker("cancel", str(job_id))
    (job,) = there.until_final(job_id)
    assert (job["state"], job["signal"]) == ("cancelled", 15)
    eventually(lambda: not cluster.jobs(), "it is gone from the cluster too")


def test_a_job_that_does_not_heed_is_killed_after_the_grace_time(there: StokerHome) -> None:
    job_id = there.add("--on-cluster", "--grace", "1s", "--", f"trap 'echo no' TERM; {FOREVER}")
    there.until_state(job_id, "running")
    eventually(lambda: "ready" in there.log_of(job_id))
    there.stoker("cancel", str(job_id))
    (job,) = there.until_final(job_id)
    assert (job["state"], job["signal"]) == ("cancelled", 9)
    assert "no" in there.log_of(job_id).split()


def test_somebody_elses_scancel_is_no_failure_and_not_retried(
    there: StokerHome, cluster: Cluster
) -> None:
    running_one, waiting_one = (
        running(there, "--retries", "3"),
        there.add("--on-cluster", "--at", "+1h", "--retries", "3", "--", "true"),
    )
    there.until_state(waiting_one, "submitted")
    for job_id in (running_one, waiting_one):
        cluster.command("scancel", known_as(there, job_id))
    for job in there.until_final(running_one, waiting_one):
        assert (job["state"], job["reason"]) == ("cancelled", "called off at the cluster")
        assert job["attempt"] == 1


def test_a_job_that_takes_too_much_memory_of_its_node_is_told_apart(there: StokerHome) -> None:
    hungry = (
        f"{sys.executable} -c \"x = bytearray(300 << 20); print('full', flush=True); "
        'import time; time.sleep(100)"'
    )
    job_id = there.add("--slurm", "--mem=50M", "--gpus", "0", "--", hungry)
    (job,) = there.until_final(job_id)
    assert (job["state"], job["reason"]) == ("failed", "out of memory on its node")


def test_a_job_whose_place_is_taken_by_another_is_tried_again(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    job_id = there.add(
        "--on-cluster", "--gpus", "4", "--slurm", "--nodelist=n1", "--",
        f"echo $STOKER_ATTEMPT >> {ran}; [ $STOKER_ATTEMPT -gt 1 ] || sleep 600",
    )  # fmt: skip
    eventually(lambda: lines_of(ran), "it runs")
    cluster.command(
        "sbatch", "--partition=urgent", "--gres=gpu:4", "--nodelist=n1", "--output=/dev/null",
        "--wrap", "true",
    )  # fmt: skip
    (job,) = there.until_final(job_id)
    assert job["state"] == "succeeded" and job["attempt"] == 2
    assert lines_of(ran) == ["1", "2"]
    assert job["attempts"][0]["reason"] == "preempted (n1)"


def test_a_job_whose_node_is_set_down_is_tried_again_elsewhere(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    job_id = there.add(
        "--on-cluster",
        "--",
        f"echo $STOKER_ATTEMPT >> {ran}; [ $STOKER_ATTEMPT -gt 1 ] || sleep 600",
    )
    eventually(lambda: lines_of(ran), "it runs")
    node = there.until_state(job_id, "running")["cluster"]["node"]
    cluster.command("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    (job,) = there.until_final(job_id)
    assert job["state"] == "succeeded" and job["attempt"] == 2
    assert job["cluster"]["node"] != node
    assert job["attempts"][0]["reason"] == f"the node failed ({node})"


def test_a_job_that_slurm_takes_back_is_another_attempt_with_a_log_of_its_own(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    job_id = there.add(
        "--slurm", "--requeue", "--",
        f"echo attempt $STOKER_ATTEMPT; echo $STOKER_ATTEMPT >> {ran}; "
        "[ $STOKER_ATTEMPT -gt 1 ] || sleep 600",
    )  # fmt: skip
    eventually(lambda: lines_of(ran), "it runs")
    cluster.command("scontrol", "requeue", there.until_state(job_id, "running")["cluster"]["id"])
    (job,) = there.until_final(job_id)
    assert job["state"] == "succeeded" and lines_of(ran) == ["1", "2"]
    first, second = job["attempts"]
    assert first["reason"] == "the cluster took it back"
    assert Path(first["log"]).read_text().startswith("attempt 1")
    assert Path(second["log"]).read_text() == "attempt 2\n"
    eventually(lambda: not cluster.jobs(), "what was taken back does not wait there for ever")


def test_a_time_limit_is_slurms_own_with_the_signal_before_it(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import signal, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('saving', flush=True))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(1)\n"
    )
    # The shell in between is not prepared for the signal, and must not die of it.
    job_id = there.add(
        "--on-cluster", "--time-limit", "1m", "--signal", "USR1@59s", "--",
        # The cluster tells one process after the other to end: a shell that goes on after the first
        # of them may come to an end of its own before it is told.
        f"{sys.executable} {script} && echo never",
    )  # fmt: skip
    # Slurm looks at its limits twice a minute; nobody has to wait for the third look.
    eventually(lambda: "saving" in _log(there, job_id), "the signal has come", 90)
    # A time that has passed by when the controller hears of it would not be taken.
    end = ("scontrol", "update", f"jobid={known_as(there, job_id)}", "endtime=now+2")
    cluster.command(*end)
    job = eventually(lambda: _ended(there, job_id), "the time is over", 120)
    assert (job["state"], job["reason"]) == ("failed", "time limit")
    assert "DUE TO TIME LIMIT" in there.log_of(job_id)


def _log(there: StokerHome, job_id: int) -> str:
    return there.log_of(job_id) if there.job(job_id)["started_at_ms"] else ""


def _ended(there: StokerHome, job_id: int) -> dict[str, object]:
    job = there.job(job_id)
    return job if job["ended_at_ms"] else {}
