"""Whole sweeps for front ends: what was read of them, in the words that people use."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.core.model import QUEUED, JobState
from stoker.core.reasons import outcome_words, words
from stoker.core.state import State
from stoker.daemon.cluster import StandingOf, at_cluster
from stoker.daemon.show import Reasons, display_command, log_of
from stoker.store.views import outcome_of

Columns = dict[str, list[Any]]


def with_launches(columns: Columns, attempts_root: str) -> None:
    """Put commands and logs in the place of what was written down; needs no state."""
    launches = [msgspec.json.decode(body) for body in columns.pop("launch")]
    columns["command"] = [display_command(launch) for launch in launches]
    columns["log"] = [
        log_of(launch, attempts_root, job_id, attempt)
        for launch, job_id, attempt in zip(launches, columns["id"], columns["attempt"], strict=True)
    ]


def with_names_of_gpus(columns: Columns, state: State) -> None:
    """GPUs by the names that people know them by."""
    known: dict[int, list[str]] = {}
    shown = []
    for gpus in columns["gpus"]:  # Rows with the same GPUs share one list.
        name = known.get(id(gpus))
        if name is None:
            name = known[id(gpus)] = state.shown_gpus(gpus)
        shown.append(name)
    columns["gpus"] = shown


def with_reasons(columns: Columns, state: State, reasons: Reasons, standing: StandingOf) -> None:
    """Why each job stands where it does."""
    causes, details = columns.pop("cause"), columns.pop("detail")
    names = ("state", "exit_code", "signal", "ended_at_ms")
    rows = zip(*(columns[name] for name in names), causes, details, strict=True)
    columns["reason"] = [
        _reason(
            job_id,
            dict(zip((*names, "cause", "detail"), row, strict=True)),
            state,
            reasons,
            standing,
        )
        for job_id, row in zip(columns["id"], rows, strict=True)
    ]


def _reason(
    job_id: int, row: dict[str, Any], state: State, reasons: Reasons, standing: StandingOf
) -> str | None:
    outcome = outcome_of(row)
    if outcome is not None:
        return outcome_words(outcome)
    job = state.jobs.get(job_id)
    if job is None or job.state not in (*QUEUED, JobState.SUBMITTED):
        return None
    reason = reasons.of(job) if job.state in QUEUED else at_cluster(job, standing)
    return words(reason, state.now_ms)
