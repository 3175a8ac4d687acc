"""A point's identity: the same parameters for the same command in the same directory are one point.

Needs, environment and the sweep's name are no part of it: a point that ran once need not run again
because it now asks for another GPU.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

from stoker.sweep.values import Point

PREFIX = "sweep:"
_POINT_DIGITS = 32
_SHORT_DIGITS = 10
_SWEEP_DIGITS = 6


def namer(command: Sequence[str], cwd: str) -> Callable[[Point], str]:
    """A function that names the points of one command.

    What is hashed is the JSON of a point's values with their names in order. It is put together
    from the values' own JSON, since a value is that of many points.
    """
    start = hashlib.sha256(json.dumps([cwd, *command]).encode())
    names: tuple[str, ...] = ()
    in_order: list[str] = []
    form = ""  # with a place for each value

    def name(point: Point) -> str:
        nonlocal names, in_order, form
        if tuple(point) != names:
            names = tuple(point)
            in_order = sorted(names)
            pairs = [json.dumps(name).replace("%", "%%") + ": %s" for name in in_order]
            form = f"{{{', '.join(pairs)}}}"
        digest = start.copy()
        digest.update((form % tuple([point[name].key for name in in_order])).encode())
        return PREFIX + digest.hexdigest()[:_POINT_DIGITS]

    return name


def short(point_name: str) -> str:
    """A point's name as {point} stands for it, e.g. in a directory's name."""
    return point_name.removeprefix(PREFIX)[:_SHORT_DIGITS]


def trial_name(search: str, number: int) -> str:
    """The name of a trial's point: by its number, since two trials may have the same values.

    The number is in the part that {point} stands for.
    """
    digits = _of_search(search)
    return f"{PREFIX}{digits[:5]}{number:05x}{digits[5:]}"


def trial_number(search: str, point_name: str) -> int | None:
    """The number of the trial that a point is; None if it is no trial of that search."""
    digits, own = point_name.removeprefix(PREFIX), _of_search(search)
    if len(digits) != _POINT_DIGITS or digits[:5] + digits[10:] != own:
        return None
    return int(digits[5:10], 16)


def _of_search(name: str) -> str:
    return hashlib.sha256(f"search:{name}".encode()).hexdigest()[: _POINT_DIGITS - 5]


def search_name(parts: object) -> str:
    """The name of a search that was given none: the same for the same command, space and goals."""
    return f"search-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_SWEEP_DIGITS]}"


def sweep_name(command: Sequence[str], cwd: str, names: Sequence[str]) -> str:
    """The name of a sweep that was given none: the same for the same command and parameters."""
    text = json.dumps([cwd, *command, sorted(names)])
    return f"sweep-{hashlib.sha256(text.encode()).hexdigest()[:_SWEEP_DIGITS]}"
