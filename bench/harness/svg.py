"""Pictures of results as SVG: bars beside each other, and lines over a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10

from stoker.text.svg import (
    COLOURS,
    GRID,
    TEXT,
    WIDTH,
    heading,
    line,
    line_through,
    marks,
    picture,
    words,
)

_LABELS = 210  # the room for names, left of the bars
_BAR, _STEP = 18, 28
_OURS, _THEIRS, _GOAL = COLOURS[0], "#94a3b8", "#15803d"


@dataclass(frozen=True, slots=True)
class Bar:
    """One value, with its spread."""

    name: str
    value: float
    least: float
    most: float
    ours: bool = False


def bars(title: str, unit: str, values: Sequence[Bar], goal: float | None = None) -> str:
    """Horizontal bars; one that is far longer than the others is cut off, and says so."""
    ordered = sorted(one.value for one in values)
    # A picture for the sake of one that is a hundred times as long would show nothing else.
    longest = max(one for one in ordered if one <= 4 * ordered[(len(ordered) - 1) // 2]) * 1.15
    if goal is not None:
        longest = max(longest, goal * 1.15)
    room = WIDTH - _LABELS - 90
    height = 70 + _STEP * len(values)
    parts = [heading(title)]
    for mark in marks(longest):
        x = _LABELS + room * mark / longest
        parts.append(line(x, 44, x, height - 22, GRID))
        parts.append(words(x, height - 8, f"{mark:g}{' ' + unit if unit else ''}", "middle", 11))
    for at, one in enumerate(values):
        y = 50 + _STEP * at
        cut = one.value > longest
        width = room * min(one.value, longest) / longest
        colour = _OURS if one.ours else _THEIRS
        parts.append(words(_LABELS - 8, y + 13, one.name, "end", 13, bold=one.ours))
        parts.append(f'<rect x="{_LABELS}" y="{y}" width="{width:.1f}" height="{_BAR}" '
                     f'rx="2" fill="{colour}"/>')  # fmt: skip
        if not cut and one.least != one.most:
            ends = [_LABELS + room * min(v, longest) / longest for v in (one.least, one.most)]
            parts.append(line(ends[0], y + _BAR / 2, ends[1], y + _BAR / 2, TEXT, 1.5))
        shown = f"{one.value:,.3g}" if one.value < 1000 else f"{one.value:,.0f}"
        x = _LABELS + max(width, room * min(one.most, longest) / longest) + 6
        parts.append(words(x, y + 13, f"{shown} →" if cut else shown, "start", 12))
    if goal is not None:
        x = _LABELS + room * goal / longest
        parts.append(line(x, 40, x, height - 22, _GOAL, 1.5, dashed=True))
        parts.append(words(x, 36, f"must reach {goal:g}", "middle", 11, colour=_GOAL))
    return picture(height, parts)


def lines(
    title: str,
    x_name: str,
    y_name: str,
    curves: Mapping[str, Sequence[Sequence[float]]],
    *,
    log_x: bool = True,
) -> str:
    """Curves over an axis that is logarithmic unless told."""
    height, left, bottom, top = 330, 70, 60, 60
    xs = [point[0] for curve in curves.values() for point in curve]
    ys = [point[1] for curve in curves.values() for point in curve]
    highest = max(ys) * 1.08
    positive = [x for x in xs if x > 0]
    low, high = (log10(min(positive)), log10(max(positive))) if log_x else (0.0, max(xs))
    span = (high - low) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        along = (log10(max(x, 10**low)) if log_x else x) - low
        across = (WIDTH - left - 30) * along / span
        return left + across, height - bottom - (height - bottom - top) * y / highest

    parts = [heading(title)]
    for mark in marks(highest):
        y = place(10**low if log_x else 0, mark)[1]
        parts.append(line(left, y, WIDTH - 30, y, GRID))
        parts.append(words(left - 8, y + 4, f"{mark:,g}", "end", 11))
    for mark in _decades(low, high) if log_x else marks(high):
        x = place(mark, 0)[0]
        parts.append(line(x, top, x, height - bottom, GRID))
        parts.append(words(x, height - bottom + 18, f"{mark:,g}", "middle", 11))
    parts.append(words((WIDTH + left) / 2, height - 14, x_name, "middle", 12))
    parts.append(words(left - 50, top - 12, y_name, "start", 12))
    for at, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[at % len(COLOURS)]
        parts.append(line_through([place(x, y) for x, y in curve], colour))
        if len(curve) <= 12:
            for x, y in curve:
                px, py = place(x, y)
                parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colour}"/>')
        parts.append(words(WIDTH - 36, top + 16 + 16 * at, name, "end", 12, colour=colour))
    return picture(height, parts)


def _decades(low: float, high: float) -> list[float]:
    marks = [10.0**power for power in range(floor(low), floor(high) + 1)]
    return [mark for mark in marks if low - 1e-9 <= log10(mark) <= high + 1e-9]
