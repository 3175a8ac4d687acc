"""What each event may do to the job that it is about: the literal table of legal moves.

The table is keyed by where the job stands *and* by the event. What is not in it is a bug, and
raises `IllegalMove` before anything is committed, with the last events of that job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.core import events as ev
from stoker.core.laws import IllegalMove
from stoker.core.model import (
    CANCELLED,
    FAILED,
    HELD,
    LOST,
    RUNNING,
    SKIPPED,
    STOPPED,
    STOPPING,
    SUBMITTED,
    SUCCEEDED,
    WAITING,
    Attempt,
    Job,
    JobState,
)

if TYPE_CHECKING:
    from stoker.core.state import State

# What a stopped attempt ends as is said by the stop, whichever event tells of the end.
_AS_STOPPED = {STOPPED, CANCELLED, FAILED, SKIPPED, WAITING}
_WHILE_ACTIVE = {SUBMITTED: {SUBMITTED}, RUNNING: {RUNNING}, STOPPING: {STOPPING}}

_BY_EVENT: dict[type[Any], dict[JobState, set[JobState]]] = {
    ev.JobHeld: {WAITING: {HELD}},
    ev.JobReleased: {HELD: {WAITING}},
    ev.JobEdited: {HELD: {HELD}, WAITING: {WAITING}},
    ev.RoomKept: {WAITING: {WAITING}},
    ev.JobCancelled: {HELD: {CANCELLED}, WAITING: {CANCELLED}},
    ev.JobSkipped: {HELD: {SKIPPED}, WAITING: {SKIPPED}},
    ev.TerminalCame: {HELD: {HELD}, WAITING: {WAITING}, **_WHILE_ACTIVE},
    ev.AttemptPlaced: {WAITING: {SUBMITTED, RUNNING}},
    ev.AttemptAccepted: _WHILE_ACTIVE,
    ev.AttemptStarted: {**_WHILE_ACTIVE, SUBMITTED: {RUNNING}},
    ev.WarningDue: _WHILE_ACTIVE,
    ev.WarningSent: _WHILE_ACTIVE,
    ev.MemorySeen: _WHILE_ACTIVE,
    ev.WorkSaved: _WHILE_ACTIVE,
    ev.ReservationChanged: _WHILE_ACTIVE,
    ev.SuspendRequested: {RUNNING: {RUNNING}},
    ev.ContinueRequested: {RUNNING: {RUNNING}},
    ev.AttemptSuspended: _WHILE_ACTIVE,
    ev.AttemptContinued: _WHILE_ACTIVE,
    ev.StopRequested: {SUBMITTED: {STOPPING}, RUNNING: {STOPPING}, STOPPING: {STOPPING}},
    ev.AttemptNotStarted: {
        SUBMITTED: {FAILED, CANCELLED, WAITING},
        RUNNING: {FAILED, CANCELLED, WAITING},
        STOPPING: _AS_STOPPED,
    },
    ev.AttemptPutBack: {SUBMITTED: {WAITING}, RUNNING: {WAITING}, STOPPING: _AS_STOPPED},
    # One that is told that its slice is over may have succeeded by then.
    ev.AttemptExited: {
        SUBMITTED: {FAILED, WAITING},
        RUNNING: {SUCCEEDED, FAILED, WAITING},
        STOPPING: _AS_STOPPED | {SUCCEEDED},
    },
    ev.AttemptCutShort: {
        SUBMITTED: {FAILED, CANCELLED, WAITING},
        RUNNING: {SUCCEEDED, FAILED, CANCELLED, WAITING},
        STOPPING: _AS_STOPPED | {SUCCEEDED},
    },
    ev.AttemptEvicted: {SUBMITTED: {WAITING}, RUNNING: {WAITING}, STOPPING: _AS_STOPPED},
    ev.AttemptVanished: {
        SUBMITTED: {WAITING},
        RUNNING: {LOST, FAILED, WAITING},
        STOPPING: _AS_STOPPED,
    },
}

MOVES: dict[tuple[JobState, type[Any]], frozenset[JobState]] = {
    (state, event): frozenset(targets)
    for event, from_states in _BY_EVENT.items()
    for state, targets in from_states.items()
}

MOST_REMEMBERED = 1_000  # events, of all jobs together
_MOST_TOLD = 10


def concerned(state: State, event: ev.OfJob) -> Job:
    """The job that an event is about, if that can happen to it as it stands."""
    state.story.append(event)
    job = state.jobs.get(event.job_id)
    if job is None or (job.state, type(event)) not in MOVES:
        where = "not in memory" if job is None else job.state
        raise illegal(state, event.job_id, f"it is {where}")
    return job


def current(state: State, event: ev.OfAttempt) -> tuple[Job, Attempt]:
    """The same for an event about an attempt, which must be the active one."""
    job = concerned(state, event)
    active = job.active
    if active is None or active.number != event.attempt:
        raise illegal(state, job.id, f"attempt {event.attempt} is not active")
    return job, active


def move(state: State, job: Job, target: JobState) -> None:
    """Let the event that is being applied move its job."""
    before = job.state
    if target not in MOVES.get((before, type(state.story[-1])), ()):
        raise illegal(state, job.id, f"{before} -> {target}")
    if before is WAITING:
        state.ready.discard(job)
        if job.kept:
            job.kept = ()
            del state.keeping[job.id]
    elif before is HELD:
        state.held_count -= 1
    if target is HELD:
        state.held_count += 1
    job.state = target
    state.change.touched[job.id] = None


def illegal(state: State, job_id: int, what: str) -> IllegalMove:
    """The error, with the last of the events that were about this job."""
    told = [f"\n  {event}" for event in state.story if event.job_id == job_id][-_MOST_TOLD:]
    return IllegalMove(f"job {job_id}: {what}; its last events:{''.join(told)}")
