"""Text for a terminal: escaped, measured, coloured, laid out in columns.

Names, commands and reasons are hostile text: nothing reaches a terminal that is not printable.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

_COLOURS = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


def out(text: str) -> None:
    """Data, on stdout."""
    if sys.stdout is not None:
        sys.stdout.write(text)


def say(text: str) -> None:
    """Words, on stderr, one line; a stderr that is closed or full is no reason to fail."""
    if sys.stderr is not None:
        try:
            sys.stderr.write(escaped(text) + "\n")
            sys.stderr.flush()
        except OSError:
            pass


def escaped(text: str) -> str:
    """Text in which every character is printable: newlines, escapes and the like are spelt out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _spelt_out(c) for c in text)


def _spelt_out(character: str) -> str:
    code = ord(character)
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    if named:
        return named
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def width_of(text: str) -> int:
    """How many columns printable text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    width = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return width


def clipped(text: str, width: int, mark: str = "") -> str:
    """Text cut to a width, with a mark (one column wide) that shows the cut."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return text[:width] if text.isascii() else ""
    kept = text[: width - 1]
    while width_of(kept) > width - 1:
        kept = kept[:-1]
    return kept + (mark or cut_mark())


def cut_mark() -> str:
    """What stands where text was cut, as far as the output can show it."""
    return "…" if _speaks_unicode() else "~"


def _speaks_unicode() -> bool:
    encoding = getattr(sys.stdout, "encoding", "") or ""
    return encoding.lower().replace("-", "").startswith("utf")


def has_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream (stdout unless told) is a terminal."""
    stream = stream or sys.stdout
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def wants_colour(stream: TextIO | None = None) -> bool:
    """Colours are for terminals that can show them, and for people who want them."""
    return (
        not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and has_terminal(stream)
    )


def painted(text: str, colour: str, on: bool) -> str:
    """Text in a colour, if colours are on."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if on and colour and text else text


def terminal_width() -> int | None:
    """The columns that a line may take; None if the output is not read on a terminal."""
    if not has_terminal():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class Column:
    """One column of a table."""

    __slots__ = ("least", "right", "title")

    def __init__(self, title: str, *, right: bool = False, least: int = 0) -> None:
        self.title = title
        self.right = right
        self.least = least  # how narrow it may become; 0: it is never cut


class Cell:
    """What stands in one row and column: printable text, and its colour if it has one."""

    __slots__ = ("colour", "text")

    def __init__(self, text: str, colour: str = "") -> None:
        self.text = escaped(text)
        self.colour = colour


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, indent: str = "") -> str:
    """Aligned columns that fit the terminal; columns that are empty in every row are left out."""
    shown = [i for i in range(len(columns)) if any(row[i].text for row in rows)]
    width = terminal_width()
    colour = wants_colour()
    widths = {
        i: max(len(columns[i].title), *(width_of(row[i].text) for row in rows)) for i in shown
    }
    if width is not None:
        _shrink(columns, widths, width - len(indent) - 2 * (len(shown) - 1))
    lines = [
        painted(
            _line([Cell(columns[i].title) for i in shown], columns, widths, False), "dim", colour
        )
    ]
    lines += [_line([row[i] for i in shown], columns, widths, colour) for row in rows]
    return "".join(f"{indent}{line}\n" for line in lines)


def _shrink(columns: Sequence[Column], widths: dict[int, int], available: int) -> None:
    """Take what is too much from the columns that may be cut, the widest first.

    In a terminal that is narrow indeed, they become narrower than they should.
    """
    for part in (1, 2):
        least = {i: columns[i].least // part for i in widths if columns[i].least}
        excess = sum(widths.values()) - available
        while excess > 0:
            cuttable = [i for i in least if widths[i] > least[i]]
            if not cuttable:
                break
            widest = max(cuttable, key=lambda i: widths[i])
            others = [widths[i] for i in cuttable if i != widest]
            floor = max(least[widest], max(others, default=0) - 1)
            cut = min(excess, widths[widest] - floor)
            widths[widest] -= cut
            excess -= cut


def _line(
    cells: Sequence[Cell], columns: Sequence[Column], widths: dict[int, int], colour: bool
) -> str:
    parts = []
    for position, (i, cell) in enumerate(zip(widths, cells, strict=True)):
        text = clipped(cell.text, widths[i])
        space = " " * (widths[i] - width_of(text))
        last = position == len(cells) - 1
        shown = painted(text, cell.colour, colour)
        parts.append(space + shown if columns[i].right else shown if last else shown + space)
    return "  ".join(parts).rstrip()
