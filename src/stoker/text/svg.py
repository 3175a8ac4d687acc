"""Pieces of pictures as SVG, written by hand.

Law: every text that comes from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10

WIDTH = 720
GRID, TEXT = "#e2e8f0", "#1e293b"
COLOURS = ("#c2410c", "#64748b", "#2563eb", "#0f766e", "#7c3aed")


def marks(highest: float) -> list[float]:
    """Round numbers up to that: about five."""
    raw = highest / 5
    size = 10.0 ** floor(log10(raw))
    step = next(size * part for part in (1, 2, 5, 10) if size * part >= raw)
    return [step * number for number in range(int(highest / step) + 1)]


def heading(title: str) -> str:
    """The title of a picture."""
    return words(16, 22, title, "start", 15, bold=True)


def words(
    x: float, y: float, said: str, anchor: str, size: int, *, bold: bool = False,
    colour: str = TEXT,
) -> str:  # fmt: skip
    """A text at a place."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{weight} '
        f'fill="{colour}">{escape(said)}</text>'
    )


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0, *,
    dashed: bool = False,
) -> str:  # fmt: skip
    """A straight line."""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}"{dash}/>'
    )


def picture(height: float, parts: Sequence[str]) -> str:
    """A whole picture of these parts."""
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
        f'width="{WIDTH}" height="{height:g}" font-family="system-ui, sans-serif">\n'
        f'<rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>\n{inside}\n</svg>\n'
    )


def box(x: float, y: float, width: float, height: float, colour: str, said: str = "") -> str:
    """A filled box; `said` is shown by a browser that points at it."""
    rect = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"'
    )
    return f"{rect}><title>{escape(said)}</title></rect>" if said else f"{rect}/>"


def line_through(points: Sequence[tuple[float, float]], colour: str, width: float = 2.0) -> str:
    """A line through points."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'
