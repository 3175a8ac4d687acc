"""Two jobs of one submission that differ in one field are two different jobs.

What jobs share is looked at once and kept once, by keys of what was said. A field that is missing
in a key would give one job what another has asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.api.messages import JobOwn, JobRequest
from unit.queue_scene import Queue

Fields = dict[str, Any]

# For each field of a job: what both have, and what one of them says in that field.
JOB: dict[str, tuple[Fields, Any]] = {
    "argv": ({}, ["false"]),
    "shell": ({"argv": [], "shell": "exit 2"}, "exit 3"),
    "name": ({}, "n"),
    "group": ({}, "g"),
    "cwd": ({}, "/"),
    "env": ({}, {"B": "2"}),
    "gpus": ({}, 2),
    "share": ({}, 0.5),
    "mem_mib": ({}, 4_000),
    "mem": ({}, "auto"),
    "kind": ({"mem": "auto"}, "other"),
    "margin": ({"mem": "auto"}, [20, 1_024]),
    "exclusive": ({}, True),
    "on": ({}, ["1", "2"]),
    "prefer": ({}, ["3"]),
    "cpus": ({}, 2),
    "max_per_gpu": ({"mem_mib": 2_000}, 2),
    "mps": ({"mem_mib": 2_000}, True),
    "thread_percentage": ({"mem_mib": 2_000, "mps": True}, 40),
    "priority": ({}, 7),
    "after": ({}, ["1"]),
    "after_any": ({}, ["1"]),
    "after_pid": ({}, [str(os.getpid())]),
    "time_limit_ms": ({}, 60_000),
    "grace_ms": ({}, 1_234),
    "signal": ({"time_limit_ms": 60_000}, "USR1"),
    "signal_before_ms": ({"time_limit_ms": 60_000, "signal": "USR1"}, 5_000),
    "retries": ({}, 3),
    "requeue_on": ({}, [75]),
    "slice_ms": ({}, 60_000),
    "keep_place": ({}, True),
    "stuck_after": ({}, 5),
    "requeue": ({}, True),
    "preemptible": ({}, True),
    "yields": ({"preemptible": True}, 5),
    "urgent": ({}, True),
    "not_before_ms": ({}, 1_800_000_000_000),
    "out": ({}, "/tmp/out"),
    "err": ({}, "/tmp/err"),
    "append": ({}, True),
    "overwrite": ({}, True),
    "nice": ({}, 5),
    "max_log_mib": ({}, 2048),
    "gpu_arg": ({}, True),
    "visible": ({}, "uuid"),
    "keep_children": ({}, True),
    "env_all": ({}, True),
    "freeze": ({"cwd": "frozen/trees/x"}, "/tmp"),  # below the test's own directory
    "metric": ({}, [r"loss=final loss (\S+)"]),
    "metrics_from": ({}, "runs/{name}"),
    "notify": ({}, True),
    "hook": ({}, "cat"),
    "hold": ({}, True),
    "executor": ({}, "slurm"),
    "slurm": ({"executor": "slurm"}, ["--qos=low"]),
    "params": ({}, {"lr": 0.1}),
    "point": ({}, "p"),
    "repeat": ({}, "seed"),
}

# The same for what one of many alike jobs says for itself.
OWN: dict[str, tuple[Fields, Any]] = {
    "argv": ({}, ["false"]),
    "shell": ({}, "exit 3"),
    "name": ({}, "n"),
    "priority": ({}, 7),
    "out": ({}, "/tmp/out"),
    "err": ({}, "/tmp/err"),
    "params": ({}, {"lr": 0.1}),
    "point": ({}, "p"),
}


def names_of(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def test_every_field_of_the_messages_is_tried() -> None:
    assert set(JOB) == names_of(JobRequest), "say here how a job differs by the new field"
    assert set(OWN) == names_of(JobOwn)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sbatch", "nvidia-cuda-mps-control"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    queue = Queue(tmp_path)
    queue.submit([{"argv": ["true"], "hold": True}])  # Number 1, for which others wait.
    return queue


@pytest.mark.parametrize("field", sorted(JOB))
def test_jobs_of_one_submission_differ_by_any_field_as_if_each_came_alone(
    queue: Queue, field: str, tmp_path: Path
) -> None:
    base, value = JOB[field]
    usual = {"argv": ["true"], **base}
    if "cwd" in base:
        frozen = tmp_path / base["cwd"]
        frozen.mkdir(parents=True)
        usual["cwd"] = str(frozen)
    other = {**usual, field: value}
    [alone] = queue.submit([usual])
    [other_alone] = queue.submit([other])
    expected = [queue.kept(alone), queue.kept(other_alone)]
    assert expected[0] != expected[1], f"{field} is kept nowhere"
    forth = queue.submit([usual, other])
    assert [queue.kept(job_id) for job_id in forth] == expected
    back = queue.submit([other, usual])
    assert [queue.kept(job_id) for job_id in back] == expected[::-1]


@pytest.mark.parametrize("field", sorted(OWN))
def test_alike_jobs_differ_by_any_field_of_their_own_as_if_each_came_alone(
    queue: Queue, field: str
) -> None:
    base, value = OWN[field]
    usual = {"argv": ["true"], **base}
    said = {**usual, field: value}
    if field == "shell":
        said["argv"] = []
    [alone] = queue.submit([usual])
    [other_alone] = queue.submit([said])
    expected = [queue.kept(alone), queue.kept(other_alone)]
    assert expected[0] != expected[1], f"{field} is kept nowhere"
    ids = queue.submit([usual], each=[{}, {field: value}, {}])
    assert [queue.kept(job_id) for job_id in ids] == [*expected, expected[0]]
