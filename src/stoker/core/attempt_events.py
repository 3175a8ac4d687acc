"""What happens to attempts: one function per event. Only `State.apply` calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker.core import events as ev
from stoker.core.change import Ended
from stoker.core.endings import at_time_limit, end_attempt, gives_way, judged, queue_again
from stoker.core.fit import held_reservation
from stoker.core.indexes import line_up, line_up_dependents, occupy, vacate
from stoker.core.model import (
    CANCELLED,
    FAILED,
    LOST,
    PUTS_BACK,
    RUNNING,
    STOPPING,
    SUBMITTED,
    WAITING,
    Attempt,
    Cause,
    Job,
    Outcome,
    Stop,
    Suspension,
    Warning,
)
from stoker.core.moves import concerned, current, illegal, move
from stoker.core.shortage import after_failure
from stoker.core.suspending import let_go_on, no_longer_suspended
from stoker.core.timers import is_warned_first

if TYPE_CHECKING:
    from stoker.core.state import State

_NOT_SUSPENDED = Suspension.NONE


def _attempt_placed(state: State, e: ev.AttemptPlaced) -> None:
    job = concerned(state, e)
    if e.attempt != job.attempt + 1:
        raise illegal(state, job.id, f"attempt {e.attempt} follows {job.attempt}")
    move(state, job, SUBMITTED if job.terms.executor else RUNNING)
    job.attempt = e.attempt
    job.backoff_until_ms = None
    job.goes_first = False
    job.active = Attempt(e.attempt, e.gpus, e.at_ms, memory=e.memory)
    occupy(state, job, job.active)
    state.change.placed.append(job.id)
    state.to_start[job.id] = None
    state.timers.watch(job)
    if state.short is not None and not job.terms.executor:
        state.short.try_with(job.id, state.now_ms)


def _attempt_accepted(state: State, e: ev.AttemptAccepted) -> None:
    job, attempt = current(state, e)
    if not job.terms.executor:
        raise illegal(state, job.id, "it is not a cluster's")
    attempt.place = e.place
    state.to_start.pop(job.id, None)
    state.change.touched[job.id] = None
    line_up_dependents(state, job)


def _attempt_started(state: State, e: ev.AttemptStarted) -> None:
    job, attempt = current(state, e)
    attempt.started_at_ms = e.at_ms
    attempt.pid = e.pid
    state.to_start.pop(job.id, None)
    if state.short_alone:
        state.short_alone.pop(job.id, None)
    short = state.short
    if short is not None and not job.terms.executor and attempt.placed_at_ms > short.since_ms:
        state.short = None  # One that was tried since a start failed has started.
    if job.terms.executor:
        attempt.place = e.place or attempt.place
        state.change.begun.append(job.id)
        state.change.touched[job.id] = None
    else:
        state.change.started[job.id] = None
    if attempt.suspension is not _NOT_SUSPENDED:
        state.change.touched[job.id] = None  # More than that is to be saved of it.
    if job.state is SUBMITTED:
        move(state, job, RUNNING)
    state.timers.watch(job)
    line_up_dependents(state, job)


def _attempt_put_back(state: State, e: ev.AttemptPutBack) -> None:
    job, attempt = current(state, e)
    if e.alone:
        known = state.short_alone.get(job.id)
        if known is not None:
            known.trial = job.id
        short = after_failure(known, e.what, job.id, state.now_ms)
        state.short_alone[job.id] = short
    else:
        state.short = after_failure(state.short, e.what, job.id, state.now_ms)
    if attempt.stop is not None:
        end_attempt(state, job, attempt, judged(job, attempt.stop, None), e.at_ms)
        return
    no_longer_suspended(attempt, e.at_ms)
    vacate(state, job, attempt)
    job.active = None
    move(state, job, WAITING)
    if e.alone:
        job.backoff_until_ms = state.short_alone[job.id].until_ms
    if e.spent:
        outcome = Outcome(FAILED, Cause.SHORTAGE, detail=e.what)
        state.change.ended.append(Ended(job, attempt, outcome, e.at_ms, False))
    else:
        job.attempt -= 1
        state.change.put_back.append((job.id, e.attempt))
    line_up(state, job)


def _attempt_not_started(state: State, e: ev.AttemptNotStarted) -> None:
    job, attempt = current(state, e)
    if state.short is not None:
        state.short.says_nothing(job.id, state.now_ms)
    outcome = Outcome(FAILED, e.cause, detail=e.why)
    if attempt.stop is not None and attempt.stop.cause is not Cause.TIME_LIMIT:
        outcome = judged(job, attempt.stop, None)
    elif e.cause is Cause.TERMINAL_GONE:
        outcome = Outcome(CANCELLED, e.cause, detail=e.why)
    end_attempt(state, job, attempt, outcome, e.at_ms)


def _attempt_exited(state: State, e: ev.AttemptExited) -> None:
    job, attempt = current(state, e)
    outcome = judged(job, attempt.stop, e.exit)
    if outcome.state is FAILED and outcome.cause is Cause.EXIT:
        if e.gpu_lost:
            outcome = replace(outcome, cause=Cause.GPU_LOST)
        elif e.mps_fault:
            outcome = replace(outcome, cause=Cause.MPS_FAULT)
        elif e.out_of_memory:
            outcome = replace(outcome, cause=Cause.OUT_OF_MEMORY)
    end_attempt(state, job, attempt, outcome, e.at_ms, e.progressed)


def _attempt_cut_short(state: State, e: ev.AttemptCutShort) -> None:
    job, attempt = current(state, e)
    if attempt.stop is not None:
        outcome = judged(job, attempt.stop, e.exit)
    else:
        ended_as = CANCELLED if e.cause is Cause.CANCELLED else FAILED
        outcome = Outcome(ended_as, e.cause, e.exit, e.why)
        if e.cause is Cause.TIME_LIMIT and job.terms.is_sliced_there:
            outcome = judged(job, Stop(Cause.SLICE, e.at_ms), e.exit)
        elif e.cause is Cause.TIME_LIMIT:
            outcome = at_time_limit(job.terms, e.exit)
    end_attempt(state, job, attempt, outcome, e.at_ms, e.progressed)


def _attempt_evicted(state: State, e: ev.AttemptEvicted) -> None:
    job, attempt = current(state, e)
    if attempt.stop is not None:
        end_attempt(state, job, attempt, judged(job, attempt.stop, None), e.at_ms)
        return
    vacate(state, job, attempt)
    job.active = None
    outcome = Outcome(FAILED, e.cause, detail=e.why)
    # It is not the job's fault, so it does not count against its retries.
    queue_again(state, job, attempt, outcome, e.at_ms, job.attempt - job.failures)


def _attempt_vanished(state: State, e: ev.AttemptVanished) -> None:
    job, attempt = current(state, e)
    lost_as = WAITING if job.terms.requeue else LOST
    outcome = Outcome(lost_as, Cause.NO_TRACE, detail=e.why)
    if attempt.stop is not None:
        # It was being stopped and it is gone: that is what was asked for.
        outcome = judged(job, attempt.stop, None)
    end_attempt(state, job, attempt, outcome, e.at_ms, e.progressed)


def _stop_requested(state: State, e: ev.StopRequested) -> None:
    job, attempt = current(state, e)
    if attempt.stop is not None:
        # A user's request counts for more than a time limit or a requirement: no retry follows.
        # And whatever ends the job counts for more than what would put it back.
        was_to_go_on = attempt.stop.cause in PUTS_BACK
        if e.cause is Cause.CANCELLED or (was_to_go_on and e.cause not in PUTS_BACK):
            if was_to_go_on:
                attempt.stop.at_ms = e.at_ms  # It may have been sent no more than its own signal.
                state.to_warn.pop(job.id, None)
                state.timers.watch(job)
            attempt.stop.cause, attempt.stop.detail = e.cause, e.detail
            state.change.touched[job.id] = None
        return
    move(state, job, STOPPING)
    let_go_on(state, job, attempt, e.at_ms)  # It could not heed any signal otherwise.
    attempt.stop = Stop(e.cause, e.at_ms, e.detail)
    state.stopping[job.id] = None
    state.past_slice.pop(job.id, None)
    if e.cause is Cause.GAVE_WAY and e.detail:
        gives_way(job, state.now_ms)
    if is_warned_first(job) and attempt.warning is not Warning.SENT:
        attempt.warning = Warning.DUE
        state.to_warn[job.id] = None
    else:
        state.to_warn.pop(job.id, None)
    state.timers.watch(job)
    line_up_dependents(state, job)


def _warning_due(state: State, e: ev.WarningDue) -> None:
    job, attempt = current(state, e)
    if attempt.stop is not None:
        return  # It is told to end anyway.
    attempt.warning = Warning.DUE
    state.to_warn[job.id] = None
    state.change.touched[job.id] = None


def _warning_sent(state: State, e: ev.WarningSent) -> None:
    job, attempt = current(state, e)
    attempt.warning = Warning.SENT
    state.to_warn.pop(job.id, None)
    state.change.touched[job.id] = None


def _memory_seen(state: State, e: ev.MemorySeen) -> None:
    job, attempt = current(state, e)
    if e.grew or attempt.peak_at_ms is None:
        attempt.peak_at_ms = e.at_ms
    attempt.peak_mib = max(e.peak_mib, attempt.peak_mib or 0)
    _hold_anew(state, job, attempt)
    if e.settled != attempt.settled:
        attempt.settled = e.settled
        state.change.touched[e.job_id] = None


def _work_saved(state: State, e: ev.WorkSaved) -> None:
    _, attempt = current(state, e)
    attempt.saved_at_ms = e.saved_at_ms


def _reservation_changed(state: State, e: ev.ReservationChanged) -> None:
    job, attempt = current(state, e)
    attempt.memory = e.memory
    _hold_anew(state, job, attempt)
    state.change.touched[job.id] = None


def _hold_anew(state: State, job: Job, attempt: Attempt) -> None:
    for gpu_id in attempt.gpus:
        gpu = state.gpus[gpu_id]
        gpu.held_by[job.id] = held_reservation(job.need, attempt, gpu)


HANDLERS: dict[type[Any], Callable[[State, Any], None]] = {
    ev.AttemptPlaced: _attempt_placed,
    ev.AttemptAccepted: _attempt_accepted,
    ev.AttemptStarted: _attempt_started,
    ev.AttemptNotStarted: _attempt_not_started,
    ev.AttemptPutBack: _attempt_put_back,
    ev.AttemptExited: _attempt_exited,
    ev.AttemptCutShort: _attempt_cut_short,
    ev.AttemptEvicted: _attempt_evicted,
    ev.AttemptVanished: _attempt_vanished,
    ev.StopRequested: _stop_requested,
    ev.WarningDue: _warning_due,
    ev.WarningSent: _warning_sent,
    ev.MemorySeen: _memory_seen,
    ev.WorkSaved: _work_saved,
    ev.ReservationChanged: _reservation_changed,
}
