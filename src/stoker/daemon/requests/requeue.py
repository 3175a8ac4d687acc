"""`stoker requeue` and `stoker yield`: put running jobs back into the queue, to go on later."""

from __future__ import annotations

from collections.abc import Callable

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.model import Cause, Job, JobState
from stoker.core.state import State
from stoker.daemon.requests.choosing import Change, change_each
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.errors import Failed

_GOES_ON = (JobState.RUNNING, JobState.SUBMITTED)
_INSTEAD = {
    JobState.WAITING: "it waits already",
    JobState.HELD: "`stoker release` lets it start",
    JobState.STOPPING: "it is being stopped already",
}


def requeue(daemon: Daemon, request: msg.Requeue) -> AfterTurn:
    """Each is told to stop, and waits again once its last process is gone."""
    return _put_back(daemon, request, Cause.REQUEUED, _why_not)


def give_way(daemon: Daemon, request: msg.Yield) -> AfterTurn:
    """The same for those that offered it, as if for an urgent job."""
    return _put_back(daemon, request, Cause.GAVE_WAY, _why_not_give_way)


def _put_back(
    daemon: Daemon,
    request: msg.Requeue | msg.Yield,
    cause: Cause,
    why_not: Callable[[Job], Failed | None],
) -> AfterTurn:
    def stop(state: State, job: Job) -> ev.Event:
        return ev.StopRequested(state.now_ms, job.id, job.attempt, cause)

    change = Change([one.value for one in _GOES_ON], why_not, stop)
    return change_each(daemon, request.select, change, "`stoker retry {}` queues it again")


def _why_not(job: Job) -> Failed | None:
    """Why a job that has not ended can't be put back."""
    if job.terms.adopted is not None:
        return Failed(f"job {job.id} was adopted: Stoker can't start it again", "")
    if job.state not in _GOES_ON:
        return Failed(f"job {job.id} is {job.state}", _INSTEAD[job.state])
    if job.terms.attached:
        return Failed(f"job {job.id} runs in a terminal, and can't be put back", "")
    return None


def _why_not_give_way(job: Job) -> Failed | None:
    error = _why_not(job)
    if error is not None or job.terms.preemptible:
        return error
    return Failed(
        f"job {job.id} did not offer to give way (--preemptible)",
        f"`stoker requeue {job.id}` puts it back all the same",
    )
