"""What an ended attempt amounts to: the end of its job, or another attempt and when."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.core.change import Ended
from stoker.core.indexes import learn, learn_run_time, line_up, line_up_dependents, vacate
from stoker.core.learning import after_out_of_memory, after_run
from stoker.core.model import (
    CANCELLED,
    FAILED,
    FRONT,
    LOST,
    MOST_MPS_RETRIES,
    PLACE_BITS,
    PUTS_BACK,
    SKIPPED,
    STOPPED,
    SUCCEEDED,
    WAITING,
    Attempt,
    Cause,
    Exit,
    GaveWay,
    Job,
    Outcome,
    Stop,
    Terms,
)
from stoker.core.moves import move
from stoker.core.suspending import no_longer_suspended, ran_ms
from stoker.core.timers import HOUR_MS

if TYPE_CHECKING:
    from stoker.core.state import State


BACKOFF_FIRST_MS = 1_000
BACKOFF_MOST_MS = 300_000
SIGKILL, SIGTERM = 9, 15
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
        if stop.cause in PUTS_BACK:
            return _after_our_signal(job.terms, stop, how)
        if stop.cause is Cause.TIME_LIMIT:
            return at_time_limit(job.terms, how)
        state = FAILED if stop.cause is Cause.GPU_LOST else CANCELLED
        return Outcome(state, stop.cause, how)
    assert how is not None
    if how.ok:
        return _DONE
    again = job.terms.requeue_on and how.code in job.terms.requeue_on
    return Outcome(WAITING if again else FAILED, Cause.EXIT, how)


def at_time_limit(terms: Terms, how: Exit | None) -> Outcome:
    """What the end of an attempt amounts to that was told to stop at its time limit."""
    again = how is not None and how.code in terms.requeue_on
    return Outcome(WAITING if again else FAILED, Cause.TIME_LIMIT, how)


def _after_our_signal(terms: Terms, stop: Stop, how: Exit | None) -> Outcome:
    """The same for one that was told to stop so that its job can be put back.

    One that was done has succeeded. Who had caught the signal and then failed has failed, unless
    its user has asked for this very end.
    """
    if how is not None and how.ok:
        return _DONE
    put_back = Outcome(WAITING, stop.cause, how, stop.detail)
    if how is None or stop.cause is Cause.REQUEUED or how.code in terms.requeue_on:
        return put_back
    # A shell tells of a child that was ended by a signal with an exit code above 128.
    number = (how.code or 0) - 128 if how.signal is None else how.signal
    if number in (SIGTERM, SIGKILL, terms.signal):
        return put_back
    told = "after its slice was over"
    if stop.cause is Cause.GAVE_WAY:
        told = "after it was told to give way" + (f" for job {stop.detail}" if stop.detail else "")
    return Outcome(FAILED, Cause.EXIT, how, told)


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


def end_attempt(
    state: State,
    job: Job,
    attempt: Attempt,
    outcome: Outcome,
    at_ms: int,
    progressed: bool = True,
) -> None:
    """The last process of an attempt is gone: its job is final, or waits again.

    `progressed`: it has brought its job further than it was, in case that is put back.
    """
    succeeded = outcome.state is SUCCEEDED
    next_try = None
    no_longer_suspended(attempt, at_ms)
    if attempt.gpus:
        state.change.usage[state.order.charge(job, attempt)] = None
        if succeeded and job.terms.run_kind and not job.resumes:
            learn_run_time(state, job, ran_ms(attempt, at_ms))
    if not succeeded and outcome.cause is Cause.OUT_OF_MEMORY:
        next_try = after_out_of_memory(state, job, attempt)
    elif succeeded or (attempt.settled and outcome.state is not WAITING):
        learn(state, after_run(state.profiles.get(job.need.kind or ""), job, attempt, at_ms))
    vacate(state, job, attempt)
    job.active = None
    if job.gave_way is not None:
        job.gave_way = GaveWay(job.gave_way.times_ms)  # It has had its turn.
    if succeeded:
        finish(state, job, attempt, outcome, at_ms)
        return
    if outcome.state is WAITING:
        _put_back(state, job, attempt, outcome, at_ms, progressed)
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


def _put_back(
    state: State, job: Job, attempt: Attempt, outcome: Outcome, at_ms: int, progressed: bool
) -> None:
    """It goes on later: no failure, no retry spent, no back-off; others keep waiting for it.

    But one that makes no progress would go on for ever. What its user asks for by hand is no sign
    of that, nor is what an urgent job asks for, which may come at any moment.
    """
    if progressed:
        job.stuck = 0
    elif outcome.cause not in (Cause.REQUEUED, Cause.GAVE_WAY):
        job.stuck += 1
        if job.stuck == job.terms.stuck_after:
            stuck = Outcome(FAILED, Cause.STUCK, outcome.exit, str(job.stuck))
            finish(state, job, attempt, stuck, at_ms)
            return
    move(state, job, WAITING)
    job.resumes += 1
    for_job = int(outcome.detail) if outcome.cause is Cause.GAVE_WAY and outcome.detail else None
    if for_job is not None and job.gave_way is not None:
        job.gave_way = replace(job.gave_way, since_ms=at_ms, for_job=for_job)
    if not job.terms.keep_place and for_job is not None:
        job.place = FRONT
    elif not job.terms.keep_place:
        job.place = state.last_place = next_place(state)
    state.change.ended.append(Ended(job, attempt, outcome, at_ms, False))
    line_up_dependents(state, job)
    line_up(state, job)


def gives_way(job: Job, now_ms: int) -> None:
    """It was told to, for an urgent job: that is counted, for an hour."""
    known = job.gave_way or GaveWay()
    times_ms = (*(at_ms for at_ms in known.times_ms if at_ms > now_ms - HOUR_MS), now_ms)
    job.gave_way = replace(known, times_ms=times_ms)


def next_place(state: State) -> int:
    """Behind all that are there now, also those that were put back before; see Job.rank."""
    behind_the_newest = (state.next_job_id - 1 << PLACE_BITS) + 1
    return max(behind_the_newest, state.last_place + 1)
