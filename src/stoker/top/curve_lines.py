"""A metric as lines of a pane: its last value, its curve with both axes, the others below. Pure."""

from __future__ import annotations

from stoker.text.curve import curve_rows
from stoker.top.paint import cell, fitted, piece, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.metrics.asking import Curve
    from stoker.top.paint import Glyphs, Line

_LABELS = 9  # columns for the values at the left
_LEAST_FOR_AXES = 4  # rows
_MOST_HEIGHT = 12  # rows of the curve itself; more would say no more
_LEAST_NAME = 12  # columns that a name has before anything else is said


def curve_lines(
    curves: Sequence[Curve], place: int, columns: int, rows: int, glyphs: Glyphs
) -> list[Line]:
    """At most so many lines: the curve at that place and, below it, the last values of others."""
    curve = curves[place]
    lines = [_head(curve, place, len(curves), columns)]
    height = min(rows - 1 - (rows >= _LEAST_FOR_AXES), _MOST_HEIGHT)
    room = columns - _LABELS - 1
    plot = curve_rows(curve.points, max(1, room), height)
    if not plot or room < 4:
        return lines[: max(0, rows)]
    wide = max(1, room // len(plot[0]))  # Few steps are drawn as broad columns.
    shown = str.maketrans("▁▂▃▄▅▆▇█", glyphs.levels)
    labels = [""] * height
    labels[-1], labels[0] = number(curve.summary.min), number(curve.summary.max)
    for label, row in zip(labels, plot, strict=True):
        text = "".join(letter * wide for letter in row).translate(shown)
        line = [*cell(label, _LABELS, "dim", right=True), (" ", ""), (text, "green")]
        lines.append(fitted(line, columns))
    if rows >= _LEAST_FOR_AXES:
        first, last = number(curve.first[0]), number(curve.summary.last_step)
        gap = max(1, wide * len(plot[0]) - len(first) - len(last))
        steps = f"{first}{' ' * gap}{last}" if first != last else first
        lines.append(fitted([(" " * (_LABELS + 1), ""), (steps, "dim")], columns))
    others = [[], *(_short(one, columns) for one in curves if one is not curve)]
    return lines + others[: max(0, rows - len(lines))] if len(curves) > 1 else lines


def _short(curve: Curve, columns: int) -> Line:
    value = cell(number(curve.summary.last), _LABELS, right=True)
    return fitted([*value, (" ", ""), piece(curve.summary.name, "dim")], columns)


def _head(curve: Curve, place: int, count: int, columns: int) -> Line:
    """Its name and last value, and how to get to the others."""
    value = f" {number(curve.summary.last)}"
    step = f" at step {number(curve.summary.last_step)}"
    which = f"{place + 1} of {count}, m: next" if count > 1 else ""
    wanted = width([piece(curve.summary.name)])
    room = columns - len(value)
    more: Line = []
    for words in (step, f"  {which}" if which else ""):
        if words and room - len(words) >= min(wanted, _LEAST_NAME):
            room -= len(words)
            more.append((words, "dim"))
    name = cell(curve.summary.name, max(1, min(room, wanted)), "bold")
    return fitted([*name, (value, ""), *more], columns)


def number(value: float | None) -> str:
    """A number in few letters."""
    return "" if value is None else f"{value:.4g}"
