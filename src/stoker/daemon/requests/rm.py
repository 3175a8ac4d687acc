"""`stoker rm`: forget final jobs."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import ENDED, selected
from stoker.engine import Decided
from stoker.errors import Failed


def remove(daemon: Daemon, request: msg.Remove) -> AfterTurn:
    """Their files are deleted after the turn, a few at a time."""
    select = request.select

    def proposal(state: State) -> Decided:
        ids = selected(select, daemon.views, state, ENDED)
        alive = [job_id for job_id in ids if job_id in state.jobs]
        explicit = not (select.all or select.group or select.names or select.states)
        if alive and explicit:
            job = state.jobs[alive[0]]
            hint = f"`stoker cancel {job.id}` stops it first"
            if job.terms.adopted is not None:
                hint = f"`stoker cancel {job.id} --let-go` lets its process go first"
            raise Failed(f"job {job.id} is {job.state}, and has not ended", hint)
        gone = [job_id for job_id in ids if job_id not in state.jobs]
        if request.older_ms is not None:
            old = set(daemon.views.ended_before(state.now_ms - request.older_ms))
            gone = [job_id for job_id in gone if job_id in old]
        return Decided([ev.JobsRemoved(state.now_ms, tuple(gone))], gone)

    return AfterTurn(proposal, "ids")
