"""Long lists for the page and the live view: jobs, attempts, and what is expected to start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import msgspec

from stoker.api import messages as msg
from stoker.core.forecast import expected_end_ms, expected_starts
from stoker.core.model import JobState
from stoker.core.state import State
from stoker.daemon.cluster import attempt_of
from stoker.daemon.expectations import Expect
from stoker.daemon.filtering import filter_terms
from stoker.daemon.requests.reply import Daemon, Fields
from stoker.daemon.requests.selecting import ALL_STATES, check_states
from stoker.daemon.show import Reasons, counts, display_command, name_gpus
from stoker.errors import UsageError
from stoker.store.browsing import Known, Wanted
from stoker.store.matching import Term

_COMMAND_CHARS = 300
_MOST_ENDS = 1_000


async def browse(daemon: Daemon, request: msg.Browse) -> Fields:
    """A window of the jobs that are wanted, in the order that is wanted."""
    check_states(request.states)
    fields = msgspec.structs.asdict(request)
    text = fields.pop("text")
    wanted = _narrowed(Wanted(**fields), filter_terms(text, daemon.turn_loop.state))
    version, now_ms, known = daemon.watchers.version, daemon.turn_loop.now_ms(), _known(daemon)
    window = await daemon.browsing.read(lambda browser: browser.window(wanted, now_ms, known))
    state = daemon.turn_loop.state
    name_gpus(window.rows, state)
    reasons = Reasons(state, daemon.turn_loop.engine.starts_nothing, daemon.slurm.standing)
    for row in window.rows:
        row["reason"], row["reason_kind"] = reasons.of_row(row)
        row["command"] = _in_short(display_command(row.pop("launch"), row.pop("params")))
        del row["cause"], row["detail"]
    return {"jobs": window.rows, "total": window.total, "version": version}


def _narrowed(wanted: Wanted, terms: Sequence[Term]) -> Wanted:
    """States are told apart from other words where possible: they need no look at each job."""
    states = set(wanted.states or ALL_STATES)
    for key, values, negated in terms:
        if key == "state":
            states = states - set(values) if negated else states & set(values)
    if not states or len(states) == len(ALL_STATES):
        return replace(wanted, terms=terms)
    others = [term for term in terms if term[0] != "state"]
    return replace(wanted, states=tuple(sorted(states)), terms=others)


def _in_short(command: str) -> str:
    """No longer than a list can show."""
    return command if len(command) <= _COMMAND_CHARS else command[: _COMMAND_CHARS - 1] + "…"


def _known(daemon: Daemon) -> Known:
    """What the state knows, so that the record need not be counted and sorted for it."""
    state = daemon.turn_loop.state

    def began(job_id: int) -> tuple[int, int]:
        attempt = attempt_of(state.jobs[job_id])
        started = attempt.started_at_ms
        return (attempt.placed_at_ms if started is None else started, job_id)

    return Known(counts(state, daemon.store.finished), sorted(state.active, key=began))


async def related(daemon: Daemon, request: msg.Related) -> Fields:
    """The jobs around one, those that it waits for and those that wait for it."""
    return await daemon.browsing.read(lambda b: b.related(request.job_id, request.steps))


async def attempts(daemon: Daemon, request: msg.Attempts) -> Fields:
    """The attempts since some time."""
    now_ms, most = daemon.turn_loop.now_ms(), request.limit
    rows = await daemon.browsing.read(
        lambda browser: browser.attempts_since(request.since_ms, most + 1)
    )
    name_gpus(rows, daemon.turn_loop.state)
    return {"attempts": rows[:most], "more": len(rows) > most, "now_ms": now_ms}


async def usage(daemon: Daemon, request: msg.Usage) -> Fields:
    """What the GPUs were used for."""
    edges, now_ms = request.edges_ms, daemon.turn_loop.now_ms()
    if any(one >= other for one, other in pairwise(edges)):
        raise UsageError("the edges of the stretches are not in order", "each after the one before")
    found = await daemon.browsing.read(lambda browser: browser.usage(edges, now_ms))
    return {**found, "gpus": len(daemon.turn_loop.state.gpus), "now_ms": now_ms}


async def forecast(daemon: Daemon, request: msg.Forecast) -> Fields:
    """What is expected to start next."""
    state, now_ms = daemon.turn_loop.state, daemon.turn_loop.state.now_ms
    starts = []
    places = _places(state, request.places_of)
    most = request.most_unfinished
    expect = Expect(daemon.views, state)
    if not daemon.turn_loop.engine.starts_nothing and (most is None or len(state.jobs) <= most):
        starts = expected_starts(state, expect, request.limit)
    names = await daemon.browsing.read(
        lambda browser: browser.names([start.job_id for start in starts])
    )
    return {
        "starts": [
            {
                "id": start.job_id,
                "name": names.get(start.job_id),
                "gpus": state.shown_gpus(start.gpus),
                "starts_at_ms": start.starts_at_ms,
                "ends_at_ms": start.ends_at_ms,
            }
            for start in starts
        ],
        "ends": _ends(state, expect, now_ms) if request.ends else [],
        "places": places,
        "now_ms": now_ms,
    }


def _ends(state: State, expect: Expect, now_ms: int) -> list[Fields]:
    """When each job that runs is expected to end, where that can be told."""
    found = []
    for job_id in list(state.active)[:_MOST_ENDS]:
        job = state.jobs[job_id]
        if (end := expected_end_ms(job, expect, now_ms)) is not None:
            found.append({"id": job_id, "attempt": attempt_of(job).number, "ends_at_ms": end})
    return found


def _places(state: State, job_ids: list[int]) -> list[int | None]:
    """The place of each in the line, from 1; None for what does not wait."""
    found = [state.jobs.get(job_id) for job_id in job_ids]
    waiting = [job for job in found if job is not None and job.state is JobState.WAITING]
    ahead = state.ahead_of(waiting) if waiting else {}
    return [ahead[job_id] + 1 if job_id in ahead else None for job_id in job_ids]
