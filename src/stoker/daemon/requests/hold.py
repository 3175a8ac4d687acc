"""`stoker hold` and `stoker release`: put waiting jobs aside, and back into the queue."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.model import JobState
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import selected, state_of
from stoker.engine import Decided
from stoker.errors import Failed


def hold(daemon: Daemon, request: msg.Hold) -> AfterTurn:
    """Put waiting jobs aside."""
    return _move(daemon, request.select, JobState.WAITING, ev.JobHeld, "waits", "can be held")


def release(daemon: Daemon, request: msg.Release) -> AfterTurn:
    """Put held jobs back into the queue."""
    held = JobState.HELD
    return _move(daemon, request.select, held, ev.JobReleased, "is held", "can be released")


def _move(
    daemon: Daemon,
    select: msg.Select,
    source: JobState,
    event: type[ev.JobHeld] | type[ev.JobReleased],
    is_what: str,
    can_what: str,
) -> AfterTurn:
    views = daemon.views

    def proposal(state: State) -> Decided:
        ids = selected(select, views, state, [source.value])
        fitting = [i for i in ids if i in state.jobs and state.jobs[i].state is source]
        if not fitting and not select.all:
            one = f"job {ids[0]} is {state_of(ids[0], state, views)}"
            what = one if len(ids) == 1 else f"none of these jobs {is_what}"
            raise Failed(what, f"only a job that {is_what} {can_what}")
        return Decided([event(state.now_ms, job_id) for job_id in fitting], fitting)

    return AfterTurn(proposal, "ids")
