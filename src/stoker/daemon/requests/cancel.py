"""`stoker cancel`: call queued jobs off, and stop active ones."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.model import Cause, Job
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import UNFINISHED, selected
from stoker.engine import Decided
from stoker.errors import Failed


def cancel(daemon: Daemon, request: msg.Cancel) -> AfterTurn:
    """Each job comes to its end from wherever it stands."""
    select, views = request.select, daemon.views

    def proposal(state: State) -> Decided:
        ids = selected(select, views, state, UNFINISHED)
        jobs = [state.jobs[job_id] for job_id in ids if job_id in state.jobs]
        if not jobs and not select.all:
            rows = views.rows(ids[:1])
            if len(ids) == 1 and rows:
                raise Failed(f"job {ids[0]} has ended already ({rows[0]['state']})", "")
            raise Failed("all of these jobs have ended already", "")
        return Decided([stop_event(state, job) for job in jobs], [job.id for job in jobs])

    return AfterTurn(proposal, "ids")


def stop_event(state: State, job: Job, cause: Cause = Cause.CANCELLED) -> ev.Event:
    """The event by which a job, wherever it stands, comes to its end."""
    if job.active is None:
        return ev.JobCancelled(state.now_ms, job.id, cause)
    return ev.StopRequested(state.now_ms, job.id, job.active.number, cause)
