"""Rows of jobs and attempts: what the state knows, as the tables have it, and back.

What most attempts have in common is in the queries themselves: to hand over a value, and more so
the lack of one, takes the driver as long as to write it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from functools import lru_cache
from typing import Any

from stoker.core.change import Change, Ended
from stoker.core.gpu import Gpu
from stoker.core.model import (
    RUNNING,
    SUCCEEDED,
    Attempt,
    Cause,
    GaveWay,
    Job,
    Memory,
    Need,
    Outcome,
    Requirement,
    Stop,
    Suspension,
    Terms,
    Warning,
)
from stoker.core.state import State
from stoker.ports import BrokenRecord

Row = tuple[Any, ...]
Batches = list[tuple[str, Sequence[Row | dict[str, Any]]]]
"""Queries by their names, each with the rows that it is run for."""

_GPU_COLUMNS = ("id", "memory_mib", "declared", "drained", "removing", "label", "vendor")
_NOT_WARNED = Warning.NONE


def ended_rows(change: Change) -> Batches:
    """Attempts and jobs that have ended, most of them with nothing to be told."""
    if not change.ended:
        return []
    placed_now = set(change.placed)
    succeeded: list[Row] = []
    succeeded_jobs: list[Row] = []
    attempts: list[Row] = []
    jobs: list[Row] = []
    for ended in change.ended:
        job, attempt = ended.job, ended.attempt
        if attempt is not None and job.id not in placed_now and _is_plain_success(ended, attempt):
            began = (attempt.placed_at_ms, attempt.started_at_ms, attempt.pid)
            succeeded.append((*began, ended.at_ms, job.id, attempt.number))
            succeeded_jobs.append((job.attempt, job.failures, ended.at_ms, job.id))
            continue
        state = ended.outcome.state._value_
        if attempt is not None:
            as_what = (ended.at_ms, state, *_ending(ended.outcome))
            attempts.append((*_attempt_row(job.id, attempt), *as_what))
        if ended.job_is_final:
            ending = _ending(ended.outcome)
            jobs.append((state, job.attempt, job.failures, ended.at_ms, *ending, job.id))
    return [
        ("succeed_attempt", succeeded),
        ("succeed_job", succeeded_jobs),
        ("end_attempt", attempts),
        ("end_job", jobs),
    ]


def standing_rows(state: State, change: Change) -> Batches:
    """Where jobs stand that are not final, and their active attempts."""
    placed: list[Row] = []
    placed_attempts: list[Row] = []
    moved: list[Row] = []
    attempts: list[Row] = []
    started: list[Row] = []
    for job_id in change.touched:
        job = state.jobs.get(job_id)
        if job is None:
            continue
        attempt = job.active
        if attempt is not None and _is_just_placed(job, attempt):
            placed.append((attempt.number, job_id))
            where = _gpus_body(attempt.gpus)
            placed_attempts.append((job_id, attempt.number, where, attempt.placed_at_ms))
            continue
        moved.append(_moved_row(job))
        if attempt is not None:
            attempts.append(_attempt_row(job_id, attempt))
    for job_id in change.started:
        if job_id not in change.touched:
            attempt = state.jobs[job_id].active
            if attempt is None:
                raise BrokenRecord(f"job {job_id} has started, and has no active attempt")
            started.append((attempt.started_at_ms, attempt.pid, job_id, attempt.number))
    return [
        ("place_job", placed),
        ("place_attempt", placed_attempts),
        ("move_job", moved),
        ("put_attempt", attempts),
        ("start_attempt", started),
    ]


def requirements_from(body: str | None) -> tuple[Requirement, ...]:
    """Requirements as they were kept."""
    if not body:
        return ()
    return tuple(Requirement(*fields) for fields in json.loads(body))


def requirements_body(requires: tuple[Requirement, ...]) -> str | None:
    """Requirements as they are kept."""
    if not requires:
        return None
    return json.dumps([_requirement_fields(r) for r in requires])


def _requirement_fields(requirement: Requirement) -> tuple[Any, ...]:
    fields = (requirement.job_id, requirement.must_succeed)
    if requirement.process is not None:
        return (*fields, None, requirement.process)
    return fields if requirement.last_id is None else (*fields, requirement.last_id)


def _moved_row(job: Job) -> Row:
    unmet = requirements_body(job.requires) if job.requires else None
    return (
        job.state._value_,
        job.backoff_until_ms,
        job.attempt,
        job.failures,
        unmet,
        job.ooms,
        job.floor_mib,
        job.mps_faults,
        job.place,
        job.resumes,
        job.stuck,
        _gave_way_body(job.gave_way),
        _gpus_body(job.kept) if job.kept else None,
        job.id,
    )


def _gave_way_body(gave_way: GaveWay | None) -> str | None:
    return None if gave_way is None else json.dumps(astuple(gave_way))


def gave_way_from(body: str | None) -> GaveWay | None:
    """What is kept of a job that gave way."""
    if body is None:
        return None
    times_ms, since_ms, for_job = json.loads(body)
    return GaveWay(tuple(times_ms), since_ms, for_job)


def kept_from(body: str | None) -> tuple[str, ...]:
    """The GPUs that are kept for a job."""
    return () if body is None else tuple(json.loads(body))


def attempt_from(row: Row) -> Attempt:
    """The attempt of a row of `active_attempt`."""
    number, gpus, placed, started, pid, place, stop_cause, stop_at, detail, warning, *kept = row[1:]
    stop = None if stop_cause is None else Stop(Cause(stop_cause), stop_at, detail or "")
    where, told = tuple(json.loads(gpus)), Warning(warning)
    *reserved, peak_mib, suspension, since, suspended_ms, suspensions = kept
    memory = None if reserved[0] is None else Memory(*reserved)
    began: Row = (number, where, placed, started, pid, place or "", stop, told, memory, peak_mib)
    attempt = Attempt(*began)
    attempt.suspension, attempt.suspended_at_ms = Suspension(suspension), since
    attempt.suspended_ms, attempt.suspensions = suspended_ms, suspensions
    return attempt


def terms_from(body: str) -> Terms:
    """The terms that were kept as JSON; those kept by an earlier version lack what came later."""
    fields: dict[str, Any] = json.loads(body)
    if "requeue_on" in fields:
        fields["requeue_on"] = tuple(fields["requeue_on"])
    return Terms(**fields)


def need_from(body: str) -> Need:
    """The need that was kept as JSON, which has lists where the value has tuples."""
    fields: dict[str, Any] = json.loads(body)
    for name in ("on", "prefer", "margin"):
        if name in fields:  # A need that was kept before there were margins has none.
            fields[name] = tuple(fields[name])
    return Need(**fields)


def gpu_row(gpu: Gpu) -> dict[str, Any]:
    """The GPU as it is kept: what it is, and not what runs on it."""
    return {name: getattr(gpu, name) for name in _GPU_COLUMNS}


def gpu_from(row: Row) -> Gpu:
    """The GPU of a row of `gpus`."""
    gpu_id, memory_mib, declared, drained, removing, label, vendor = row
    return Gpu(gpu_id, memory_mib, bool(declared), bool(drained), bool(removing), label, vendor)


@lru_cache(maxsize=1024)
def _gpus_body(gpus: tuple[str, ...]) -> str:
    return json.dumps(gpus)


_NO_MEMORY = (None, 0, 0)


def _attempt_row(job_id: int, attempt: Attempt) -> Row:
    stop = attempt.stop
    return (
        job_id,
        attempt.number,
        _gpus_body(attempt.gpus),
        attempt.placed_at_ms,
        attempt.started_at_ms,
        attempt.pid,
        attempt.place or None,
        stop.cause._value_ if stop is not None else None,
        stop.at_ms if stop is not None else None,
        (stop.detail or None) if stop is not None else None,
        attempt.warning._value_,
        *(attempt.memory or _NO_MEMORY),
        attempt.peak_mib,
        attempt.suspension._value_,
        attempt.suspended_at_ms,
        attempt.suspended_ms,
        attempt.suspensions,
    )


def _is_just_placed(job: Job, attempt: Attempt) -> bool:
    """True if only what `place_job` and `place_attempt` say is to be said."""
    return (
        job.state is RUNNING
        and attempt.started_at_ms is None
        and not (job.failures or job.requires or job.ooms or job.mps_faults or job.resumes)
        and not job.terms.urgent  # GPUs may have been kept for it.
        and job.floor_mib is None
        and job.backoff_until_ms is None
        and _is_plain(attempt)
    )


def _is_plain_success(ended: Ended, attempt: Attempt) -> bool:
    """True if only what `succeed_attempt` and `succeed_job` say is to be said."""
    return (
        ended.outcome.state is SUCCEEDED
        and ended.job_is_final
        and not ended.outcome.detail
        and attempt.started_at_ms is not None
        and _is_plain(attempt)
    )


def _is_plain(attempt: Attempt) -> bool:
    return (
        attempt.stop is None
        and attempt.memory is None
        and attempt.peak_mib is None
        and not attempt.place
        and attempt.warning is _NOT_WARNED
        and not attempt.suspensions
    )


def _ending(outcome: Outcome) -> Row:
    how = outcome.exit
    return (
        outcome.cause._value_,
        how.code if how is not None else None,
        how.signal if how is not None else None,
        outcome.detail or None,
    )
