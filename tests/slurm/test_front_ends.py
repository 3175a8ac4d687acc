"""One word changes, not the scripts: every front end hands its jobs to the cluster."""

from __future__ import annotations

from stoker_home import StokerHome


def test_a_job_that_is_added_for_the_cluster_runs_there(there: StokerHome) -> None:
    job_id = there.add("--on-cluster", "--", "echo $STOKER_GPUS; hostname")
    (job,) = there.until_final(job_id)
    assert job["state"] == "succeeded" and job["executor"] == "slurm"
    assert job["cluster"]["node"] in ("n1", "n2", "n3")
    assert there.log_of(job_id).splitlines()[0] == "0"
