"""What a job needs is passed on in Slurm's own words, as Slurm itself repeats them."""

from __future__ import annotations

from slurm.cluster import Cluster
from slurm.test_endings import known_as
from stoker_home import StokerHome
from waiting import eventually

NEEDS: dict[tuple[str, ...], dict[str, str]] = {
    ("--gpus", "2"): {"TresPerNode": "gres:gpu:2", "NumNodes": "1-1"},
    ("--gpus", "2", "--on", "fake"): {"TresPerNode": "gres:gpu:fake:2"},
    ("--gpus", "0.5"): {"TresPerNode": "gres:shard:2"},
    ("--gpus", "0.3"): {"TresPerNode": "gres:shard:2"},
    ("--max-per-gpu", "4"): {"TresPerNode": "gres:shard:1"},
    ("--gpus", "0", "--cpus", "3"): {"CPUs/Task": "3"},
    ("--time-limit", "90s"): {"TimeLimit": "00:02:00"},
    ("--time-limit", "2h"): {"TimeLimit": "02:00:00"},
    ("--priority", "7"): {"Nice": "7"},
    ("--slurm", "--partition=short --time=3"): {"TimeLimit": "00:03:00"},
    ("--slurm", "-p short -C 'small|large'"): {"Features": "small|large"},
    (): {"Requeue": "0", "BatchFlag": "1"},
}


def test_needs_become_options_of_slurms(there: StokerHome, cluster: Cluster) -> None:
    ids = {words: there.add("--on-cluster", "--at", "+1h", *words, "--", "true") for words in NEEDS}
    for words, fields in NEEDS.items():
        shown = cluster.job_fields(known_as(there, ids[words]))
        # Newer versions write gres/gpu where older ones write gres:gpu.
        said = {name: shown[name].replace("gres/", "gres:") for name in fields}
        assert said == fields, words
        assert shown["JobState"] == "PENDING", words

    def reasons() -> set[str]:
        return {cluster.job_fields(known_as(there, job_id))["Reason"] for job_id in ids.values()}

    # Slurm says what a job waits for when it has first looked at it.
    eventually(lambda: reasons() == {"BeginTime"}, "they wait for their time")


def test_settings_count_for_every_job_and_the_jobs_own_options_for_more(
    there: StokerHome, cluster: Cluster
) -> None:
    there.stoker("config", "set", "slurm.partition", "short")
    there.stoker("config", "set", "slurm.options", "--time=4 --nice=3")
    plain = there.add("--on-cluster", "--at", "+1h", "--", "true")
    own = there.add("--slurm", "--partition=main", "--at", "+1h", "--", "true")
    fields = cluster.job_fields(known_as(there, plain))
    assert (fields["Partition"], fields["TimeLimit"], fields["Nice"]) == ("short", "00:04:00", "3")
    assert cluster.job_fields(known_as(there, own))["Partition"] == "main"


def test_gpu_memory_is_a_constraint_where_it_can_be_said_and_a_warning_where_not(
    there: StokerHome, cluster: Cluster
) -> None:
    ran = there.cli("add", "--on-cluster", "--mem", "20G", "--at", "+1h", "--", "true")
    assert ran.code == 0 and "the cluster can't be told of 20.0 GiB of GPU memory" in ran.err
    there.stoker("config", "set", "slurm.gpu-memory", "small:16G,large:80G")
    ran = there.cli("add", "--on-cluster", "--mem", "20G", "--at", "+1h", "--", "true")
    assert ran.code == 0 and ran.err == ""
    assert cluster.job_fields(known_as(there, int(ran.out)))["Features"] == "large"
    (refused,) = there.until_final(there.add("--on-cluster", "--mem", "90G", "--", "true"))
    assert "the largest at the cluster have 80.0 GiB" in refused["reason"]


def test_its_output_goes_where_its_user_says(there: StokerHome) -> None:
    out, err = there.work / "out.txt", there.work / "err.txt"
    job_id = there.add(
        "--on-cluster", "--out", "out.txt", "--err", "err.txt", "--", "echo o; echo e >&2"
    )
    there.until_final(job_id)
    assert (out.read_text(), err.read_text()) == ("o\n", "e\n")


def test_a_job_sees_its_own_environment_and_slurms_but_not_the_daemons(there: StokerHome) -> None:
    job_id = int(
        there.cli(
            "add", "--on-cluster", "--gpus", "2", "--gpu-arg", "--env", "MINE=x y", "--",
            "sh", "-c",
            'echo "$MINE|$ODD|$CUDA_VISIBLE_DEVICES|$STOKER_GPUS|$SLURM_JOB_ID|$*"', "_",
            env={"ODD": "naïve\n'\"$x", "UID": "7", "SBATCH_PARTITION": "nowhere"},
        ).out
    )  # fmt: skip
    (job,) = there.until_final(job_id)
    assert job["state"] == "succeeded"
    slurm_id = job["cluster"]["id"]
    expected = f"x y|naïve\n'\"$x|0,1|0,1|{slurm_id}|--gpu 0 1\n"
    assert there.log_of(job_id) == expected


def test_a_directory_that_nodes_share_may_be_somewhere_else(there: StokerHome) -> None:
    shared = there.root / "shared"
    shared.mkdir()
    there.stoker("config", "set", "slurm.dir", str(shared))
    job_id = there.add("--on-cluster", "--", "echo here")
    there.until_final(job_id)
    assert there.log_of(job_id) == "here\n"
    assert (shared / "attempts" / "0000" / f"{job_id}.1" / "log").read_text() == "here\n"
    there.stoker("config", "unset", "slurm.dir")
    assert there.stoker("logs", str(job_id)) == "here\n", "it is found where it was put"
