"""A small curve in block characters, as a terminal can show it. Pure."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LEVELS = 8  # of one character


def curve_rows(points: Sequence[tuple[float, float]], width: int, height: int = 1) -> list[str]:
    """Points (step and value) as rows of characters, the highest first; empty if there are none.

    Steps are spread over the width, and what falls on one column is averaged. A column on which no
    step falls has the value of that before it; one with nothing but nan or inf is a gap.
    """
    columns = _columns([point for point in points if math.isfinite(point[0])], width)
    known = [value for value in columns if value is not None]
    if not known or height < 1:
        return []
    low, high = min(known), max(known)
    most = height * _LEVELS
    levels = [None if value is None else _level(value, low, high, most) for value in columns]
    rows = []
    for row in reversed(range(height)):
        floor = row * _LEVELS
        rows.append(
            "".join(
                " " if level is None else _BLOCKS[min(max(level - floor, 0), _LEVELS)]
                for level in levels
            )
        )
    return rows


def _columns(points: Sequence[tuple[float, float]], width: int) -> list[float | None]:
    """The mean of each column; as many columns as there are steps, if these are fewer."""
    width = min(width, len({step for step, _ in points}))
    if width < 1:
        return []
    first, last = min(points)[0], max(points)[0]
    reach = last / 2 - first / 2  # half of it, since the whole may be more than any float
    sums: list[list[float]] = [[] for _ in range(width)]
    told = [False] * width
    for step, value in points:
        share = (step / 2 - first / 2) / reach if reach else 0.0
        place = min(int(share * width), width - 1)
        told[place] = True
        if math.isfinite(value):
            sums[place].append(value)
    columns: list[float | None] = []
    for values, is_told in zip(sums, told, strict=True):
        if values:
            columns.append(sum(value / len(values) for value in values))
        else:
            columns.append(None if is_told or not columns else columns[-1])
    return columns


def _level(value: float, low: float, high: float, most: int) -> int:
    """From 1 for the lowest to `most` for the highest; the middle if all are alike."""
    reach = high / 2 - low / 2
    if not reach > 0:
        return (most + 1) // 2
    return 1 + min(int((value / 2 - low / 2) / reach * most), most - 1)
