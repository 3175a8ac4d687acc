"""A whole sweep, column by column: a hundred thousand points in the time that reading them takes.

Pure but for the rows that it is given: the latest job of each point counts, and points are in the
order in which they were first queued.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

_ALL = (
    "id", "state", "exit_code", "signal", "ended_at_ms", "gpus", "started_at_ms", "attempt",
    "submitted_at_ms", "name", "launch", "cause", "detail",
)  # fmt: skip
_BRIEF = _ALL[:7]


def table(rows: Iterable[Sequence[Any]], *, in_full: bool) -> dict[str, Any]:
    """What `sweep_jobs` has found: rows of a point, its parameters, and the columns of a job.

    `columns` by name; `params`: the values of each parameter that varies; `absent`: in which rows
    a parameter is not there at all; `counts` by state; `varied`.
    """
    latest: dict[str, Sequence[Any]] = {}
    for row in rows:
        latest[row[0]] = row
    points = list(latest.values())
    params = [msgspec.json.decode(row[1]) if row[1] else {} for row in points]
    names = varied(params)
    found = list(zip(*points, strict=True))[2:] if points else [()] * len(_ALL)
    columns = dict(zip(_ALL if in_full else _BRIEF, map(list, found), strict=False))
    columns["gpus"] = [
        [] if state in ("waiting", "held") else gpus
        for state, gpus in zip(columns["state"], _lists(columns["gpus"]), strict=True)
    ]
    columns["started_at_ms"] = [
        None if state in ("waiting", "held", "submitted") else began
        for state, began in zip(columns["state"], columns["started_at_ms"], strict=True)
    ]
    if in_full:
        columns["params"] = params
    missing = {name: [n for n, one in enumerate(params) if name not in one] for name in names}
    return {
        "total": len(points),
        "counts": dict(Counter(columns["state"])),
        "varied": names,
        "columns": columns,
        "params": {name: [one.get(name) for one in params] for name in names},
        "absent": {name: places for name, places in missing.items() if places},
    }


def outline(rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """The same without its columns: of rows of a point, its parameters and its state."""
    latest = {point: (params, state) for point, params, state in rows}
    return {
        "points": len(latest),
        "counts": dict(Counter(state for _, state in latest.values())),
        "varied": varied([msgspec.json.decode(p) if p else {} for p, _ in latest.values()]),
    }


def varied(params: Sequence[dict[str, Any]]) -> list[str]:
    """The parameters that differ between points; all of them if there is but one point."""
    seen: dict[str, set[str]] = {}
    count: Counter[str] = Counter()
    for one in params:
        count.update(one.keys())
        for name, value in one.items():
            values = seen.get(name)
            if values is None:
                values = seen[name] = set()
            # 1, 1.0 and true are three values.
            plain = not isinstance(value, dict | list)
            values.add(repr(value) if plain else json.dumps(value, sort_keys=True))
    if len(params) == 1:
        return list(seen)
    return [name for name, values in seen.items() if len(values) > 1 or count[name] < len(params)]


def _lists(bodies: Sequence[str | None]) -> list[list[str]]:
    """Lists as they were written down; few differ."""
    known: dict[str | None, list[str]] = {None: []}
    for body in set(bodies):
        if body is not None:
            known[body] = json.loads(body)
    return [known[body] for body in bodies]
