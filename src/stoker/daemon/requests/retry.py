"""`stoker retry`: queue final jobs again."""

from __future__ import annotations

from typing import Any

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.model import JobState, Requirement
from stoker.core.state import State
from stoker.daemon.library_calls import still_there
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import ENDED, selected, state_of
from stoker.daemon.requirements import RequiredJobs
from stoker.daemon.submission import refuse_if_impossible
from stoker.engine import Decided
from stoker.errors import Failed

_RETRIABLE = [state for state in ENDED if state != JobState.SUCCEEDED]


def retry(daemon: Daemon, request: msg.Retry) -> AfterTurn:
    """Each job has the same id again, and what it needs is looked at anew."""
    select, views = request.select, daemon.views

    def proposal(state: State) -> Decided:
        ids = selected(select, views, state, _RETRIABLE)
        chosen = [job_id for job_id in ids if job_id not in state.jobs]
        if not chosen and not select.all:
            raise Failed(
                f"job {ids[0]} is {state_of(ids[0], state, views)}, and has not ended",
                "`stoker cancel` stops it; then it can be retried",
            )
        events: list[ev.Event] = []
        rows = still_there(views.rows(chosen), or_refuse=not select.all)
        chosen = [row["id"] for row in rows]
        others = RequiredJobs(state, views, set(chosen))
        for row in rows:
            if row["terms"].attached:
                raise Failed(
                    f"job {row['id']} ran in a terminal", "start it there again: `stoker run`"
                )
            if not row["terms"].executor:
                refuse_if_impossible(state, row["need"], set(state.gpus))
            requires = _requirements_again(others, row)
            events.append(
                ev.JobRetried(
                    state.now_ms,
                    row["id"],
                    row["need"],
                    row["terms"],
                    row["priority"],
                    row["group"],
                    requires,
                    row["attempt"],
                )
            )
        return Decided(events, chosen)

    return AfterTurn(proposal, "ids")


def _requirements_again(others: RequiredJobs, row: dict[str, Any]) -> tuple[Requirement, ...]:
    unmet = []
    for fields in row["requires"] or ():
        stand = others.stand(Requirement(*fields))
        if stand.failed:
            failed, ended_as = stand.failed
            raise Failed(
                f"job {row['id']} needs job {failed}, which ended as {ended_as}",
                f"retry that one too: `stoker retry {failed},{row['id']}`",
            )
        if stand.unfinished:
            unmet.append(Requirement(*fields))
    return tuple(unmet)
