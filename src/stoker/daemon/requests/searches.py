"""Searches that learn: begun by `stoker sweep --minimize`, and told of by their searchers."""

from __future__ import annotations

import json
from typing import Any

from stoker.api import search_messages as msg
from stoker.core import events as ev
from stoker.core.model import RUNNING, Cause
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon, Fields, Reply
from stoker.engine import Decided


def searches(daemon: Daemon, request: msg.Searches) -> Reply:
    """What is kept of searches; of one, with its points."""
    if request.brief:
        return {"searches": daemon.searches.briefs(request.name)}
    found = daemon.searches.kept(request.name)
    if request.name is None:
        return {"searches": found}
    return _with_points(daemon, request, found)


async def _with_points(
    daemon: Daemon, request: msg.Searches, found: list[dict[str, Any]]
) -> Fields:
    name, newest, unsure = request.name or "", request.newest, request.unsure
    rows = await daemon.browsing.read(lambda browser: browser.search_jobs(name, newest, unsure))
    points = [
        [*about, json.loads(params) if params else {}, attempt] for *about, params, attempt in rows
    ]
    return {"searches": found, "points": points}


def start(daemon: Daemon, request: msg.SearchStart) -> Fields:
    """Begin a search, or go on with it."""
    daemon.searches.start(request.name, request.spec, anew=request.anew)
    return {}


def told(daemon: Daemon, request: msg.SearchTold) -> Fields:
    """Keep what a searcher says of its search."""
    daemon.searches.told(request.name, request.progress, ended=request.ended)
    return {}


def stop_early(_: Daemon, request: msg.StopEarly) -> AfterTurn:
    """Stop a point while it runs; asked again after a crash, it is stopped once."""

    def proposal(state: State) -> Decided:
        job = state.jobs.get(request.job_id)
        if (
            job is None
            or job.state is not RUNNING
            or job.attempt != request.attempt
            or job.terms.adopted is not None
        ):
            return Decided([], {"stopped": False})
        early = Cause.STOPPED_EARLY
        stop = ev.StopRequested(state.now_ms, job.id, request.attempt, early, request.why)
        return Decided([stop], {"stopped": True})

    return AfterTurn(proposal)
