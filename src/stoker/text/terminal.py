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

_LEAST_HEAD = 3  # letters of the beginning, so that it is known what a row is
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
    """Texts cut to a width in their middle, of which the words are kept in which they differ.

    Rows of a sweep or a feed begin alike and often end alike: what tells them apart is in between,
    at several places. Only texts of the same form are compared: the same options, as many words.
    """
    forms: dict[tuple[str, ...], list[list[str]]] = {}
    split = {text: _words(text) for text in dict.fromkeys(texts) if width_of(text) > width}
    for words in split.values():
        forms.setdefault(_form(words), []).append(words)
    told_apart = {form: _differences(rows) for form, rows in forms.items()}
    return [
        text
        if text not in split
        else _elided(text, split[text], *told_apart[_form(split[text])], width)
        for text in texts
    ]


def _differences(rows: list[list[str]]) -> tuple[list[int], int]:
    """Which words differ between rows, and how many letters of the first one they share."""
    differ = [n for n, found in enumerate(zip(*rows, strict=True)) if len(set(found)) > 1]
    firsts = [words[0] for words in rows]
    # What the first and the last of them share, by the alphabet, all of them share.
    pairs = enumerate(zip(min(firsts), max(firsts), strict=False))
    return differ, next((n for n, (a, b) in pairs if a != b), 0)


def _words(text: str) -> list[str]:
    """The words of a command, or the settings of a name such as lr=0.1,seed=2."""
    return text.split(" ") if " " in text else text.split(",")


def _form(words: list[str]) -> tuple[str, ...]:
    first, *rest = words
    names = (word if word[:1] == "-" else word[: word.find("=") + 1] for word in rest)
    return (first[: first.find("=") + 1] or first[:8], *names)


def _elided(text: str, words: list[str], differ: list[int], shared: int, width: int) -> str:
    """One text cut so that it keeps its beginning and, as far as there is room, what differs."""
    if not text.isascii() or width < 8:
        return clipped(text, width)
    mark = cut_mark()
    if not any(differ):  # There is nothing to tell it from, or only the first word does.
        tail = text[shared:] if differ else text[-(width // 2) :]
        left = max(width - 1 - len(tail), width // 4)
        return clipped(text if differ and left >= shared else text[:left] + mark + tail, width)
    between = " " if " " in text else ","
    before = between.join([*words[: differ[0]], ""])
    named = _joined(words, differ, between, by_name=True)
    bare = _joined(words, differ, between, by_name=False)
    least = min(len(before), _LEAST_HEAD + 1)
    kept = next((one for one in (named, bare) if len(one) + least <= width), None)
    if kept is None:
        values = [_value(words[n]) for n in differ]
        tried = (mark.join(one[-most:] for one in values) for most in range(width, 0, -1))
        return next((one for one in tried if len(one) <= width), clipped(bare, width))
    whole = before + kept
    if len(whole) < width:
        return clipped(text, width) if text.startswith(whole) else whole
    return before[: width - 1 - len(kept)] + mark + kept if before else kept


def _joined(words: list[str], differ: list[int], between: str, *, by_name: bool) -> str:
    """The words that differ, with a mark for those left out; by name: with their options."""
    kept = ""
    last = None
    for n in differ:
        option = by_name and n and words[n - 1][:1] == "-" and n - 1 != last
        first = n - 1 if option else n
        if last is not None:
            kept += between if first == last + 1 else cut_mark()
        kept += (
            f"{words[n - 1]} {words[n]}" if option else words[n] if by_name else _value(words[n])
        )
        last = n
    return kept


def _value(word: str) -> str:
    return word[word.find("=") + 1 :]


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
        same = [i for i in shown if len(texts[i]) > 1 and len({*texts[i]} - {""}) == 1]
        available = width - len(indent) - 2 * (len(shown) - 1)
        # What is the same in all rows tells none from another, and so it gives way first.
        _shrink(widths, available, {i: columns[i].least for i in same})
        _shrink(widths, available, {i: columns[i].least for i in shown})
        # In a terminal that is narrow indeed, they become narrower than they should.
        _shrink(widths, available, {i: columns[i].least // 2 for i in shown})
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


def _shrink(widths: dict[int, int], available: int, least: dict[int, int]) -> None:
    """Take what is too much from the columns that may be cut, the widest first."""
    excess = sum(widths.values()) - available
    while excess > 0:
        cuttable = [i for i in least if least[i] and widths[i] > least[i]]
        if not cuttable:
            break
        widest = max(cuttable, key=lambda i: widths[i])
        others = [widths[i] for i in cuttable if i != widest]
        floor = max(least[widest], max(others, default=0) - 1)
        cut = min(excess, widths[widest] - floor)
        widths[widest] -= cut
        excess -= cut
