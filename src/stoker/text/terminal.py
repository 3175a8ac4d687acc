"""Text for a terminal: escaped, measured, coloured, laid out in columns.

Names, commands and reasons are hostile text: nothing reaches a terminal that is not printable.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TextIO

_COLOURS = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34",
    "magenta": "35", "cyan": "36",
}  # fmt: skip


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
    return character.encode("unicode_escape").decode("ascii")


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


def elided(texts: list[str], width: int) -> list[str]:
    """Texts cut to a width in their middle; of texts that begin alike, where they differ is shown.

    Rows of a sweep begin alike and often end alike: what tells them apart is in between.
    """
    alike: dict[str, list[str]] = {}
    for text in texts:
        if width_of(text) > width:
            alike.setdefault(text[:8], []).append(text)
    shared = {}
    for beginning, some in alike.items():
        # What the first and the last of them share, by the alphabet, all of them share.
        pairs = enumerate(zip(min(some), max(some), strict=False))
        same = next((i for i, (a, b) in pairs if a != b), 0)
        # Back to the beginning of the word, and of the option that it belongs to.
        words = some[0][:same].rpartition(" ")[0]
        option = words.rpartition(" ")[2]
        same = min(same, len(words) + 1) if words else same
        shared[beginning] = same - len(option) - 1 if option.startswith("-") else same
    return [
        text if width_of(text) <= width else _elided(text, width, shared[text[:8]])
        for text in texts
    ]


def _elided(text: str, width: int, shared: int) -> str:
    """One text cut so that it keeps its beginning and what follows the shared part."""
    if not text.isascii() or width < 8:
        return clipped(text, width)
    mark = cut_mark()
    tail = text[shared:] if shared else text[-(width // 2) :]
    head = max(width - 1 - len(tail), width // 4)
    if head >= shared > 0:
        return clipped(text, width)
    return clipped(text[:head] + mark + tail, width)


def cut_mark() -> str:
    """What stands where text was cut, as far as the output can show it."""
    return "…" if speaks_unicode() else "~"


def speaks_unicode() -> bool:
    """Whether the output can show more than ASCII."""
    encoding = getattr(sys.stdout, "encoding", "") or ""
    return encoding.lower().replace("-", "").startswith("utf")


def has_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream (default: stdout) is a terminal."""
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
    """One column of a table, and what stands in it of each item."""

    def __init__(
        self,
        title: str,
        of: str | Callable[[Any], object] = "",
        colour: str | Callable[[Any], str] = "",
        *,
        right: bool = False,
        least: int = 0,
        middle: bool = False,
    ) -> None:
        self.title = title
        self.of = of  # a key of the item, or a function of it; None is shown as nothing
        self.colour = colour
        self.right = right
        self.least = least  # how narrow it may become; 0: it is never cut
        self.middle = middle  # it is cut in the middle, so that rows can be told apart


def table(columns: Sequence[Column], items: Sequence[Any], *, indent: str = "") -> str:
    """A row for each item; columns fit the terminal, and those that are empty are left out."""
    texts: list[list[str]] = []
    colours: list[list[str] | None] = []
    for column in columns:
        of, colour = column.of, column.colour
        found = [item.get(of) for item in items] if isinstance(of, str) else map(of, items)
        texts.append(["" if one is None else escaped(str(one)) for one in found])
        if isinstance(colour, str):
            colours.append([colour] * len(items) if colour else None)
        else:
            colours.append(list(map(colour, items)))
    return table_of_columns(columns, texts, colours, indent=indent)


def table_of_columns(
    columns: Sequence[Column],
    texts: Sequence[list[str]],
    colours: Sequence[list[str] | None],
    *,
    indent: str = "",
) -> str:
    """The same of whole columns, in which the text is printable: quick, however long they are."""
    shown = [i for i in range(len(columns)) if any(texts[i])]
    width = terminal_width()
    colour = wants_colour()
    plain = {i: "".join(texts[i]).isascii() for i in shown}
    widths = {
        i: max(len(columns[i].title), *map(len if plain[i] else width_of, texts[i])) for i in shown
    }
    if width is not None:
        _shrink(columns, widths, width - len(indent) - 2 * (len(shown) - 1))
    titles = [_laid_out([columns[i].title], columns[i], widths[i], True)[0] for i in shown]
    lines = [painted("  ".join(titles).rstrip(), "dim", colour)]
    laid_out = []
    for i in shown:
        column = _laid_out(texts[i], columns[i], widths[i], plain[i])
        paints = colours[i]
        if colour and paints is not None and any(paints):
            column = [_painted(*one) for one in zip(column, paints, strict=True)]
        laid_out.append(column)
    lines += [line.rstrip() for line in map("  ".join, zip(*laid_out, strict=True))]
    return "".join([f"{indent}{line}\n" for line in lines])


def _laid_out(texts: list[str], column: Column, width: int, plain: bool) -> list[str]:
    """Texts cut or filled to a width; `plain` ones have letters of one column each."""
    if column.middle:
        texts = elided(texts, width)
    if plain:
        cut = [text if len(text) <= width else clipped(text, width) for text in texts]
        return [text.rjust(width) for text in cut] if column.right else [
            text.ljust(width) for text in cut
        ]  # fmt: skip
    found = []
    for text in texts:
        kept = clipped(text, width)
        space = " " * (width - width_of(kept))
        found.append(space + kept if column.right else kept + space)
    return found


def _painted(text: str, colour: str) -> str:
    """The text in a colour, the space around it in none."""
    bare = text.strip(" ")
    return text.replace(bare, painted(bare, colour, True), 1) if colour and bare else text


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
