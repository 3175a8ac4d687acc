"""What an ended attempt amounts to: the end of its job, or another attempt and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.core.change import Ended
from stoker.core.indexes import learn, line_up, line_up_dependents, vacate
from stoker.core.learning import after_out_of_memory, after_run
from stoker.core.model import (
    CANCELLED,
    FAILED,
    LOST,
    MOST_MPS_RETRIES,
    SKIPPED,
    STOPPED,
    SUCCEEDED,
    WAITING,
    Attempt,
    Cause,
    Exit,
    Job,
    Outcome,
    Stop,
)
from stoker.core.moves import move

if TYPE_CHECKING:
    from stoker.core.state import State


BACKOFF_FIRST_MS = 1_000
BACKOFF_MOST_MS = 300_000
_DONE = Outcome(SUCCEEDED, Cause.EXIT, Exit(code=0))


def backoff_ms(failures: int) -> int:
    """How long a job waits before the attempt that follows its nth failure."""
    return min(BACKOFF_FIRST_MS << min(failures - 1, 20), BACKOFF_MOST_MS)


def judged(job: Job, stop: Stop | None, how: Exit | None) -> Outcome:
    """What an ended attempt amounts to. The exit code is never invented: it may be unknown."""
    if stop is not None and stop.cause is Cause.REQUIREMENT:
        unmet = [r.job_id for r in job.requires or () if r.must_succeed]
        return Outcome(SKIPPED, stop.cause, how, str(unmet[0]) if unmet else "")
    if stop is not None and stop.cause is Cause.STOPPED_EARLY:
        return Outcome(STOPPED, stop.cause, how, stop.detail)
    if stop is not None:
        failed = stop.cause in (Cause.TIME_LIMIT, Cause.GPU_LOST)
        state = FAILED if failed else CANCELLED
        return Outcome(state, stop.cause, how)
    assert how is not None
    return _DONE if how.ok else Outcome(FAILED, Cause.EXIT, how)


def finish(state: State, job: Job, attempt: Attempt | None, outcome: Outcome, at_ms: int) -> None:
    """The job is final: it leaves memory, and those that wait for it are told."""
    move(state, job, outcome.state)
    job_id, change = job.id, state.change
    if state.short_alone:
        state.short_alone.pop(job_id, None)
    del state.jobs[job_id]
    if state.terminals:
        state.terminals.pop(job_id, None)
    if state.unattended:
        state.unattended.pop(job_id, None)
    change.touched.pop(job_id, None)
    change.started.pop(job_id, None)
    change.ended.append(Ended(job, attempt, outcome, at_ms, True))
    for dependent in state.dependencies.ended(job, outcome.state):
        change.touched[dependent.id] = None
        line_up(state, dependent)


def end_attempt(state: State, job: Job, attempt: Attempt, outcome: Outcome, at_ms: int) -> None:
    """The last process of an attempt is gone: its job is final, or waits again."""
    succeeded = outcome.state is SUCCEEDED
    next_try = None
    if not succeeded and outcome.cause is Cause.OUT_OF_MEMORY:
        next_try = after_out_of_memory(state, job, attempt)
    elif succeeded or attempt.settled:
        learn(state, after_run(state.profiles.get(job.need.kind or ""), job, attempt, at_ms))
    vacate(state, job, attempt)
    job.active = None
    if succeeded:
        finish(state, job, attempt, outcome, at_ms)
        return
    mps_fault = outcome.cause is Cause.MPS_FAULT and job.mps_faults < MOST_MPS_RETRIES
    if next_try is not None or mps_fault:
        # Not its fault, so it costs no retry. If it lacked memory, that is mended, so nothing is
        # gained by waiting. An MPS fault is most likely a neighbour's, but a job that takes its
        # server down again and again is not let do so for ever.
        move(state, job, WAITING)
        if next_try is not None:
            job.ooms += 1
            job.floor_mib = next_try.floor_mib
            learn(state, next_try.profile)
        else:
            job.mps_faults += 1
        state.change.ended.append(Ended(job, attempt, outcome, at_ms, False))
        line_up(state, job)
        return
    may_retry = outcome.state in (FAILED, LOST) and outcome.cause is not Cause.OUT_OF_MEMORY
    if may_retry and job.failures < job.terms.retries:
        job.failures += 1
        queue_again(state, job, attempt, outcome, at_ms, job.failures)
    else:
        finish(state, job, attempt, outcome, at_ms)


def queue_again(
    state: State, job: Job, attempt: Attempt, outcome: Outcome, at_ms: int, times: int
) -> None:
    """Another attempt follows, the later the more often it went wrong."""
    move(state, job, WAITING)
    job.backoff_until_ms = state.now_ms + backoff_ms(times)
    state.change.ended.append(Ended(job, attempt, outcome, at_ms, False))
    line_up_dependents(state, job)
    line_up(state, job)
