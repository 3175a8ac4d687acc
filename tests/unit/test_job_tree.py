"""`stoker ls --tree`: each job below one that it waits for, and the others named."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from stoker.text import terminal
from stoker.text.terminal import width_of
from stoker.text.tree import job_tree


def job(job_id: int, state: str = "waiting", *, name: str = "", **more: Any) -> dict[str, Any]:
    return {"id": job_id, "state": state, "name": name or None, "command": f"run {job_id}", **more}


@pytest.fixture(autouse=True)
def unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))


def drawn(*jobs: dict[str, Any]) -> list[str]:
    return [" ".join(line.split()) for line in job_tree(list(jobs)).splitlines()[1:]]


def test_a_skipped_job_is_drawn_once_below_the_one_that_failed() -> None:
    skipped = "job 2, which it needs, ended as failed"
    lines = job_tree([
        job(4, "skipped", after=[2, 3], reason=skipped),
        job(1, "succeeded"),
        job(2, "failed", after=[1], exit_code=1),
        job(3, "running", after=[1]),
        job(5, "skipped", after=[4]),
    ])  # fmt: skip
    assert lines.splitlines() == [
        "JOB         NAME   STATE      NOTE",
        "1           run 1  succeeded",
        "├─ 2        run 2  failed     exit code 1",
        "│  └─ 4     run 4  skipped    also after 3",
        "│     └─ 5  run 5  skipped",
        "└─ 3        run 3  running",
    ]


def test_jobs_that_the_list_leaves_out_are_named() -> None:
    assert drawn(job(7, after=[3], after_any=[4, 5, 6], reason="waits for job 3 to succeed")) == [
        "7 run 7 waiting after 3, after any end of 4-6; waits for job 3 to succeed"
    ]
    assert drawn(job(2, "failed"), job(9, "running", after_any=[2])) == [
        "2 run 2 failed",
        "└─ 9 run 9 running after any end of 2",
    ]


def test_what_is_drawn_is_not_said_again_but_other_reasons_are() -> None:
    assert drawn(
        job(1, "running"),
        job(2, after=[1], reason="waits for job 1 to succeed"),
        job(3, "held", after=[1], reason="held; `stoker release` lets it go"),
    ) == [
        "1 run 1 running",
        "├─ 2 run 2 waiting",
        "└─ 3 run 3 held held; `stoker release` lets it go",
    ]


def test_a_range_of_required_jobs_leads_to_the_one_that_failed_or_to_the_last() -> None:
    states = {1: "succeeded", 2: "lost", 3: "succeeded"}
    jobs = [job(one, state) for one, state in states.items()]
    assert drawn(*jobs, job(4, "skipped", after=["1-3"]))[2] == "└─ 4 run 4 skipped after 1-3"
    assert drawn(*jobs, job(4, after_any=["1-3"]))[3].startswith("└─ 4 run 4 waiting after any")


def test_hostile_names_stay_in_their_line_and_in_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    text = job_tree([
        job(1, name="a\n\x1b[31mred\x07" * 9), job(2, name="名前" * 90, after=[1], reason="r" * 99),
    ])  # fmt: skip
    lines = text.splitlines()
    assert len(lines) == 3 and all(line.isprintable() for line in lines)
    assert max(map(width_of, lines)) <= 80


def test_into_a_pipe_a_huge_command_makes_no_wide_rows() -> None:
    text = job_tree([job(1), {**job(2, after=[1]), "command": "python -c " + "x" * 120_000}])
    assert max(map(len, text.splitlines())) < 250
    assert "python -c xxx" in text


def test_without_unicode_branches_are_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert drawn(job(1), job(2, after=[1]), job(3, after=[1])) == [
        "1 run 1 waiting", "|- 2 run 2 waiting", "`- 3 run 3 waiting",
    ]  # fmt: skip


def test_a_chain_of_thousands_is_drawn_in_full_and_stays_narrow() -> None:
    jobs = [job(one, after=[one - 1] if one > 1 else []) for one in range(1, 5001)]
    lines = job_tree(jobs).splitlines()
    assert len(lines) == 5001
    assert max(map(len, lines)) < 80
    assert lines[-1].split("waiting")[1].strip() == "after 4999", "what is not drawn is named"


def test_deep_jobs_can_be_told_apart_by_their_names_in_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "terminal_width", lambda: 80)
    jobs = [
        job(one, name=f"experiment-with-resnet50-on-imagenet-seed-{one}", after=[one - 1],
            reason=f"waits for job {one - 1} to succeed")
        for one in range(101, 113)
    ]  # fmt: skip
    lines = job_tree(jobs).splitlines()[1:]
    assert all(width_of(line) <= 80 for line in lines)
    for one, line in zip(range(101, 113), lines, strict=True):
        assert "experiment" in line and f"{str(one)[-2:]}  waiting" in line
    assert lines[-1].endswith("waiting  after 111"), "and said once"


def test_the_deepest_job_that_is_drawn_is_not_named_and_the_next_one_is() -> None:
    lines = drawn(*(job(one, after=[one - 1] if one > 1 else []) for one in range(1, 11)))
    assert lines[8:] == ["└─ 9 run 9 waiting", "└─ 10 run 10 waiting after 9"]


def test_jobs_in_a_ring_are_shown_nonetheless() -> None:
    assert len(drawn(job(1, after=[2]), job(2, after=[1]))) == 2
