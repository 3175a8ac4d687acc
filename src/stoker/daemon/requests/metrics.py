"""`stoker metrics` and `stoker results`: the numbers that jobs have printed or reported."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.daemon.requests.reply import Daemon, Fields
from stoker.daemon.requests.selecting import ALL_STATES, selected
from stoker.errors import NotFound

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


async def curve(daemon: Daemon, request: msg.Curve) -> Fields:
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


def _warned(warnings: list[str], unread: int) -> Fields:
    return {"warnings": warnings} if warnings and not unread else {}
