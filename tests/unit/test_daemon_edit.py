"""`stoker edit` of what a job needs: the new word counts, and what it replaces is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from stoker.api.messages import Edit, Select
from stoker.core.model import Need
from stoker.daemon.main import Daemon
from stoker.daemon.requests.edit import edit
from stoker.errors import UsageError
from unit.queue_scene import Queue


def edited_job(tmp_path: Path, said: dict[str, Any], changes: dict[str, Any]) -> tuple[Queue, int]:
    queue = Queue(tmp_path)
    [job_id] = queue.submit([{"argv": ["train"], "hold": True, **said}])
    request = Edit(select=Select(ids=[str(job_id)]), changes=changes)
    queue.grant(edit(cast(Daemon, queue), request).proposal)
    queue.commit()
    return queue, job_id


def edited(tmp_path: Path, said: dict[str, Any], changes: dict[str, Any]) -> Need:
    queue, job_id = edited_job(tmp_path, said, changes)
    return queue.state.jobs[job_id].need


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        ({"mem_mib": 8_192}, {"mem": "auto"}),
        ({"mem_mib": 8_192}, {"mem": "whole"}),
        ({"mem": "auto"}, {"mem_mib": 8_192}),
        ({"mem": "auto"}, {"mem": "whole"}),
        ({"mem": "auto"}, {"mem_mib": 4_096, "mem": None}),
        ({"gpus": 2}, {"share": 0.5}),
        ({"share": 0.5}, {"gpus": 2}),
        ({"share": 0.5}, {"mem_mib": 8_192}),
        ({"gpus": 0}, {"gpus": 1}),
        ({"gpus": 1}, {"gpus": 0}),
        ({"mem_mib": 8_192}, {"margin": [20, 100]}),
        ({"on": ["1"]}, {"on": []}),
        ({"cpus": 3}, {"gpus": 2}),
    ],
)
def test_an_edited_job_needs_what_a_new_one_would_that_says_the_same(
    tmp_path: Path, said: dict[str, Any], changes: dict[str, Any]
) -> None:
    need = edited(tmp_path, said, changes)
    replaced = {"mem", "mem_mib"} if changes.keys() & {"mem", "mem_mib"} else set()
    replaced |= {"gpus", "share"} if changes.keys() & {"gpus", "share"} else set()
    left = {name: value for name, value in said.items() if name not in replaced}
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    queue = Queue(fresh)
    [job_id] = queue.submit([{"argv": ["train"], "hold": True, **left, **changes}])
    assert need == queue.state.jobs[job_id].need


def test_memory_that_is_learned_replaces_an_amount(tmp_path: Path) -> None:
    need = edited(tmp_path, {"mem_mib": 8_192}, {"mem": "auto"})
    assert need.learns and need.mem_mib is None


HALF = {"share": 0.5, "max_per_gpu": 2}  # as front ends say --max-per-gpu 2


@pytest.mark.parametrize(
    ("said", "changes", "expected"),
    [
        ({}, {"max_per_gpu": 2}, Need(share_milli=500, max_per_gpu=2)),
        (HALF, {"max_per_gpu": 4}, Need(share_milli=250, max_per_gpu=4)),
        (HALF, {"max_per_gpu": None}, Need()),
        (HALF, {"mem_mib": 8_192}, Need(mem_mib=8_192, max_per_gpu=2, kind="train")),
        (
            {"mem_mib": 8_192, "max_per_gpu": 2},
            {"mem_mib": None},
            Need(share_milli=500, max_per_gpu=2),
        ),
        (
            {"share": 0.25, "max_per_gpu": 2},
            {"max_per_gpu": 3},
            Need(share_milli=250, max_per_gpu=3),
        ),
    ],
)
def test_at_most_so_many_per_gpu_means_in_an_edit_what_it_means_in_a_submission(
    tmp_path: Path, said: dict[str, Any], changes: dict[str, Any], expected: Need
) -> None:
    assert edited(tmp_path, said, changes) == expected


@pytest.mark.parametrize("said", [{"gpus": 2}, {"exclusive": True}])
def test_an_edit_is_refused_where_the_submission_would_be(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="--max-per-gpu 3 is for jobs that share one GPU"):
        edited(tmp_path, said, {"max_per_gpu": 3})


@pytest.mark.parametrize(
    ("limit_ms", "said"), [(60_000, "before the job starts"), (None, "needs a time limit")]
)
def test_a_new_time_limit_must_leave_room_for_the_signal(
    tmp_path: Path, limit_ms: int | None, said: str
) -> None:
    limits = {"time_limit_ms": 600_000, "signal": "USR1", "signal_before_ms": 120_000}
    with pytest.raises(UsageError, match=said):
        edited(tmp_path, limits, {"time_limit_ms": limit_ms})


def test_options_of_sbatch_take_a_job_to_the_cluster(tmp_path: Path) -> None:
    queue, job_id = edited_job(tmp_path, {}, {"slurm": ["-p", "x"]})
    assert queue.state.jobs[job_id].terms.executor == "slurm"
    assert queue.store.launch(job_id).cluster_options == ("-p", "x")


def test_a_kind_that_was_given_outlives_a_new_command(tmp_path: Path) -> None:
    queue, job_id = edited_job(tmp_path, {"kind": "mine", "mem": "auto"}, {"argv": ["other"]})
    assert queue.store.launch(job_id).kind == queue.state.jobs[job_id].need.kind == "mine"


def test_a_kind_that_was_not_given_is_that_of_the_new_command(tmp_path: Path) -> None:
    queue, job_id = edited_job(tmp_path, {"mem": "auto"}, {"argv": ["other"]})
    assert queue.store.launch(job_id).kind == queue.state.jobs[job_id].need.kind == "other"


@pytest.mark.parametrize("env", [{"A=B": "1"}, {"": "1"}, {"A": "one\0two"}])
def test_an_edit_to_what_no_environment_can_hold_is_refused(
    tmp_path: Path, env: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match="can't be an environment variable"):
        edited(tmp_path, {}, {"env": env})
