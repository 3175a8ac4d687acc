"""Which short runs come first, what they are like, and who waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.batch.entries import Entry
from stoker.errors import UsageError
from stoker.quantities import MAX_LABEL_CHARS
from stoker.submission.batches import PlannedJob
from stoker.submission.profiling import with_profiling


def _job(line: int, command: str | list[str], **fields: Any) -> PlannedJob:
    words = {"shell": command} if isinstance(command, str) else {"argv": command}
    return PlannedJob(Entry(line, command), {**words, **fields})


def _planned(
    *jobs: PlannedJob, known: tuple[str, ...] = ()
) -> tuple[list[PlannedJob], list[PlannedJob]]:
    """The short runs, and the jobs behind them."""
    planned, count = with_profiling(list(jobs), 2, known, "/here")
    assert planned[count:] == list(jobs)
    return planned[:count], planned[count:]


def test_each_kind_has_one_short_run_and_all_of_it_wait_for_that() -> None:
    short, jobs = _planned(
        _job(1, "train --epochs 90 --lr 1"),
        _job(2, "train --epochs 50 --lr 1"),
        _job(3, "train --epochs=90 --lr 2"),
    )
    assert [one.fields["shell"] for one in short] == [
        "train --epochs 2 --lr 1", "train --epochs=2 --lr 2",
    ]  # fmt: skip
    assert [one.after_any for one in jobs] == [[0], [0], [1]]
    assert {one.fields["mem"] for one in (*short, *jobs)} == {"auto"}


def test_short_runs_come_one_after_the_other_and_before_all_else() -> None:
    short, _ = _planned(*(_job(n, f"train --epochs 9 --lr {n}", priority=n - 2) for n in (1, 2, 3)))
    assert [list(one.after_any) for one in short] == [[], [0], [1]]
    assert [one.fields["priority"] for one in short] == [-1, -1, -1]


def test_jobs_that_wait_for_others_wait_for_the_same_ones_behind_the_short_runs() -> None:
    first, second = _job(1, "train --epochs 9 --lr 1"), _job(2, "train --epochs 9 --lr 2")
    third, fourth = _job(3, "train --epochs 9 --lr 1"), _job(4, "train --epochs 9 --lr 2")
    third.after, fourth.after_any = [0], [1]
    short, jobs = _planned(first, second, third, fourth)
    assert len(short) == 2
    assert (jobs[2].after, jobs[2].after_any) == ([2], [0])
    assert (jobs[3].after, jobs[3].after_any) == ([], [1, 3])


def test_a_job_that_waits_for_another_one_is_not_run_briefly_before_that() -> None:
    late = _job(2, "train --epochs 9 --lr 2")
    late.after = [0]
    short, jobs = _planned(_job(1, "train --epochs 9 --lr 1"), late)
    assert [one.entry.line for one in short] == [1]
    assert list(jobs[1].after_any) == []


def test_a_short_run_has_nothing_that_is_one_runs_alone() -> None:
    words = ["train", "--epochs", "90", "--epochs=70", "7"]
    [short], _ = _planned(
        _job(5, words, out="o", err="e", retries=3, name="n", point="p", params={"lr": "1"}, cpus=4)
    )
    assert short.fields == {
        "argv": ["train", "--epochs", "2", "--epochs=2", "7"],
        "cpus": 4,
        "mem": "auto",
        "kind": short.fields["kind"],
        "params": {"lr": "1", "profile": "2 epochs"},
        "priority": 0,
        "name": "profile line 5",
    }


def test_a_job_that_is_as_short_itself_needs_no_short_run() -> None:
    assert _planned(_job(1, "train --epochs 2"))[0] == []
    assert _planned(_job(1, "train --epochs 1"))[0] == []
    short, jobs = _planned(_job(1, "train --epochs 1"), _job(2, "train --epochs 3"))
    assert [one.entry.line for one in short] == [2]
    assert [one.after_any for one in jobs] == [[0], [0]]


def test_a_kind_that_is_known_needs_no_short_run_but_is_learned_on() -> None:
    job = _job(1, "train --epochs 9", kind="mine")
    short, [same] = _planned(job, known=("mine",))
    assert short == [] and list(same.after_any) == [] and same.fields["mem"] == "auto"


def test_the_same_command_in_another_directory_is_of_another_kind() -> None:
    short, jobs = _planned(
        _job(1, "train --epochs 9"),
        _job(2, "train --epochs 9", cwd="/there"),
        _job(3, "train --epochs 9", cwd="/here"),
    )
    assert [one.entry.line for one in short] == [1, 2]
    assert jobs[0].fields["kind"] == jobs[2].fields["kind"] != jobs[1].fields["kind"]


def test_long_commands_that_differ_at_their_end_are_of_different_kinds() -> None:
    base = "train --epochs 9 " + "x" * MAX_LABEL_CHARS
    short, jobs = _planned(_job(1, base + "1"), _job(2, base + "2"))
    assert len(short) == 2
    assert all(len(one.fields["kind"]) <= MAX_LABEL_CHARS for one in jobs)


@pytest.mark.parametrize(
    "fields",
    [
        {"mem_mib": 100},
        {"mem": None},
        {"share": 0.5},
        {"exclusive": True},
        {"gpus": 0},
        {"executor": "slurm"},
    ],
)
def test_a_job_whose_memory_is_not_to_be_learned_is_left_as_it_is(fields: dict[str, Any]) -> None:
    # It need not even have epochs.
    short, [job] = _planned(_job(1, "train", **fields))
    assert short == [] and job.fields == {"shell": "train", **fields}


def test_a_command_without_epochs_is_refused_with_its_line() -> None:
    for command in ("train", "train --epochs", "train --epochs many", "train x--epochs 3"):
        with pytest.raises(UsageError, match="line 8: the command has no --epochs"):
            _planned(_job(8, command))


def test_a_batch_stays_behind_the_batch_before_it_and_not_behind_short_runs() -> None:
    jobs = [_job(n, f"train --epochs 9 --lr {n}") for n in (1, 2, 3, 4)]
    jobs[2].behind = jobs[3].behind = range(0, 2)
    short, planned = _planned(*jobs)
    assert len(short) == 4
    assert [job.behind for job in planned] == [None, None, range(4, 6), range(4, 6)]
