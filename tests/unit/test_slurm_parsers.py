"""Slurm's own words are understood, in each of the forms that they have.

The files in slurm_said/ are what 22.05 and 24.11 printed of the same jobs, cut to a few fields.
In the newer one's JSON numbers are objects and states are lists, and its text says exit codes anew.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.core.model import Exit
from stoker.executors.slurm.calls import in_words
from stoker.executors.slurm.facts import (
    Accounted,
    Nodes,
    accounted_from_text,
    facts_from_config,
    nodes_from_text,
)
from stoker.executors.slurm.squeue import (
    NoAnswer,
    Seen,
    Unreadable,
    array_indexes,
    indexes_text,
    jobs_from_json,
    jobs_from_text,
    submitted_id,
)

SAID = Path(__file__).parent / "slurm_said"
OURS = "stoker:abc:"


def said(name: str) -> bytes:
    return (SAID / name).read_bytes()


def by_id(jobs: list[Seen]) -> dict[str, Seen]:
    found = {job.id: job for job in jobs}
    assert len(found) == len(jobs), "no job is named twice"
    return found


FORMS = ("squeue-22.05.json", "squeue-24.11.json", "squeue-22.05.txt", "squeue-24.11.txt")


def jobs_in(name: str) -> dict[str, Seen]:
    read = jobs_from_json if name.endswith(".json") else jobs_from_text
    return by_id(read(said(name), OURS))


@pytest.fixture(params=FORMS)
def jobs(request: pytest.FixtureRequest) -> dict[str, Seen]:
    return jobs_in(request.param)


def test_the_tasks_of_an_array_have_their_own_ids_states_and_exit_codes(
    jobs: dict[str, Seen],
) -> None:
    assert [jobs[f"1_{index}"].exit for index in range(4)] == [Exit(code=n) for n in range(4)]
    assert [jobs[f"1_{index}"].state for index in range(2)] == ["COMPLETED", "FAILED"]
    assert jobs["1_3"].reason == "NonZeroExitCode" and jobs["1_3"].index == 3
    assert not jobs["1_3"].live


def test_tasks_that_wait_under_one_entry_are_told_apart(jobs: dict[str, Seen]) -> None:
    states = [jobs[f"6_{index}"].state for index in range(40)]
    assert states == ["RUNNING"] * 12 + ["PENDING"] * 28
    assert jobs["6_39"].reason == "Resources" and jobs["6_0"].node == "n1"
    assert jobs["6_0"].live and jobs["6_39"].live


def test_a_job_by_itself_has_no_index(jobs: dict[str, Seen]) -> None:
    assert jobs["7"].index is None and jobs["7"].reason == "BeginTime"
    assert jobs["8"].reason == "Dependency"
    assert jobs["7"].name == "waits.b1" and jobs["7"].comment == f"{OURS}b1"


def test_a_signal_is_told_from_an_exit_code(jobs: dict[str, Seen]) -> None:
    assert jobs["2"].exit == Exit(signal=9)
    assert jobs["2"].state == "FAILED", "that its node is being cleaned up says less"


def test_jobs_of_others_are_left_out(jobs: dict[str, Seen]) -> None:
    assert "9" not in jobs and len(jobs) == 4 + 40 + 4


def test_all_forms_say_the_same() -> None:
    """But for reasons, of which newer versions know more."""

    def known(name: str) -> dict[str, Seen]:
        return {key: replace(job, reason="") for key, job in jobs_in(name).items()}

    first, *others = map(known, FORMS)
    assert all(other == first for other in others)


def test_a_controller_that_was_not_reached_is_no_empty_queue() -> None:
    with pytest.raises(NoAnswer):
        jobs_from_json(said("squeue-22.05-no-controller.json"), OURS)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"jobs": 7}', b"squeue: error: no JSON"])
def test_what_is_no_answer_is_not_taken_for_one(body: bytes) -> None:
    with pytest.raises(Unreadable):
        jobs_from_json(body, OURS)


def test_text_of_another_shape_is_not_taken_for_an_answer() -> None:
    with pytest.raises(Unreadable):
        jobs_from_text(b"812|RUNNING\n", OURS)


def test_fields_that_are_missing_or_odd_are_left_unknown() -> None:
    body = b'{"jobs": [{"job_id": 5, "comment": "stoker:abc:b", "job_state": [], "exit_code": {}}]}'
    (job,) = jobs_from_json(body, OURS)
    assert (job.id, job.state, job.exit, job.node) == ("5", "UNKNOWN", None, "")
    assert job.live, "a state that can't be read is not an end"


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("0-3", [0, 1, 2, 3]),
        ("7", [7]),
        ("0-2,5,9-10%4", [0, 1, 2, 5, 9, 10]),
        ("[0-20:10]", [0, 10, 20]),
        ("0-1,...", [0, 1]),
        ("", []),
    ],
)
def test_lists_of_array_tasks_are_read(text: str, indexes: list[int]) -> None:
    assert array_indexes(text) == indexes


@pytest.mark.parametrize("indexes", [[], [3], [0, 1, 2], [5, 1, 2, 9], list(range(500))])
def test_lists_of_array_tasks_are_written_as_they_are_read(indexes: list[int]) -> None:
    assert array_indexes(indexes_text(indexes)) == sorted(indexes)


@pytest.mark.parametrize(
    ("text", "number"),
    [("812\n", 812), ("812;cluster\n", 812), ("warning: x\n812\n", 812), ("", None), ("x\n", None)],
)
def test_the_id_of_a_submission_is_read(text: str, number: int | None) -> None:
    assert submitted_id(text) == number


@pytest.mark.parametrize(("version", "release"), [("22.05", "22.05.8"), ("24.11", "24.11.5")])
def test_nodes_and_what_they_have_are_read(version: str, release: str) -> None:
    nodes = nodes_from_text(said(f"sinfo-{version}.txt").decode())
    assert nodes == (
        Nodes(1, 4, ("fake",), 16, 0, ("small",)),
        Nodes(2, 4, ("fake",), 16, 0, ("large",)),
    )
    facts = facts_from_config(said(f"config-{version}.txt").decode(), nodes)
    assert (facts.gpus, facts.types, facts.features) == (12, ("fake",), ("small", "large"))
    assert facts.parts_of_a_gpu("shard") == 4 and facts.parts_of_a_gpu("mps") is None
    assert (facts.version, facts.accounting, facts.launch_s) == (release, False, 3)
    assert facts.most_tasks == 1000, "however large arrays may be"


@pytest.mark.parametrize(
    ("line", "nodes"),
    [
        ("2|(null)|(null)", Nodes(2, 0, (), 0, 0, ())),
        ("1|gpu:8|a,b", Nodes(1, 8, (), 0, 0, ("a", "b"))),
        (
            "3|gpu:a100:2(S:0-1),gpu:v100:2(S:1),mps:400|",
            Nodes(3, 4, ("a100", "v100"), 0, 400, ()),
        ),
    ],
)
def test_resources_are_read_in_every_form(line: str, nodes: Nodes) -> None:
    assert nodes_from_text(line + "\n") == (nodes,)


def test_what_the_accounting_says_of_jobs_is_read() -> None:
    text = "812|a.b1|COMPLETED|0:0\n813_4|a.b2|CANCELLED by 0|0:15\n814|x|FAILED|3:0\n|||\n"
    assert accounted_from_text(text) == [
        Accounted("812", "a.b1", "COMPLETED", Exit(code=0)),
        Accounted("813_4", "a.b2", "CANCELLED", Exit(signal=15)),
        Accounted("814", "x", "FAILED", Exit(code=3)),
    ]


def test_an_error_of_slurms_is_told_without_the_names_of_its_programs() -> None:
    error = (
        "sbatch: error: invalid partition specified: x\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
    )
    assert in_words(error) == "invalid partition specified: x; Invalid partition name specified"
