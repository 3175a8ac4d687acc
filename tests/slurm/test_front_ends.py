"""One word changes, not the scripts: every front end hands its jobs to the cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from slurm.cluster import Cluster
from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually
from web.page_home import PageHome

LIBRARY = """
import os, stoker

def square(x):
    return x * x, os.environ["STOKER_JOB_ID"], os.environ["SLURM_JOB_ID"]

future = stoker.submit(square, 7, on_cluster=True, gpus=1)
value, job, slurm = future.result()
assert value == 49 and slurm
with stoker.Executor(executor="slurm") as pool:
    assert [one[0] for one in pool.map(square, range(4))] == [0, 1, 4, 9]
client = stoker.Client()
job_id = client.add("exit 4", executor="slurm")
print(job, job_id)
"""


def test_a_job_that_is_added_for_the_cluster_runs_there(there: StokerHome) -> None:
    job_id = there.add("--on-cluster", "--name", "first", "--", "echo $STOKER_GPUS $SLURM_JOB_ID")
    (job,) = there.until_final(job_id)
    assert job["state"] == "succeeded" and job["executor"] == "slurm" and job["gpus"] == []
    assert job["cluster"]["node"] in ("n1", "n2", "n3")
    gpus, slurm_id = there.log_of(job_id).split()
    assert gpus in ("0", "1", "2", "3") and slurm_id == job["cluster"]["id"]
    assert f"slurm, job {slurm_id} on n" in there.stoker("show", str(job_id))


def test_a_setting_sends_all_jobs_to_the_cluster_that_name_nothing_else(there: StokerHome) -> None:
    there.stoker("config", "set", "executor", "slurm")
    there.call("config_set", name="gpus", value="0")
    remote, local = there.add("--", "true"), there.add("--executor", "local", "--", "true")
    jobs = there.until_final(remote, local)
    assert [job["executor"] for job in jobs] == ["slurm", "local"]
    assert [job["state"] for job in jobs] == ["succeeded", "succeeded"]


def test_the_usual_verbs_mean_what_they_always_mean(there: StokerHome, cluster: Cluster) -> None:
    cluster.command("scontrol", "update", "nodename=n[1-3]", "state=drain", "reason=test")
    job_id = there.add("--on-cluster", "--", "echo one; echo two; exit 6")
    eventually(lambda: "at the cluster" in there.stoker("why", str(job_id)), "Slurm says why")
    assert "submitted" in there.stoker("ls")
    assert f"{job_id}" in there.stoker("ls", "--state", "submitted", "--json")
    assert "1 submitted" in there.stoker("status")
    seen = there.cli("top", "--once", env={"COLUMNS": "200"}).out
    assert "1 submitted" in seen and "at the cluster" in seen
    refused = there.cli("hold", str(job_id))
    assert refused.code == 1 and "is submitted" in refused.err
    cluster.resume_nodes()
    ran = there.cli("wait", str(job_id))
    assert ran.code == 6
    assert there.stoker("logs", str(job_id)) == "one\ntwo\n"
    there.stoker("retry", str(job_id))
    (job,) = there.until_final(job_id)
    assert (job["attempt"], job["executor"], job["exit_code"]) == (2, "slurm", 6)
    there.stoker("rm", str(job_id))
    eventually(lambda: not os.path.exists(job["attempts"][0]["dir"]), "its files are gone")


def test_a_log_is_followed_as_a_node_writes_it(there: StokerHome, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job_id = there.add(
        "--on-cluster", "--", f"echo one; until [ -e {go} ]; do sleep 0.1; done; echo two"
    )
    follower = there.popen("logs", "-f", str(job_id), stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"one\n"
    go.touch()
    assert follower.stdout.read() == b"two\n"
    assert follower.wait(PATIENCE_S) == 0


def test_a_feed_goes_there_as_few_arrays_and_comes_back_line_by_line(
    there: StokerHome, cluster: Cluster
) -> None:
    lines = "".join(f"exit {number % 2}\n" for number in range(20))
    ran = there.cli("feed", "--executor", "slurm", "--group", "f", "--json", stdin=lines.encode())
    assert ran.code == 1
    counts = json.loads(ran.out)
    assert (counts["succeeded"], counts["failed"]) == (10, 10)
    arrays = {job["cluster"]["id"].partition("_")[0] for job in there.jobs().values()}
    assert len(arrays) <= 3


def test_an_interrupted_feed_calls_off_what_waits_at_the_cluster(
    there: StokerHome, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.command("scontrol", "update", "nodename=n[1-3]", "state=drain", "reason=test")
    file = tmp_path / "commands.txt"
    file.write_text("true\n" * 5)
    feed = there.popen("feed", "--executor", "slurm", "--group", "f", str(file))
    eventually(lambda: len(cluster.jobs()) == 5, "Slurm has them")
    feed.send_signal(2)
    assert feed.wait(PATIENCE_S) == 130
    assert {job["state"] for job in there.jobs().values()} == {"cancelled"}
    eventually(lambda: not cluster.jobs(), "nothing waits there any more")


def test_a_sweep_runs_there_with_its_points_and_results(there: StokerHome) -> None:
    name = there.stoker(
        "sweep", "lr=0.1,0.01", "bs=16,32", "--on-cluster", "--", "echo {lr} {bs}; exit 0"
    ).strip()
    there.stoker("wait", "--group", name)
    shown = json.loads(there.stoker("sweep", "show", name, "--json"))
    assert {point["state"] for point in shown["points"]} == {"succeeded"}
    assert len(shown["points"]) == 4
    again = there.cli(
        "sweep", "lr=0.1,0.01", "bs=16,32", "--on-cluster", "--", "echo {lr} {bs}; exit 0"
    )
    assert "4 succeeded before" in again.err


def test_a_batch_file_may_send_some_of_its_rows_there(there: StokerHome, tmp_path: Path) -> None:
    there.call("config_set", name="gpus", value="0")
    table = tmp_path / "jobs.csv"
    table.write_text(
        "name,command,executor,after,slurm\n"
        "a,true,slurm,,--partition=short\n"
        "b,true,local,a,\n"
        "c,true,slurm,b,\n"
    )
    there.stoker("batch", str(table))
    jobs = {job["name"]: job for job in there.jobs().values()}
    assert {name: job["executor"] for name, job in jobs.items()} == {
        "a": "slurm",
        "b": "local",
        "c": "slurm",
    }
    assert {job["state"] for job in jobs.values()} == {"succeeded"}


def test_the_library_sends_calls_and_commands_there(there: StokerHome, tmp_path: Path) -> None:
    script = tmp_path / "calls.py"
    script.write_text(LIBRARY)
    done = subprocess.run(
        [sys.executable, script], env=there.env, cwd=there.work, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    call, command = map(int, done.stdout.split())
    assert there.job(call)["executor"] == "slurm"
    assert there.until_final(command)[0]["exit_code"] == 4


def test_the_page_sends_jobs_there_and_shows_what_they_print(there: StokerHome) -> None:
    page = PageHome(there)
    order = {"jobs": [{"shell": "echo from a node; exit 5", "executor": "slurm"}]}
    (job_id,) = page.post("/api/jobs", order)["ids"]
    there.until_final(job_id)
    shown = page.get(f"/api/jobs/{job_id}")["job"]
    assert (shown["executor"], shown["exit_code"]) == ("slurm", 5) and shown["cluster"]["node"]
    log = page.get(f"/api/jobs/{job_id}/log")
    assert [line["text"] for line in log["lines"]] == ["from a node"]


def test_a_job_that_waits_here_can_be_moved_there_and_back(there: StokerHome) -> None:
    there.call("config_set", name="gpus", value="0")
    job_id = there.add("--hold", "--", "true")
    there.stoker("edit", str(job_id), "--on-cluster", "--slurm", "--partition=short")
    assert there.job(job_id)["executor"] == "slurm"
    assert there.job(job_id)["slurm"] == ["--partition=short"]
    there.stoker("release", str(job_id))
    (job,) = there.until_final(job_id)
    assert job["state"] == "succeeded" and job["cluster"]["node"]


def test_a_job_in_a_terminal_is_refused_for_the_cluster(there: StokerHome) -> None:
    ran = there.cli("run", "--on-cluster", "--", "true")
    assert ran.code == 2 and "can't run on the cluster" in ran.err
    there.stoker("config", "set", "executor", "slurm")
    assert there.cli("run", "--gpus", "0", "--", "true").code == 0, "it runs here all the same"


def test_what_can_not_be_asked_of_the_cluster_is_refused_in_one_line(home: StokerHome) -> None:
    complaints = {
        ("--on-cluster", "--executor", "local"): "exclude each other",
        ("--executor", "cloud"): "there is no executor 'cloud'",
        ("--slurm", "--array=0-9"): "--array can't be passed on to Slurm",
        ("--slurm", "--job-name=x"): "use Stoker's --name",
        ("--slurm", "evil.sh"): "is not an option of sbatch",
        ("--executor", "local", "--slurm", "--qos=x"): "--slurm is for jobs on the cluster",
        ("--on-cluster", "--prefer", "1"): "--prefer means GPUs of this machine",
        ("--on-cluster", "--on", "a,b"): "one type of GPU",
    }
    for words, complaint in complaints.items():
        ran = home.cli("add", *words, "--", "true")
        assert ran.code == 2 and ran.out == "" and ran.err.count("\n") == 1, words
        assert complaint in ran.err


def test_the_check_says_what_works_and_what_is_missing(there: StokerHome) -> None:
    answer = json.loads(there.stoker("cluster", "check", "--json"))
    found = {check["name"]: (check["ok"], check["text"]) for check in answer["checks"]}
    assert found["commands"][0] and found["controller"][0] and found["states"][0]
    assert found["gpus"] == (True, "12 GPUs on 3 nodes (fake: for --on)")
    assert found["shares"] == (True, "gres/shard: a GPU has 4 parts, for --gpus 0.5")
    assert found["gpu memory"][0] is None and found["accounting"][0] is None
    assert found["shared directory"][0] and "writes there" in found["shared directory"][1]
