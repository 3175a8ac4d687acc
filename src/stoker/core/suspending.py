"""Attempts whose processes are stopped for a while, by order of their users, and then go on.

An attempt that is suspended keeps what it has: its GPUs, its memory, its place. But it does not
run, so whatever counts how long it runs stands still: its time limit, its slice, what is learned.
Whether its processes are stopped is for the executor to say; what is done to them by hand is not
looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stoker.core import events as ev
from stoker.core.model import Attempt, Job, Suspension
from stoker.core.moves import current

if TYPE_CHECKING:
    from stoker.core.state import State


def suspended_for_ms(attempt: Attempt, now_ms: int) -> int:
    """How long an attempt has been suspended this time; 0 if it is not."""
    since_ms = attempt.suspended_at_ms
    if since_ms is None or attempt.started_at_ms is None:
        return 0  # Before it had a process there was nothing to suspend.
    return max(0, now_ms - max(since_ms, attempt.started_at_ms))


def ran_ms(attempt: Attempt, now_ms: int) -> int:
    """How long an attempt has run until now, without the time for which it was suspended."""
    if attempt.started_at_ms is None:
        return 0
    stood_ms = attempt.suspended_ms + suspended_for_ms(attempt, now_ms)
    return max(0, now_ms - attempt.started_at_ms - stood_ms)


def no_longer_suspended(attempt: Attempt, at_ms: int) -> None:
    """It goes on, or is over: all that counts how long it runs goes on where it stood."""
    stood_ms = suspended_for_ms(attempt, at_ms)
    if stood_ms and attempt.peak_at_ms is not None:
        attempt.peak_at_ms += min(stood_ms, max(0, at_ms - attempt.peak_at_ms))
    attempt.suspended_at_ms, attempt.suspension = None, Suspension.NONE
    attempt.suspended_ms += stood_ms


def let_go_on(state: State, job: Job, attempt: Attempt, at_ms: int) -> None:
    """Its processes are to be continued: its user wants it, or it is told to end and must hear."""
    if attempt.suspended_at_ms is None:
        return
    no_longer_suspended(attempt, at_ms)
    attempt.suspension = Suspension.ENDS
    state.suspending[job.id] = None
    state.change.touched[job.id] = None


def _suspend_requested(state: State, e: ev.SuspendRequested) -> None:
    job, attempt = current(state, e)
    if attempt.suspended_at_ms is not None:
        return
    attempt.suspended_at_ms, attempt.suspension = e.at_ms, Suspension.BEGINS
    attempt.suspensions += 1
    state.suspending[job.id] = None
    state.past_slice.pop(job.id, None)
    state.change.touched[job.id] = None


def _continue_requested(state: State, e: ev.ContinueRequested) -> None:
    job, attempt = current(state, e)
    let_go_on(state, job, attempt, e.at_ms)
    state.timers.watch(job)


def _attempt_suspended(state: State, e: ev.AttemptSuspended) -> None:
    _come_true(state, e, Suspension.BEGINS, Suspension.LASTS)


def _attempt_continued(state: State, e: ev.AttemptContinued) -> None:
    _come_true(state, e, Suspension.ENDS, Suspension.NONE)


def _come_true(
    state: State,
    e: ev.AttemptSuspended | ev.AttemptContinued,
    ordered: Suspension,
    reached: Suspension,
) -> None:
    _, attempt = current(state, e)
    if attempt.suspension is ordered and attempt.suspensions == e.nth:
        attempt.suspension = reached
        del state.suspending[e.job_id]
        state.change.touched[e.job_id] = None


HANDLERS: dict[type[Any], Callable[[State, Any], None]] = {
    ev.SuspendRequested: _suspend_requested,
    ev.ContinueRequested: _continue_requested,
    ev.AttemptSuspended: _attempt_suspended,
    ev.AttemptContinued: _attempt_continued,
}
