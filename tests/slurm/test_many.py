"""Arrays, dependencies and limits: many jobs in few calls, and each in its time."""

from __future__ import annotations

from pathlib import Path

from slurm.cluster import Cluster
from slurm.test_controller_gone import ran
from slurm.test_endings import known_as
from stoker_home import StokerHome, lines_of
from waiting import eventually


def test_five_hundred_jobs_go_as_arrays_and_each_comes_to_its_own_end(
    there: StokerHome, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    ids = there.submit_all(
        [
            {"shell": f"echo {n} >> {marks}/{n % 20}; exit {n % 7}", "executor": "slurm", "gpus": 0}
            for n in range(500)
        ]
    )
    eventually(lambda: all(job["ended_at_ms"] for job in there.jobs().values()), "all", 180)
    jobs = there.jobs()
    assert [jobs[i]["exit_code"] for i in ids] == [n % 7 for n in range(500)]
    assert len(ran(marks)) == 500 and set(ran(marks).values()) == {1}
    assert len({jobs[i]["cluster"]["id"].partition("_")[0] for i in ids}) <= 3


def test_some_of_an_array_are_cancelled_and_the_others_go_on_waiting(
    there: StokerHome, cluster: Cluster
) -> None:
    """Slurm's own command, told a name and some tasks that wait, would cancel all that wait."""
    cluster.command("scontrol", "update", "nodename=n[1-3]", "state=drain", "reason=test")
    ids = there.submit_all([{"shell": "true", "executor": "slurm"} for _ in range(12)])
    eventually(lambda: len(cluster.jobs()) == 12, "Slurm has them")
    gone, kept = ids[3:5] + ids[8:9], ids[:3] + ids[5:8] + ids[9:]
    there.stoker("cancel", *map(str, gone))
    there.until_final(*gone)
    expected = {known_as(there, job_id) for job_id in kept}
    eventually(lambda: len(cluster.jobs()) <= len(kept), "Slurm has heard of it")
    assert {line.split()[0] for line in cluster.jobs()} == expected
    assert {there.job(job_id)["state"] for job_id in kept} == {"submitted"}
    there.stoker("cancel", *map(str, kept))
    eventually(lambda: not cluster.jobs(), "the rest go too")


def test_what_waits_for_another_job_waits_at_the_cluster(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    order, go = tmp_path / "order", tmp_path / "go"
    waits = f"until [ -e {go} ]; do sleep 0.1; done"
    first = there.add("--on-cluster", "--", f"{waits}; echo 1 >> {order}")
    second = there.add("--on-cluster", "--after", str(first), "--", f"echo 2 >> {order}; exit 1")
    third = there.add("--on-cluster", "--after-any", str(second), "--", f"echo 3 >> {order}")
    fourth = there.add("--on-cluster", "--after", f"{second}", "--", f"echo 4 >> {order}")
    fields = cluster.job_fields(known_as(there, third))
    assert fields["Dependency"] == f"afterany:{known_as(there, second)}(unfulfilled)"
    eventually(
        lambda: "for the jobs that it requires" in str(there.job(third)["reason"]), "Slurm says so"
    )
    go.touch()
    states = [job["state"] for job in there.until_final(first, second, third, fourth)]
    assert states == ["succeeded", "failed", "succeeded", "skipped"]
    assert lines_of(order) == ["1", "2", "3"]
    eventually(lambda: not cluster.jobs(), "what is skipped is withdrawn")


def test_jobs_here_and_jobs_there_wait_for_each_other(there: StokerHome, tmp_path: Path) -> None:
    there.call("config_set", name="gpus", value="0")
    order = tmp_path / "order"
    first = there.add("--on-cluster", "--", f"echo 1 >> {order}")
    second = there.add("--after", str(first), "--", f"echo 2 >> {order}")
    third = there.add("--on-cluster", "--after", str(second), "--", f"echo 3 >> {order}")
    there.until_final(first, second, third)
    assert lines_of(order) == ["1", "2", "3"]


def test_what_waits_for_a_job_that_is_retried_waits_for_its_last_attempt(
    there: StokerHome, tmp_path: Path
) -> None:
    order = tmp_path / "order"
    first = there.add(
        "--on-cluster", "--retries", "1", "--",
        f"echo 1.$STOKER_ATTEMPT >> {order}; [ $STOKER_ATTEMPT = 2 ]",
    )  # fmt: skip
    second = there.add("--on-cluster", "--after", str(first), "--", f"echo 2 >> {order}")
    states = [job["state"] for job in there.until_final(first, second)]
    assert states == ["succeeded", "succeeded"]
    assert lines_of(order) == ["1.1", "1.2", "2"]


def test_no_more_jobs_are_with_the_cluster_than_its_user_allows(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    there.stoker("config", "set", "slurm.jobs", "2")
    waits = f"until [ -e {go} ]; do sleep 0.1; done"
    ids = [there.add("--on-cluster", "--", waits) for _ in range(4)]
    eventually(lambda: len(cluster.jobs()) == 2, "two are there")
    assert "2 jobs may be with the cluster at a time" in there.stoker("why", str(ids[3]))
    go.touch()
    assert {job["state"] for job in there.until_final(*ids)} == {"succeeded"}


def test_a_moment_is_slurms_to_wait_for(there: StokerHome, cluster: Cluster) -> None:
    job_id = there.add("--on-cluster", "--at", "+3s", "--", "true")
    assert cluster.job_fields(known_as(there, job_id))["JobState"] in ("PENDING", "RUNNING")
    (job,) = there.until_final(job_id)
    assert job["state"] == "succeeded"
    assert job["started_at_ms"] - job["submitted_at_ms"] >= 2_000
