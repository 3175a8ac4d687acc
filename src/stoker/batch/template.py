"""A command with `{column}` in it, filled in so that a value is always one word of the shell.

Law: whatever a value contains, the shell takes it as text. Where that can't be promised, the
template is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.sweep import shelltext

_BRACES = re.compile(r"\{\{|\}\}|\{([^}]*)(\}?)")


@dataclass(frozen=True, slots=True)
class Template:
    """Text, and between its pieces the names of columns with the quotes around each."""

    pieces: list[str]  # one more than there are columns
    columns: list[str]
    quotes: list[str]  # in which each column stands: none, ' or "

    def filled(self, cells: Mapping[str, str]) -> str:
        """The command for one row."""
        words = [self.pieces[0]]
        for column, quotes, piece in zip(self.columns, self.quotes, self.pieces[1:], strict=True):
            words += (shelltext.put_in(cells[column], quotes, column), piece)
        return "".join(words)


def parse_template(text: str, columns: Sequence[str]) -> Template:
    """Read a template; `{{` and `}}` are plain braces."""
    if not text.strip():
        raise UsageError("the template is empty", "e.g. --template 'python train.py --lr {lr}'")
    known = {name.lower(): name for name in columns}
    template = Template([""], [], [])
    shell = ""  # the command so far, with a letter for each value
    place = 0
    for found in _BRACES.finditer(text):
        plain = text[place : found.start()]
        place = found.end()
        name = found[1]
        if name is None:
            plain += found[0][0]
        shell += plain
        template.pieces[-1] += plain
        if name is None:
            continue
        column = known.get(name.strip().lower())
        if column is None or not found[2]:
            raise UsageError(
                f"the template's {quoted('{' + name + '}')} is not a column",
                f"the columns are {', '.join(columns)}; write {{{{ for a plain brace",
            )
        quotes = shelltext.quoting_at(shell, len(shell))
        if quotes is None:
            raise UsageError(
                f"no value is safe in the template's {{{name}}} after {quoted(shell[-40:])}",
                "put it elsewhere, or put the command into a script",
            )
        shell += "x"
        template.columns.append(column)
        template.quotes.append(quotes)
        template.pieces.append("")
    template.pieces[-1] += text[place:]
    return template
