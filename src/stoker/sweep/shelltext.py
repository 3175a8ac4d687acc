"""Values put into a string for the shell so that they stay values, whatever is in them.

A value that has only harmless letters is put in as it is. Any other is quoted for where it stands:
the quotes around it are closed, the value follows in quotes of its own, and they are opened again.
Where the shell's own rules are too intricate to be sure, such a value is refused.
"""

from __future__ import annotations

import re

from stoker.errors import UsageError
from stoker.quantities import quoted

_HARMLESS = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_SEVERAL_COMMANDS = re.compile(r"[|&;<>()`#\n]")


def is_harmless(value: str) -> bool:
    """Whether a value means itself in every place of a shell's line."""
    return _HARMLESS.fullmatch(value) is not None


def in_quotes(value: str) -> str:
    """A value as one word of any shell.

    A backslash stands outside the quotes: within them some shells (fish) give it a meaning.
    """
    if is_harmless(value):
        return value
    parts = re.split(r"(['\\])", value)
    words = [("\\" + part if part in "'\\" else f"'{part}'") for part in parts if part]
    return "".join(words) or "''"


def is_one_command(shell: str) -> bool:
    """Whether words that are appended surely become arguments of the command."""
    return _SEVERAL_COMMANDS.search(shell) is None


def quoting_at(shell: str, place: int) -> str | None:
    """Which quotes are open at a place of a shell's line: "", ' or "; None if it can't be told."""
    quotes = ""
    at = 0
    while at < place:
        letter = shell[at]
        if quotes == "'":
            if letter == "\\" and shell[at + 1 : at + 2] in ("'", "\\"):
                return None  # Most shells take it as it is, but some take the quote after it.
            quotes = "" if letter == "'" else quotes
        elif letter == "\\":
            if at + 1 >= place:
                return None  # The backslash would take the value's first letter.
            at += 1
        elif (end := _end_of_expansion(shell, at, quotes)) is None:
            return None
        elif end > at:
            at = end
        elif letter in "'\"" and (not quotes or letter == quotes):
            quotes = "" if quotes else letter
        at += 1
    return quotes


def _end_of_expansion(shell: str, at: int, quotes: str) -> int | None:
    """Where what the shell expands here ends; the place itself if that is nothing.

    None for what is not simple, or not over: $'...', <<, comments, quotes within ${...}, `...`
    or "$(...)". Words within $(...) without quotes around it are read as any others.
    """
    letter, following = shell[at], shell[at + 1 : at + 2]
    if not quotes:
        begins_a_word = at == 0 or shell[at - 1] in " \t\n;&|()"
        if letter + following in ("$'", "<<") or (letter == "#" and begins_a_word):
            return None
    opening, closing = "", ""
    if letter == "`":
        opening = closing = "`"
    elif letter == "$" and following == "{":
        opening, closing = "${", "}"
    elif letter == "$" and following == "(":
        if shell[at + 2 : at + 3] == "(":
            opening, closing = "$((", "))"
        elif quotes:
            opening, closing = "$(", ")"
    if not opening:
        return at
    inside, closed, _ = shell[at + len(opening) :].partition(closing)
    intricate = "'\"`$\\{" if closing == "}" else "'\"`$\\{(#<"
    if not closed or any(mark in inside for mark in intricate):
        return None
    return at + len(opening) + len(inside) + len(closing) - 1


def put_in(value: str, quotes: str | None, name: str) -> str:
    """The text that stands for a value where these quotes are open."""
    if is_harmless(value):
        return value
    if quotes is None:
        raise UsageError(
            f"{name}={quoted(value)} can't be put into that shell command safely",
            "write the command as several words, without quotes around all of it",
        )
    if not quotes:
        return in_quotes(value)
    # Empty quotes of the other kind keep two quotes apart that some shells would take for one.
    other = '"' if quotes == "'" else "'"
    return f"{quotes}{other * 2}{in_quotes(value)}{other * 2}{quotes}"
