"""`stoker retry`: queue final jobs again."""

from __future__ import annotations

import os
from typing import Any

from stoker.api import messages as msg
from stoker.command_lines import call_of
from stoker.core import events as ev
from stoker.core.model import JobState, Requirement
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import ENDED, selected, state_of
from stoker.daemon.requirements import RequiredJobs
from stoker.daemon.submission import refuse_if_impossible
from stoker.engine import Decided
from stoker.errors import Failed
from stoker.locks import is_locked

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
        rows = _callable_again(views.rows(chosen), or_refuse=not select.all)
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
            asked = {name: row[name] for name in ("need", "terms", "priority", "group", "attempt")}
            events.append(ev.JobRetried(state.now_ms, row["id"], requires=requires, **asked))
        return Decided(events, chosen)

    return AfterTurn(proposal, "ids")


def _callable_again(rows: list[dict[str, Any]], *, or_refuse: bool) -> list[dict[str, Any]]:
    """Without calls from Python whose submitter deletes their files (see library/calls.py)."""
    found = []
    for row in rows:
        why_not = _why_not_callable(row["launch"]["argv"])
        if why_not is None:
            found.append(row)
        elif or_refuse:
            raise Failed(
                f"job {row['id']} is a call from Python, whose {why_not}",
                "make the call again in Python",
            )
    return found


def _why_not_callable(argv: list[str]) -> str | None:
    call = call_of(argv)
    if call is None:
        return None
    if not os.path.exists(call[2]):
        return "files were deleted after its end"
    # Its files are there no longer than it takes the program to read what came of the call.
    try:
        reads = is_locked(os.path.join(os.path.dirname(call[2]), "lock"))
    except OSError:
        reads = False
    return "program is still running, and has its result or error" if reads else None


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
