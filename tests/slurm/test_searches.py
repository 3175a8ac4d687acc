"""A search whose points run on the cluster."""

from __future__ import annotations

import json
from pathlib import Path

from slurm.cluster import Cluster
from stoker_home import StokerHome
from waiting import eventually

SPACE = ("x=uniform(0,1)", "--minimize", "loss", "--name", "s", "--on-cluster", "--gpus", "1")


def test_a_search_on_the_cluster_finds_the_best_of_its_points(there: StokerHome) -> None:
    there.stoker(
        "sweep", *SPACE, "--samples", "6", "--max-running", "3", "--slurm", "--partition=short",
        "--", "echo epoch 1 loss={x} on $SLURM_JOB_ID",
    )  # fmt: skip
    assert there.cli("wait", "--group", "s").code == 0
    jobs = there.jobs()
    assert len(jobs) == 6
    assert {job["executor"] for job in jobs.values()} == {"slurm"}
    xs = {job_id: job["params"]["x"] for job_id, job in jobs.items()}
    [best] = json.loads(there.stoker("results", "best", "s", "--json"))["best"]
    assert xs[best["id"]] == best["metrics"]["loss"]["best"] == min(xs.values())
    assert "trial 6 of 6, best loss" in there.stoker("why", "s")


def test_never_more_points_are_with_the_cluster_than_may_run(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    waits = f"until [ -e {go} ]; do sleep 0.1; done; echo loss={{x}}"
    there.stoker("sweep", *SPACE, "--samples", "5", "--max-running", "2", "--", waits)
    eventually(lambda: len(cluster.jobs()) == 2, "two are there")
    eventually(lambda: "waits for a result" in there.stoker("why", "s"), "it asks for no more")
    assert (len(there.jobs()), len(cluster.jobs())) == (2, 2)
    go.touch()
    there.stoker("wait", "--group", "s")
    ends = sorted(
        (moment, step)
        for job in there.jobs().values()
        for moment, step in ((job["started_at_ms"], 1), (job["ended_at_ms"], -1))
    )
    running = most = 0
    for _, step in ends:
        running += step
        most = max(most, running)
    assert len(there.jobs()) == 5
    assert most <= 2
