"""Lines of styled text that know nothing of how they are shown: in a live view, or printed once.

Law: whatever becomes a piece is printable. Styles are words of a small fixed set that can be read
on a dark and on a light terminal alike, and no meaning is carried by a colour alone.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from stoker.text.terminal import clipped, cut_mark, escaped, speaks_unicode, width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

Piece = tuple[str, str]  # printable text, and its style: words such as "bold red"
Line = list[Piece]

COLOURS = {"red": 1, "green": 2, "magenta": 5}  # The others can't be read on white, or on black.
_CODES = {"bold": "1", "dim": "2", "reverse": "7"} | {name: f"3{n}" for name, n in COLOURS.items()}


class Glyphs(NamedTuple):
    """The signs that are no letters, as far as a terminal can show them."""

    levels: str  # from nothing to all, for sparklines
    ours: str  # memory that our jobs use
    others: str  # memory that other processes use
    reserved: str  # memory that is set aside for our jobs, and not used
    free: str
    rule: str
    edge: str  # between panes side by side
    mark: str
    bullet: str
    degree: str


BLOCKS = Glyphs(
    levels="▁▂▃▄▅▆▇█", ours="█", others="▒", reserved="░", free="·", rule="─", edge="│",
    mark="●", bullet="·", degree="°C",
)  # fmt: skip
LETTERS = Glyphs(
    levels="_.-~=+*#", ours="#", others="x", reserved="=", free=".", rule="-", edge="|",
    mark="*", bullet="-", degree="C",
)  # fmt: skip

# Settled here, since the live view puts another stdout in the place of the terminal's.
_CUT = cut_mark()

# The fonts of these have no blocks of eight heights.
_PLAIN_TERMINALS = frozenset(("linux", "dumb", "vt100", "vt102", "vt220", "ansi"))


def glyphs_of_this_terminal() -> Glyphs:
    """The signs that this terminal can show."""
    plain = os.environ.get("TERM", "") in _PLAIN_TERMINALS or not speaks_unicode()
    return LETTERS if plain else BLOCKS


def piece(text: str, style: str = "") -> Piece:
    """Text of whatever origin, made printable."""
    return escaped(text), style


def width(line: Sequence[Piece]) -> int:
    """How many columns a line takes."""
    return sum(width_of(text) for text, _ in line)


def cell(text: str, columns: int, style: str = "", *, right: bool = False) -> Line:
    """Text cut or filled to exactly so many columns; only the text itself is styled."""
    shown = clipped(escaped(text), columns, _CUT)
    space = (" " * (columns - width_of(shown)), "")
    line = [(shown, style), space] if not right else [space, (shown, style)]
    return [one for one in line if one[0]]


def spaced(*cells: Sequence[Piece]) -> Line:
    """Cells with a space between them; those that have no width are left out."""
    line: Line = []
    for one in cells:
        if one:
            line += [(" ", ""), *one] if line else one
    return line


def fitted(line: Sequence[Piece], columns: int) -> Line:
    """The line cut or filled to exactly so many columns."""
    found: Line = []
    room = columns
    for text, style in line:
        if room <= 0:
            break
        shown = clipped(text, room, _CUT)
        room -= width_of(shown)
        found.append((shown, style))
        if shown != text:
            break
    if room > 0:
        found.append((" " * room, ""))
    return found


def wrapped(line: Line, columns: int, indent: int = 0) -> list[Line]:
    """A line on as many rows as it takes; all but the first are indented."""
    if columns <= 0 or width(line) <= columns:
        return [line]
    indent = min(indent, columns // 2)
    rows: list[Line] = [[]]
    room = columns
    for text, style in line:
        while text:
            taken = _fitting(text, room)
            if taken:
                rows[-1].append((text[:taken], style))
                room -= width_of(text[:taken])
                text = text[taken:]
            elif room < columns - indent:
                rows.append([(" " * indent, "")] if indent else [])
                room = columns - indent
            else:
                text = ""  # Not even one letter has room in such a narrow place.
    return rows


def _fitting(text: str, room: int) -> int:
    """How many letters have room."""
    if text.isascii():
        return min(len(text), room)
    used = 0
    for count, letter in enumerate(text):
        used += width_of(letter)
        if used > room:
            return count
    return len(text)


def pointed_at(line: Sequence[Piece]) -> Line:
    """The line under the cursor: reversed, and without colours of its own.

    Colours that can be read on the terminal's own background may vanish on another.
    """
    return [(text, "bold reverse" if "bold" in style else "reverse") for text, style in line]


def plain(line: Sequence[Piece]) -> str:
    """The text alone."""
    return "".join(text for text, _ in line)


def printed(line: Sequence[Piece], *, colours: bool) -> str:
    """The line for a terminal, or for a pipe; without the space at its end."""
    last = len(line)
    while last and not line[last - 1][0].strip() and not line[last - 1][1]:
        last -= 1
    if not colours:
        return plain(line[:last]).rstrip()
    parts = []
    for text, style in line[:last]:
        codes = ";".join(_CODES[word] for word in style.split() if word in _CODES)
        parts.append(f"\x1b[{codes}m{text}\x1b[0m" if codes else text)
    return "".join(parts).rstrip(" ")
