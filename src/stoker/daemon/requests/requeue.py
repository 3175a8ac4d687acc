"""`stoker requeue`: put running jobs back into the queue, to go on later."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.model import Cause, Job, JobState
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import ENDED, selected, state_of
from stoker.engine import Decided
from stoker.errors import Failed

_GOES_ON = (JobState.RUNNING, JobState.SUBMITTED)
_INSTEAD = {
    JobState.WAITING: "it waits already",
    JobState.HELD: "`stoker release` lets it start",
    JobState.STOPPING: "it is being stopped already",
}


def requeue(daemon: Daemon, request: msg.Requeue) -> AfterTurn:
    """Each is told to stop, and waits again once its last process is gone."""
    select, views = request.select, daemon.views

    def proposal(state: State) -> Decided:
        ids = selected(select, views, state, [one.value for one in _GOES_ON])
        chosen: list[Job] = []
        left_out: dict[str, list[int]] = {}
        refusal: Failed | None = None
        for job_id in ids:
            error = _why_not(state, job_id) or _ended(job_id, state_of(job_id, state, views))
            if error is None:
                chosen.append(state.jobs[job_id])
            else:
                refusal = refusal or error
                left_out.setdefault(error.message, []).append(job_id)
        if refusal is not None and not chosen and not select.all:
            raise refusal
        events: list[ev.Event] = [
            ev.StopRequested(state.now_ms, job.id, job.attempt, Cause.REQUEUED) for job in chosen
        ]
        answer = {"ids": [job.id for job in chosen], **({"left_out": left_out} if left_out else {})}
        return Decided(events, answer)

    return AfterTurn(proposal)


def _why_not(state: State, job_id: int) -> Failed | None:
    """Why a job that has not ended can't be put back."""
    job = state.jobs.get(job_id)
    if job is None:
        return None
    if job.terms.adopted is not None:
        return Failed(f"job {job_id} was adopted: Stoker can't start it again", "")
    if job.state not in _GOES_ON:
        return Failed(f"job {job_id} is {job.state}", _INSTEAD[job.state])
    if job.terms.attached:
        return Failed(f"job {job_id} runs in a terminal, and can't be put back", "")
    return None


def _ended(job_id: int, stands: str) -> Failed | None:
    if stands not in ENDED:
        return None
    return Failed(
        f"job {job_id} has ended already ({stands})", f"`stoker retry {job_id}` queues it again"
    )
