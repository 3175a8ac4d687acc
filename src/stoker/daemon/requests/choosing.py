"""Requests that change each of the named jobs that can be changed so, and say why others can't."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.model import Job
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import selected, state_of
from stoker.engine import Decided
from stoker.errors import Failed


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of each job."""

    states: Sequence[str]  # of those that `--all` means
    why_not: Callable[[Job], Failed | None]
    event: Callable[[State, Job], ev.Event]
    meant_by_all: Callable[[Job], bool] = lambda job: True


def change_each(
    daemon: Daemon, select: msg.Select, change: Change, hint_if_ended: str = ""
) -> AfterTurn:
    """The named jobs are changed, as far as they can be; refused if none can.

    `hint_if_ended`: what can be done about a job that has ended, with its id as {}.
    """
    views = daemon.views

    def proposal(state: State) -> Decided:
        chosen: list[Job] = []
        left_out: dict[str, list[int]] = {}
        refusal: Failed | None = None
        for job_id in selected(select, views, state, change.states):
            job = state.jobs.get(job_id)
            if job is not None:
                if select.all and not change.meant_by_all(job):
                    continue
                error = change.why_not(job)
            else:
                stands = state_of(job_id, state, views)
                hint = hint_if_ended.format(job_id)
                error = Failed(f"job {job_id} has ended already ({stands})", hint)
            if job is not None and error is None:
                chosen.append(job)
            elif error is not None:
                refusal = refusal or error
                left_out.setdefault(error.message, []).append(job_id)
        if refusal is not None and not chosen and not select.all:
            raise refusal
        answer = {"ids": [job.id for job in chosen], **({"left_out": left_out} if left_out else {})}
        return Decided([change.event(state, job) for job in chosen], answer)

    return AfterTurn(proposal)
