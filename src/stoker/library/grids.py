"""Grids: parameters and their values, and the points that they span."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

Point = dict[str, Any]

_MOST_VALUE_CHARS = 40
_MOST_NAME_CHARS = 180
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-=")


def grid(*spaces: Mapping[str, Any], **values: Any) -> list[Point]:
    """All combinations of the values, as a list of dictionaries.

    `grid(lr=[0.1, 0.01], bs=[16, 32])` has four points. Several dictionaries are several spaces,
    whose points come one after the other; keywords belong to each of them. A single value (a
    number, a string) is the same in all points.
    """
    found: list[Point] = []
    for space in spaces or ({},):
        axes = {**space, **values}
        choices = [_choices(value) for value in axes.values()]
        found += [dict(zip(axes, point, strict=True)) for point in itertools.product(*choices)]
    return found


def _choices(value: Any) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def folder_name(point: Mapping[str, Any]) -> str:
    """A name for a point's folder: readable, safe as a file name, and no other point's."""
    parts = [f"{_safe(key)}={_safe(value)[:_MOST_VALUE_CHARS]}" for key, value in point.items()]
    exact = "\n".join(f"{key}={value!r}" for key, value in sorted(point.items()))
    digest = hashlib.sha256(exact.encode()).hexdigest()[:8]
    return f"{','.join(parts)[:_MOST_NAME_CHARS]}~{digest}".lstrip(".-")


def _safe(value: Any) -> str:
    return "".join(letter if letter in _SAFE else "_" for letter in str(value))
