"""`stoker metrics` and `stoker results`: the numbers that jobs have printed or reported."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.api import curve_messages as of_curves
from stoker.api import messages as msg
from stoker.daemon.requests.reply import Daemon, Fields
from stoker.daemon.requests.selecting import ALL_STATES, selected
from stoker.errors import NotFound
from stoker.metrics.overlay import Wanted, overlay

_MOST_WARNINGS = 5


async def metrics(daemon: Daemon, request: msg.Metrics) -> Fields:
    """The last and best values; what is not kept yet is read first."""
    ids = selected(request.select, daemon.views, daemon.turn_loop.state, ALL_STATES)
    unread = await daemon.readings.read(ids, patience_s=request.patience_ms / 1000)
    kept = daemon.readings.kept
    rows, warnings = await daemon.browsing.read(
        lambda browser: (kept.summaries(ids, request.names), kept.troubles(ids, _MOST_WARNINGS))
    )
    return {"rows": rows, "unread": unread, **_warned(warnings, unread)}


async def curve(daemon: Daemon, request: of_curves.Curve) -> Fields:
    """All metrics of one attempt with their curves."""
    job_id, kept = request.job_id, daemon.readings.kept
    if not daemon.views.between(job_id, job_id):
        raise NotFound(f"there is no job {job_id}", "see `stoker ls --all`")
    patience_s = request.patience_ms / 1000
    unread = await daemon.readings.read([job_id], request.attempt, patience_s)
    curves, warnings = await daemon.browsing.read(
        lambda browser: (
            kept.curves(job_id, request.attempt),
            kept.troubles([job_id], _MOST_WARNINGS),
        )
    )
    return {"curves": curves, "unread": unread, **_warned(warnings, unread)}


async def curves(daemon: Daemon, request: of_curves.Curves) -> Fields:
    """One metric of many jobs, as few of their curves as can be told apart."""
    ids: Sequence[int] = request.ids
    objectives: Sequence[Sequence[str]] = ()
    if request.sweep is not None:
        name = request.sweep
        ids = await daemon.browsing.read(lambda browser: browser.sweep_ids(name))
        objectives = (daemon.searches.brief(name) or {}).get("objectives", ())
    unread = await daemon.readings.read(ids, patience_s=request.patience_ms / 1000)
    wanted = Wanted(request.name, request.goal, request.most, request.points)
    kept = daemon.readings.kept
    found, warnings = await daemon.browsing.read(
        lambda browser: (
            overlay(kept, browser.states(ids), wanted, objectives),
            kept.troubles(ids, _MOST_WARNINGS),
        )
    )
    return {**found, "unread": unread, **_warned(warnings, unread)}


def _warned(warnings: list[str], unread: int) -> Fields:
    return {"warnings": warnings} if warnings and not unread else {}
