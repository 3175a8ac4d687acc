"""Pictures as SVG, written by hand: bars beside each other, and lines over a logarithmic axis.

Law: every text that comes from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

_WIDTH = 720
_LABELS = 210  # the room for names, left of the bars
_BAR, _STEP = 18, 28
_OURS, _THEIRS, _GRID, _TEXT, _GOAL = "#c2410c", "#94a3b8", "#e2e8f0", "#1e293b", "#15803d"
_COLOURS = (_OURS, "#64748b", "#2563eb", "#0f766e", "#7c3aed")


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
    room = _WIDTH - _LABELS - 90
    height = 70 + _STEP * len(values)
    parts = [_heading(title)]
    for mark in _marks(longest):
        x = _LABELS + room * mark / longest
        parts.append(_line(x, 44, x, height - 22, _GRID))
        parts.append(_text(x, height - 8, f"{mark:g}{' ' + unit if unit else ''}", "middle", 11))
    for at, one in enumerate(values):
        y = 50 + _STEP * at
        cut = one.value > longest
        width = room * min(one.value, longest) / longest
        colour = _OURS if one.ours else _THEIRS
        parts.append(_text(_LABELS - 8, y + 13, one.name, "end", 13, bold=one.ours))
        parts.append(f'<rect x="{_LABELS}" y="{y}" width="{width:.1f}" height="{_BAR}" '
                     f'rx="2" fill="{colour}"/>')  # fmt: skip
        if not cut and one.least != one.most:
            ends = [_LABELS + room * min(v, longest) / longest for v in (one.least, one.most)]
            parts.append(_line(ends[0], y + _BAR / 2, ends[1], y + _BAR / 2, _TEXT, 1.5))
        shown = f"{one.value:,.3g}" if one.value < 1000 else f"{one.value:,.0f}"
        x = _LABELS + max(width, room * min(one.most, longest) / longest) + 6
        parts.append(_text(x, y + 13, f"{shown} →" if cut else shown, "start", 12))
    if goal is not None:
        x = _LABELS + room * goal / longest
        parts.append(_line(x, 40, x, height - 22, _GOAL, 1.5, dashed=True))
        parts.append(_text(x, 36, f"must reach {goal:g}", "middle", 11, colour=_GOAL))
    return _picture(height, parts)


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
        across = (_WIDTH - left - 30) * along / span
        return left + across, height - bottom - (height - bottom - top) * y / highest

    parts = [_heading(title)]
    for mark in _marks(highest):
        y = place(10**low if log_x else 0, mark)[1]
        parts.append(_line(left, y, _WIDTH - 30, y, _GRID))
        parts.append(_text(left - 8, y + 4, f"{mark:,g}", "end", 11))
    for mark in _decades(low, high) if log_x else _marks(high):
        x = place(mark, 0)[0]
        parts.append(_line(x, top, x, height - bottom, _GRID))
        parts.append(_text(x, height - bottom + 18, f"{mark:,g}", "middle", 11))
    parts.append(_text((_WIDTH + left) / 2, height - 14, x_name, "middle", 12))
    parts.append(_text(left - 50, top - 12, y_name, "start", 12))
    for at, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[at % len(_COLOURS)]
        points = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in curve)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                     'stroke-width="2"/>')  # fmt: skip
        if len(curve) <= 12:
            for x, y in curve:
                px, py = place(x, y)
                parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colour}"/>')
        parts.append(_text(_WIDTH - 36, top + 16 + 16 * at, name, "end", 12, colour=colour))
    return _picture(height, parts)


def _marks(highest: float) -> list[float]:
    """Round numbers up to that: about five."""
    raw = highest / 5
    size = 10.0 ** floor(log10(raw))
    step = next(size * part for part in (1, 2, 5, 10) if size * part >= raw)
    return [step * number for number in range(int(highest / step) + 1)]


def _decades(low: float, high: float) -> list[float]:
    marks = [10.0**power for power in range(floor(low), floor(high) + 1)]
    return [mark for mark in marks if low - 1e-9 <= log10(mark) <= high + 1e-9]


def _heading(title: str) -> str:
    return _text(16, 22, title, "start", 15, bold=True)


def _text(
    x: float, y: float, text: str, anchor: str, size: int, *, bold: bool = False,
    colour: str = _TEXT,
) -> str:  # fmt: skip
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{weight} '
        f'fill="{colour}">{escape(text)}</text>'
    )


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0, *,
    dashed: bool = False,
) -> str:  # fmt: skip
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}"{dash}/>'
    )


def _picture(height: float, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" '
        f'width="{_WIDTH}" height="{height:g}" font-family="system-ui, sans-serif">\n'
        f'<rect width="{_WIDTH}" height="{height:g}" fill="#ffffff"/>\n{inside}\n</svg>\n'
    )
