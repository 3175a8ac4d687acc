"""`stoker cancel`: call queued jobs off, and stop active ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.foreign import ForeignProcess
from stoker.core.model import Cause, Job
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import UNFINISHED, named_by_id, selected
from stoker.engine import Decided
from stoker.errors import Failed, NotFound, UsageError


def cancel(daemon: Daemon, request: msg.Cancel) -> AfterTurn:
    """Each job comes to its end from wherever it stands."""
    select, views = request.select, daemon.views
    searches = _searches_ended(daemon, request)

    def proposal(state: State) -> Decided:
        try:
            ids = selected(select, views, state, UNFINISHED)
        except NotFound:
            if not searches:
                raise
            ids = []  # A search that has no point yet.
        jobs = [state.jobs[job_id] for job_id in ids if job_id in state.jobs]
        if not jobs and not select.all and not searches:
            rows = views.rows(ids[:1])
            if len(ids) == 1 and rows:
                raise Failed(f"job {ids[0]} has ended already ({rows[0]['state']})", "")
            raise Failed("all of these jobs have ended already", "")
        if request.let_go:
            _refuse_unless_adopted(jobs, named_by_id(select, views, state))
            return Decided([stop_event(state, job) for job in jobs], {"ids": _ids_of(jobs)})
        ours = [job for job in jobs if job.terms.adopted is None]
        adopted = [job for job in jobs if job.terms.adopted is not None]
        if adopted and not ours and not select.all:
            raise _never_killed(adopted[0])
        left_out = {_never_killed(job).message: [job.id] for job in adopted}
        told = {"left_out": left_out, "searches": searches}
        answer = {"ids": _ids_of(ours), **{key: one for key, one in told.items() if one}}
        if request.check:
            skipped = state.dependencies.skipped_without(_ids_of(ours))
            return Decided([], answer | {"skipped": skipped})
        return Decided([stop_event(state, job) for job in ours], answer)

    return AfterTurn(proposal)


def _searches_ended(daemon: Daemon, request: msg.Cancel) -> list[str]:
    """Who cancels a whole search wants no more of its points; which were under way."""
    select = request.select
    is_whole = (select.all or select.group is not None) and not (select.states or select.text)
    if request.check or request.let_go or not is_whole:
        return []
    return daemon.searches.end(None if select.all else [str(select.group)], "it was cancelled")


def _ids_of(jobs: Sequence[Job]) -> list[int]:
    """Their numbers."""
    return [job.id for job in jobs]


def _never_killed(job: Job) -> Failed:
    """Why an adopted job is not stopped, and what its user can do."""
    pid = ForeignProcess.of(job.terms.adopted or "").pid
    return Failed(
        f"job {job.id} was adopted: Stoker did not start it, and does not stop it",
        f"`kill {pid}` ends it; `stoker cancel {job.id} --let-go` frees its GPUs and lets it run",
    )


def _refuse_unless_adopted(jobs: Sequence[Job], named: Collection[int]) -> None:
    """Let go only what was meant: what is let go is not counted on its GPUs any more."""
    for job in jobs:
        if job.id not in named:
            raise UsageError(
                "--let-go is for jobs that are named by their ids", "e.g. stoker cancel 7 --let-go"
            )
        if job.terms.adopted is None:
            raise UsageError(f"job {job.id} was not adopted", "leave out --let-go to stop it")


def stop_event(state: State, job: Job, cause: Cause = Cause.CANCELLED) -> ev.Event:
    """The event by which a job, wherever it stands, comes to its end."""
    if job.active is None:
        return ev.JobCancelled(state.now_ms, job.id, cause)
    return ev.StopRequested(state.now_ms, job.id, job.active.number, cause)
