"""What users do with jobs: one function per event. Only `State.apply` calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stoker.core import events as ev
from stoker.core.endings import finish
from stoker.core.indexes import each_of, index, line_up
from stoker.core.laws import IllegalMove
from stoker.core.model import CANCELLED, HELD, SKIPPED, WAITING, Cause, Job, Outcome
from stoker.core.moves import concerned, illegal, move
from stoker.core.order import with_run_kinds
from stoker.core.ready import Cohort, by_priority

if TYPE_CHECKING:
    from stoker.core.state import State


def _job_submitted(state: State, e: ev.JobSubmitted) -> None:
    _, job_id, need, terms, priority, group, not_before_ms, requires, held, _ = e
    if job_id < state.next_job_id:
        raise IllegalMove(f"job id {job_id} was given before")
    state.next_job_id = job_id + 1
    state.change.submitted.append(e)
    _note_arrival(state, job_id, e.at_ms)
    if held or requires or not_before_ms is not None or terms.attached:
        job = Job(job_id, need, terms, priority, group, HELD if held else WAITING)
        job.not_before_ms, job.requires = not_before_ms, requires or None
        state.jobs[job_id] = job
        index(state, job)
        return
    # The usual job only wants room, and there may be a hundred thousand of them at once.
    if group is not None and group not in state.groups:
        state.group_of(group)
    state.jobs.add_to(state.ready.add_new(job_id, need, terms, priority, group), job_id)


def _jobs_submitted(state: State, e: ev.JobsSubmitted) -> None:
    ids, group = e.ids, e.group
    if not ids or ids[0] < state.next_job_id:
        raise IllegalMove(f"the job ids {ids} were given before")
    state.next_job_id = ids[-1] + 1
    state.change.submitted_together.append(e)
    _note_arrival(state, ids[0], e.at_ms)
    if group is not None:
        state.group_of(group)
    terms_of = with_run_kinds(e.need, e.terms, e.kinds)
    told_apart = list(zip(e.priorities, e.kinds, strict=True))
    for (priority, kind), some in by_priority(ids, told_apart).items():
        terms = terms_of[kind]
        cohort = Cohort(e.need, terms, priority, group, some)
        if terms.attached:
            for job in each_of(cohort):
                state.jobs[job.id] = job
                line_up(state, job)
            continue
        state.ready.add_cohort(cohort)
        state.jobs.add_cohort(cohort)


def _note_arrival(state: State, job_id: int, at_ms: int) -> None:
    minute = state.order.came(job_id, at_ms)
    if minute is not None:
        state.change.arrivals.append((job_id, minute))


def _submission_taken(state: State, e: ev.SubmissionTaken) -> None:
    state.change.submissions.append(e)


def _job_retried(state: State, e: ev.JobRetried) -> None:
    if e.job_id in state.jobs:
        raise illegal(state, e.job_id, "it is not final, and was retried")
    job = Job(e.job_id, e.need, e.terms, e.priority, e.group)
    job.attempt, job.resumes = e.attempt, e.resumes
    job.requires = e.requires or None
    state.jobs[job.id] = job
    state.change.touched[job.id] = None
    state.change.retried.append(job.id)
    state.dependencies.barriers.retried(job.id)
    index(state, job)


def _job_held(state: State, e: ev.JobHeld) -> None:
    move(state, concerned(state, e), HELD)


def _job_released(state: State, e: ev.JobReleased) -> None:
    job = concerned(state, e)
    move(state, job, WAITING)
    line_up(state, job)


def _job_edited(state: State, e: ev.JobEdited) -> None:
    job = concerned(state, e)
    state.ready.discard(job)
    if job.need != e.need:
        job.ooms, job.floor_mib = 0, None
    job.need, job.terms = e.need, e.terms
    job.kept = ()
    state.keeping.pop(job.id, None)
    if not e.terms.attached:
        state.terminals.pop(job.id, None)
        state.unattended.pop(job.id, None)
    job.priority, job.group, job.not_before_ms = e.priority, e.group, e.not_before_ms
    if job.group is not None:
        state.group_of(job.group)
    state.change.touched[job.id] = None
    state.change.edited.append(e)
    line_up(state, job)


def _room_kept(state: State, e: ev.RoomKept) -> None:
    job = concerned(state, e)
    job.kept = e.gpus
    if e.gpus:
        state.keeping[job.id] = None
    else:
        state.keeping.pop(job.id, None)
    state.change.touched[job.id] = None


def _job_cancelled(state: State, e: ev.JobCancelled) -> None:
    finish(state, concerned(state, e), None, Outcome(CANCELLED, e.cause), e.at_ms)


def _job_skipped(state: State, e: ev.JobSkipped) -> None:
    detail = f"{e.requirement} {e.requirement_state}"
    outcome = Outcome(SKIPPED, Cause.REQUIREMENT, detail=detail)
    finish(state, concerned(state, e), None, outcome, e.at_ms)


def _jobs_removed(state: State, e: ev.JobsRemoved) -> None:
    for job_id in e.job_ids:
        if job_id in state.jobs:
            raise illegal(state, job_id, "it is not final, and was removed")
        state.change.removed.append(job_id)


def _terminal_came(state: State, e: ev.TerminalCame) -> None:
    job = concerned(state, e)
    if not job.terms.attached:
        raise illegal(state, job.id, "it runs in no terminal")
    state.terminals[job.id] = None
    state.unattended.pop(job.id, None)
    line_up(state, job)


def _terminal_left(state: State, e: ev.TerminalLeft) -> None:
    state.terminals.pop(e.job_id, None)
    job = state.jobs.get(e.job_id)
    if job is not None:
        state.ready.discard(job)
        line_up(state, job)


def _process_ended(state: State, e: ev.ProcessEnded) -> None:
    for job in state.dependencies.process_ended(e.process):
        state.change.touched[job.id] = None
        line_up(state, job)


HANDLERS: dict[type[Any], Callable[[State, Any], None]] = {
    ev.JobSubmitted: _job_submitted,
    ev.JobsSubmitted: _jobs_submitted,
    ev.SubmissionTaken: _submission_taken,
    ev.JobRetried: _job_retried,
    ev.JobHeld: _job_held,
    ev.JobReleased: _job_released,
    ev.JobEdited: _job_edited,
    ev.RoomKept: _room_kept,
    ev.JobCancelled: _job_cancelled,
    ev.JobSkipped: _job_skipped,
    ev.JobsRemoved: _jobs_removed,
    ev.TerminalCame: _terminal_came,
    ev.TerminalLeft: _terminal_left,
    ev.ProcessEnded: _process_ended,
}
