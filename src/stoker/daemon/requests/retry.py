"""`stoker retry`: queue final jobs again."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from stoker.api import messages as msg
from stoker.command_lines import call_of
from stoker.core import events as ev
from stoker.core.model import JobState, Requirement
from stoker.core.state import State
from stoker.daemon.impossible import refuse_if_impossible
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import (
    ENDED,
    named_by_id,
    selected,
    state_of,
    states_of,
)
from stoker.daemon.requirements import RequiredJobs
from stoker.engine import Decided
from stoker.errors import Failed, UsageError

_STOPPING = JobState.STOPPING.value
_STOP = "`stoker cancel` stops it"
# What a range, a name, a group or --all means: it was wanted, and it was not had.
_UNWANTED = {JobState.SUCCEEDED.value, JobState.STOPPED.value, JobState.CANCELLED.value}


def retry(daemon: Daemon, request: msg.Retry) -> AfterTurn:
    """Each job has the same id again, and what it needs is looked at anew."""
    select, views = request.select, daemon.views

    def proposal(state: State) -> Decided:
        # Those of --all that succeeded are not even counted: there may be a million of them.
        usual = [one for one in ENDED if one != JobState.SUCCEEDED]
        ids = selected(select, views, state, select.states or usual)
        ended = [job_id for job_id in ids if job_id not in state.jobs]
        if not ended and not select.all:
            job_id, stands = ids[0], state_of(ids[0], state, views)
            hint = f"`stoker wait {job_id}` waits for that" if stands == _STOPPING else _STOP
            raise Failed(
                f"job {job_id} is {stands}, and has not ended", f"{hint}; then it can be retried"
            )
        named, states = named_by_id(select, views, state), states_of(ids, state, views)
        unwanted = set() if select.states else _UNWANTED
        left_out: dict[str, list[int]] = {}
        chosen = []
        for job_id in ids:
            stands = states.get(job_id) or state_of(job_id, state, views)
            if job_id in state.jobs or (stands in unwanted and job_id not in named):
                left_out.setdefault(stands, []).append(job_id)
            else:
                chosen.append(job_id)
        coming, events = set(chosen), []
        refusal: Failed | UsageError | None = None
        others = RequiredJobs(state, views, coming)
        for row in views.rows(chosen):
            try:
                events.append(_again(state, row, others))
            except (Failed, UsageError) as error:
                if row["id"] in named:
                    refusal = refusal or error
                coming.discard(row["id"])
                left_out.setdefault(error.message, []).append(row["id"])
        if refusal is not None and not events:
            raise refusal
        counts = Counter(states[job_id] for job_id in sorted(coming))
        answer = {"ids": sorted(coming), "counts": dict(counts), "left_out": left_out}
        return Decided(events, answer)

    return AfterTurn(proposal)


def _again(state: State, row: dict[str, Any], others: RequiredJobs) -> ev.Event:
    """The event by which a job is queued again; refused if it could only fail."""
    why_not = _why_not_callable(row["launch"]["argv"])
    if why_not is not None:
        raise Failed(
            f"job {row['id']} is a call from Python, but {why_not}", "make the call again in Python"
        )
    if row["terms"].attached:
        raise Failed(f"job {row['id']} ran in a terminal", "start it there again: `stoker run`")
    if row["terms"].adopted is not None:
        raise Failed(
            f"job {row['id']} was adopted: Stoker did not start it, so it can't start it again",
            "queue its command: `stoker add`",
        )
    if not row["terms"].executor:
        refuse_if_impossible(state, row["need"], set(state.gpus))
    requires = _requirements_again(others, row)
    same = ("need", "terms", "priority", "group", "attempt", "resumes")
    asked = {name: row[name] for name in same}
    return ev.JobRetried(state.now_ms, row["id"], requires=requires, **asked)


def _why_not_callable(argv: list[str]) -> str | None:
    call = call_of(argv)
    if call is None:
        return None
    python, worker, file, _ = call
    if not os.path.exists(file):
        return "its code was deleted (see the setting keep-results)"
    gone = next((path for path in (python, worker) if not os.path.exists(path)), None)
    return None if gone is None else f"{gone}, which made it, is gone"


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
