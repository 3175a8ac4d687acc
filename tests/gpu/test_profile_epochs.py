"""`batch --profile-epochs`: each kind runs briefly, and the rest is packed by what it took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_box import Box

HEADER = "Directory,Executable,Filename,Epochs,Priority\n"
# A training of which an epoch takes ten seconds, with its peak in the first.
TRAIN = """\
for word in "$@"; do case $word in --epochs=*) epochs=${word#--epochs=};; esac; done
exec fakegpu-train --peak "$1" --seconds $((epochs * 10)) --use 10 --ramp 1
"""


def written(box: Box, rows: str) -> Path:
    (box.work / "train.sh").write_text(TRAIN)
    path = box.work / "commands.csv"
    path.write_text(HEADER + rows)
    return path


def row(peak: str, epochs: int, priority: int = 1) -> str:
    return f".,/bin/sh,train.sh {peak},{epochs},{priority}\n"


def is_packed_by(job: dict[str, Any], peak: str) -> bool:
    """Whether the job had its peak and a margin, of which less is left towards its end."""
    mib = int(peak.removesuffix("G")) * 1024
    return bool(mib < job["reserved_mib"] <= mib + 512)


def test_each_kind_runs_briefly_first_and_then_all_are_packed_by_what_it_took(box: Box) -> None:
    written(box, row("5G", 20, 2) + row("3G", 20, 1) + row("5G", 10, 1) + row("3G", 1, 1))
    ran = box.cli("batch", "--csv", "commands.csv")
    assert ran.code == 0, ran
    assert "first running 2 kinds of jobs briefly" in ran.err
    assert "4 of 4 jobs succeeded" in ran.err
    jobs = [box.job(job_id) for job_id in range(1, 7)]
    short, real = jobs[:2], jobs[2:]
    for job in short:
        assert "--epochs=2" in job["argv"] and job["params"]["profile"] == "2 epochs"
    assert short[0]["ended_at_ms"] <= short[1]["started_at_ms"], "one after the other"
    assert [job["params"]["epochs"] for job in real] == ["20", "10", "1", "20"]
    by_peak = {job["argv"][2]: job for job in short}
    for job in real:
        assert job["need"]["mem"] == "auto"
        peak = job["argv"][2]
        assert job["after_any"][0] == by_peak[peak]["id"]
        assert job["started_at_ms"] >= by_peak[peak]["ended_at_ms"]
        assert is_packed_by(job, peak)
        assert len(job["attempts"]) == 1
    assert [job["argv"][-1] for job in real] == [f"--id={n}" for n in range(1, 5)]
    for job in short:
        own = next(one for one in real if one["argv"][2] == job["argv"][2])
        assert job["argv"][-1] == own["argv"][-1], "a short run has the id of the row it profiles"
    assert {job["group"] for job in jobs} == {jobs[0]["group"]}


def test_a_batch_that_is_refused_says_nothing_but_why(box: Box) -> None:
    written(box, row("5G", 20) + row("3G", 20))
    (box.work / "scheduler_files").mkdir()
    (box.work / "scheduler_files" / "counter.txt").write_text("four")
    for more in ((), ("--no-wait",)):
        ran = box.cli("batch", "--csv", "commands.csv", *more)
        assert ran.code == 2 and ran.err.count("\n") == 1, ran
        assert "counter.txt is not a number" in ran.err
    assert box.jobs() == {}


def test_what_is_known_is_not_profiled_again(box: Box) -> None:
    written(box, row("2G", 4))
    assert "first running 1 kind of job briefly" in box.cli("batch", "--csv", "commands.csv").err
    written(box, row("2G", 6) * 2)
    ran = box.cli("batch", "--csv", "commands.csv")
    assert ran.code == 0 and "first" not in ran.err
    assert sorted(box.jobs()) == [1, 2, 3, 4]
    assert all(is_packed_by(box.job(n), "2G") for n in (3, 4))


def test_it_can_be_left_out_and_memory_that_is_said_needs_none(box: Box) -> None:
    written(box, row("2G", 3) * 2)
    assert box.cli("batch", "--csv", "commands.csv", "--profile-epochs", "0").code == 0
    assert box.cli("batch", "--csv", "commands.csv", "--mem", "4G").code == 0
    assert len(box.jobs()) == 4
    assert {box.job(n)["need"]["mem"] for n in box.jobs()} == {None}


def test_any_file_can_be_profiled_whose_commands_have_epochs(box: Box) -> None:
    (box.work / "train.sh").write_text(TRAIN)
    (box.work / "jobs.jsonl").write_text(
        '{"command": "sh train.sh 2G --epochs=5", "out": "a.txt"}\n'
        '{"command": ["sh", "train.sh", "4G", "--epochs=5"]}\n'
        '{"command": "sh train.sh 2G --epochs=5", "mem": "3G"}\n'
    )
    ran = box.cli("batch", "jobs.jsonl", "--profile-epochs", "1", "--no-wait")
    assert ran.code == 0, ran
    assert ran.out.split() == ["3", "4", "5"], "the short runs are not told of"
    box.until_final(*range(1, 6))
    assert box.job(1)["shell"] == "sh train.sh 2G --epochs=1"
    assert box.job(1)["log"] != box.job(3)["log"] == str(box.work / "a.txt")
    assert is_packed_by(box.job(3), "2G") and is_packed_by(box.job(4), "4G")
    (box.work / "other.jsonl").write_text('{"command": "true"}\n')
    refused = box.cli("batch", "other.jsonl", "--profile-epochs", "1")
    assert refused.code == 2
    assert "other.jsonl, line 1: the command has no --epochs" in refused.err


def test_a_short_run_that_fails_keeps_nobody_from_running(box: Box) -> None:
    (box.work / "train.sh").write_text('case "$*" in *--epochs=2*) exit 3;; esac\n' + TRAIN)
    (box.work / "commands.csv").write_text(HEADER + row("2G", 3))
    ran = box.cli("batch", "--csv", "commands.csv")
    assert ran.code == 0, ran
    assert [box.job(n)["state"] for n in (1, 2)] == ["failed", "succeeded"]
