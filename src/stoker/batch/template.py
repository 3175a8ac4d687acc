"""A command with `{column}` in it, filled in so that a value is always one word of the shell.

Law: whatever a value contains, the shell takes it as text. Where that can't be promised, the
template is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.errors import UsageError
from stoker.quantities import quoted


@dataclass(frozen=True, slots=True)
class Template:
    """Text, and between its pieces the names of columns with the quotes around each."""

    pieces: list[str]  # one more than there are columns
    columns: list[str]
    quotes: list[str]  # in which each column stands: none, ' or "

    def filled(self, cells: Mapping[str, str]) -> str:
        """The command for one row."""
        words = [self.pieces[0]]
        for column, mark, piece in zip(self.columns, self.quotes, self.pieces[1:], strict=True):
            # The quotes of the template are closed around the value, which brings its own.
            words += (mark, shlex.quote(cells[column]), mark, piece)
        return "".join(words)


def parse_template(text: str, columns: Sequence[str]) -> Template:
    """Read a template; `{{` and `}}` are plain braces."""
    if not text.strip():
        raise UsageError("the template is empty", "e.g. --template 'python train.py --lr {lr}'")
    return _Reader(text, columns).read()


class _Reader:
    """Goes through a template as a shell would, as far as quotes are concerned."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self._text = text
        self._known = {name.lower(): name for name in columns}
        self._at = 0
        self._quote = ""
        self._in_backticks = self._in_comment = self._substitutes = False
        self._piece: list[str] = []
        self._template = Template([], [], [])

    def read(self) -> Template:
        while self._at < len(self._text):
            if self._text[self._at] == "{" and self._next() != "{":
                self._placeholder()
            elif self._text[self._at : self._at + 2] in ("{{", "}}"):
                self._piece.append(self._text[self._at])
                self._at += 2
            else:
                self._plain()
        self._template.pieces.append("".join(self._piece))
        return self._template

    def _next(self) -> str:
        return self._text[self._at + 1 : self._at + 2]

    def _plain(self) -> None:
        character = self._text[self._at]
        taken = 1
        if self._in_comment:
            self._in_comment = character != "\n"
        elif self._quote == "'":
            if character == "'":
                self._quote = ""
        elif character == "\\":
            taken = 2
        elif character == "`":
            self._in_backticks = not self._in_backticks
        elif self._quote == '"':
            if character == '"':
                self._quote = ""
                self._substitutes = False
            elif character == "$" and self._next() == "(":
                self._substitutes = True
        elif character in "'\"":
            if character == "'" and self._text[self._at - 1 : self._at] == "$":
                raise UsageError("a template can't have $'...' in it", "use plain quotes")
            self._quote = character
        elif character == "#" and (not self._at or self._text[self._at - 1] in " \t\n;&|("):
            self._in_comment = True
        elif character == "<" and self._next() == "<":
            raise UsageError("a template can't have << in it", "put it into a script")
        self._piece.append(self._text[self._at : self._at + taken])
        self._at += taken

    def _placeholder(self) -> None:
        end = self._text.find("}", self._at)
        name = self._text[self._at + 1 : end] if end > 0 else self._text[self._at + 1 :]
        column = self._known.get(name.strip().lower())
        if end < 0 or column is None:
            raise UsageError(
                f"the template's {quoted('{' + name + '}')} is no column",
                f"the columns are {', '.join(self._known.values())}; a plain brace is written {{{{",
            )
        if self._in_backticks or self._substitutes or self._in_comment:
            where = "a comment" if self._in_comment else "a command substitution in quotes"
            raise UsageError(
                f"the template's {{{name}}} stands in {where}, where no value is safe",
                "put it elsewhere, or into a script",
            )
        self._template.pieces.append("".join(self._piece))
        self._template.columns.append(column)
        self._template.quotes.append(self._quote)
        self._piece = []
        self._at = end + 1
