"""Sweeps and their points for front ends: what was read, in the words that people use."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.api import messages as msg
from stoker.core.state import State
from stoker.daemon.requests.reply import Daemon, Fields
from stoker.daemon.show import Reasons, display_command, log_of, name_gpus
from stoker.store.browsing import Browser

Columns = dict[str, list[Any]]


def points(daemon: Daemon, request: msg.Points) -> Fields:
    """Which of these points have a job already."""
    found = daemon.views.at_points(request.points)
    return {"points": {point: {"id": i, "state": s} for point, (i, s) in found.items()}}


async def sweeps(daemon: Daemon, request: msg.Sweeps) -> Fields:
    """The latest sweeps."""
    return {"sweeps": await daemon.browsing.read(lambda browser: browser.sweeps(request.limit))}


async def sweep_points(daemon: Daemon, request: msg.SweepPoints) -> Fields:
    """A window of the points of a sweep."""
    answer = await daemon.browsing.read(
        lambda browser: browser.sweep(request.sweep, request.offset, request.limit)
    )
    name_gpus(answer["points"], daemon.turn_loop.state)
    return answer


async def sweep_table(daemon: Daemon, request: msg.SweepTable) -> Fields:
    """All points of a sweep, by columns."""

    def read(browser: Browser) -> dict[str, Any]:
        table = browser.sweep_table(request.sweep, in_full=request.in_full)
        if request.in_full:
            _with_launches(table["columns"], daemon.home.attempts)
        return table

    table = await daemon.browsing.read(read)
    table["search"] = daemon.searches.brief(request.sweep)
    columns, state = table["columns"], daemon.turn_loop.state
    _with_names_of_gpus(columns, state)
    if request.in_full:
        draining, standing = daemon.turn_loop.engine.starts_nothing, daemon.slurm.standing
        _with_reasons(columns, Reasons(state, draining, standing))
    return table


def _with_launches(columns: Columns, attempts_root: str) -> None:
    """Put commands and logs in the place of what was written down; needs no state."""
    launches = [msgspec.json.decode(body) for body in columns.pop("launch")]
    columns["command"] = [display_command(launch) for launch in launches]
    columns["log"] = [
        log_of(launch, name, attempts_root, job_id, attempt)
        for launch, name, job_id, attempt in zip(
            launches, columns.pop("name"), columns["id"], columns["attempt"], strict=True
        )
    ]


def _with_names_of_gpus(columns: Columns, state: State) -> None:
    """GPUs by the names that people know them by."""
    known: dict[int, list[str]] = {}
    shown = []
    for gpus in columns["gpus"]:  # Rows with the same GPUs share one list.
        name = known.get(id(gpus))
        if name is None:
            name = known[id(gpus)] = state.shown_gpus(gpus)
        shown.append(name)
    columns["gpus"] = shown


def _with_reasons(columns: Columns, reasons: Reasons) -> None:
    """Why each job stands where it does."""
    names = ("id", "state", "exit_code", "signal", "ended_at_ms", "cause", "detail")
    rows = zip(*(columns[name] for name in names), strict=True)
    columns["reason"] = [reasons.of_row(dict(zip(names, row, strict=True)))[0] for row in rows]
    del columns["cause"], columns["detail"]
