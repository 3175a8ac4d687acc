"""Orders become arrays: of those that are alike, as many as the cluster takes, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core.commands import HandOver
from stoker.core.model import Launch, Need, Terms
from stoker.executors.slurm.cases import Case, Phase
from stoker.executors.slurm.facts import ClusterFacts, facts_from_config
from stoker.executors.slurm.files import Files
from stoker.executors.slurm.options import ClusterConfig
from stoker.executors.slurm.submitting import Submission, Submitter


def case(job_id: int, *, priority: int = 0, limit_s: int | None = None) -> Case:
    terms = Terms(None if limit_s is None else limit_s * 1000, executor="slurm")
    order = HandOver(job_id, 1, "slurm", Need(0), terms, priority, None, ())
    launch = Launch(("true",), cwd="/", env={"PATH": "/bin", "SHELL": "/bin/sh"})
    return Case((job_id, 1), "", Phase.ORDERED, order, launch)


@pytest.fixture
def submitter(tmp_path: Path) -> Submitter:
    (tmp_path / "attempts").mkdir()
    return Submitter(Files(tmp_path / "attempts", None), "instance")


def submissions(submitter: Submitter, cases: list[Case], most_tasks: int) -> list[Submission]:
    """All calls that it takes to submit them."""
    found = []
    left = list(cases)
    while left:
        facts = ClusterFacts(most_tasks=most_tasks)
        submission, refused = submitter.next_submission(
            left, facts, ClusterConfig(), lambda *_: None, 0
        )
        assert submission is not None and not refused
        found.append(submission)
        left = [one for one in left if one not in submission.cases]
    return found


def array_of(submission: Submission) -> str | None:
    words = [word for word in submission.words if word.startswith("--array=")]
    return words[0].removeprefix("--array=") if words else None


@pytest.mark.parametrize(
    ("count", "arrays"),
    [
        (1, [None]),
        (2, ["0-1"]),
        (3, ["0-2"]),
        (4, ["0-2", None]),
        (7, ["0-2", "0-2", None]),
        (6, ["0-2", "0-2"]),
    ],
)
def test_an_array_has_no_more_tasks_than_the_cluster_takes(
    submitter: Submitter, count: int, arrays: list[str | None]
) -> None:
    cases = [case(number) for number in range(1, count + 1)]
    made = submissions(submitter, cases, most_tasks=3)
    assert [array_of(one) for one in made] == arrays
    assert [one.key[0] for submission in made for one in submission.cases] == list(
        range(1, count + 1)
    )
    for submission in made:
        assert [one.index for one in submission.cases] == list(range(len(submission.cases)))
        for one in submission.cases:
            task = Path(submission.words[-1], str(one.index))
            assert task.resolve() == Path(one.directory), "each task finds its own files"


def test_those_that_differ_are_not_of_one_array(submitter: Submitter) -> None:
    cases = [case(1), case(2, limit_s=60), case(3), case(4, limit_s=60), case(5, limit_s=61)]
    made = submissions(submitter, cases, most_tasks=1000)
    assert [[one.key[0] for one in submission.cases] for submission in made] == [
        [1, 3], [2, 4], [5],
    ]  # fmt: skip


@pytest.mark.parametrize(("largest", "most"), [(2, 1), (11, 10), (1001, 1000), (100_001, 1000)])
def test_arrays_stay_below_what_the_cluster_says_and_below_a_bound_of_ours(
    largest: int, most: int
) -> None:
    facts = facts_from_config(f"MaxArraySize = {largest}\n", ())
    assert facts.most_tasks == most
