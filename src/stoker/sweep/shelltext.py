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
        elif _is_intricate(shell, at, quotes):
            return None
        elif letter in "'\"" and (not quotes or letter == quotes):
            quotes = "" if quotes else letter
        at += 1
    return quotes


def _is_intricate(shell: str, at: int, quotes: str) -> bool:
    """Backquotes, $'...', $(...) within quotes, ${...} with quotes in it, <<, comments."""
    letter, following = shell[at], shell[at + 1 : at + 2]
    if letter == "`" or (letter == "$" and following == "'" and not quotes):
        return True
    if letter == "$" and following == "(":
        return bool(quotes) or shell[at + 2 : at + 3] == "("
    if letter == "$" and following == "{":
        inside, closing, _ = shell[at + 2 :].partition("}")
        return not closing or any(mark in inside for mark in "'\"`$\\{")
    if quotes:
        return False
    begins_a_word = at == 0 or shell[at - 1] in " \t\n;&|()"
    return (letter == "<" and following == "<") or (letter == "#" and begins_a_word)


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
