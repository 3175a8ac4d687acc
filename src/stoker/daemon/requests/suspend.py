"""`stoker suspend` and `stoker resume ID`: stop the processes of running jobs, let them go on."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.foreign import ForeignProcess
from stoker.core.model import Job, JobState
from stoker.core.state import State
from stoker.daemon.requests.choosing import Change, change_each
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.errors import Failed

_RUNNING = [JobState.RUNNING.value]
_INSTEAD = {
    JobState.WAITING: "`stoker hold {}` keeps it from starting",
    JobState.HELD: "it does not start until `stoker release {}`",
    JobState.STOPPING: "it ends, or its grace time does",
}


def suspend(daemon: Daemon, request: msg.Suspend) -> AfterTurn:
    """All their processes are stopped; they keep their GPUs, and their time limits stand still."""
    return change_each(daemon, request.select, Change(_RUNNING, _why_not, _suspended))


def resume_jobs(daemon: Daemon, request: msg.ResumeJobs) -> AfterTurn:
    """Those that are suspended go on."""
    change = Change(_RUNNING, _why_not_resumed, continued, is_suspended)
    return change_each(daemon, request.select, change)


def is_suspended(job: Job) -> bool:
    """Whether its processes are to stand still."""
    return job.active is not None and job.active.suspended_at_ms is not None


def continued(state: State, job: Job) -> ev.Event:
    """The event by which a suspended job goes on."""
    return ev.ContinueRequested(state.now_ms, job.id, job.attempt)


def _suspended(state: State, job: Job) -> ev.Event:
    return ev.SuspendRequested(state.now_ms, job.id, job.attempt)


def _why_not(job: Job) -> Failed | None:
    """Why a job that has not ended can't be suspended."""
    if job.terms.adopted is not None:
        pid = ForeignProcess.of(job.terms.adopted).pid
        return Failed(
            f"job {job.id} was adopted: Stoker did not start it, and sends it no signals",
            f"`kill -STOP {pid}` stops it, `kill -CONT {pid}` lets it go on",
        )
    if job.terms.executor and job.active is not None:
        return Failed(
            f"job {job.id} is with Slurm, which lets only its operators suspend jobs",
            f"`stoker requeue {job.id}` frees its place, if it can go on where it stopped",
        )
    if job.state is not JobState.RUNNING:
        return Failed(f"job {job.id} is {job.state}", _INSTEAD[job.state].format(job.id))
    if job.terms.attached:
        return Failed(
            f"job {job.id} runs in a terminal", "Ctrl-Z there stops it, and `fg` lets it go on"
        )
    if is_suspended(job):
        return Failed(
            f"job {job.id} is suspended already", f"`stoker resume {job.id}` lets it go on"
        )
    return None


def _why_not_resumed(job: Job) -> Failed | None:
    if is_suspended(job):
        return None
    return Failed(
        f"job {job.id} is not suspended: it is {job.state}",
        "`stoker resume` without ids lets the queue go on",
    )
