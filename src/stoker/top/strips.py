"""Lines of styled text as the live view draws them."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from stoker.top.paint import COLOURS, Line, fitted

_SWITCHES = ("bold", "dim", "italic", "underline", "reverse", "strike")


@lru_cache(1024)
def style_of(words: str) -> Style:
    """The style that some words mean; see paint and log_text."""
    front = back = None
    switches: dict[str, bool] = {}
    for word in words.split():
        if word in COLOURS:
            front = Color.from_ansi(COLOURS[word])
        elif word in _SWITCHES:
            switches[word] = True
        elif word.startswith("fg:"):
            front = _colour(word[3:])
        elif word.startswith("bg:"):
            back = _colour(word[3:])
    return Style(color=front, bgcolor=back, **switches)  # type: ignore[arg-type]


def _colour(text: str) -> Color:
    return Color.parse(text) if text.startswith("#") else Color.from_ansi(int(text))


def strip(line: Line, columns: int) -> Strip:
    """A line, exactly so wide."""
    segments = [Segment(text, style_of(style)) for text, style in fitted(line, columns)]
    return Strip(segments).adjust_cell_length(columns)
