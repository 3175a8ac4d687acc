"""One entry of a file of jobs: where it stands, and what it says, in the user's own words.

Everything stays text until the options of `add` have read it, so that 22:00 or 1e3 mean in a file
what they mean on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.errors import UsageError

Value = str | list[str] | dict[str, str]

# What GPUPeasy calls these two.
_ALIASES = {"jobname": "name", "outfile": "out"}


class Entry(NamedTuple):
    """One job of a file. A tuple, since a file may have a hundred thousand."""

    line: int  # where it begins, counted from 1
    command: str | list[str]  # for the shell, or words to be run as they are
    values: Mapping[str, Value] = {}  # by the key of an option of `add`
    params: Mapping[str, str] = {}  # what else it says, kept with the job
    numbered: bool = False  # the command gets `--id=N`, a number that no other run has had


def option_key(name: str) -> str:
    """How a column or key names an option: "Time-Limit", "time limit" are `time_limit`."""
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    return _ALIASES.get(key, key)


def located(source: str, line: int, error: UsageError) -> UsageError:
    """The same error, with the place where it was made."""
    return UsageError(f"{source}, line {line}: {error.message}", error.hint)


@dataclass(slots=True)
class Complaints:
    """What is wrong with a file: all of it is looked for, and told in one line."""

    source: str
    errors: list[tuple[int, UsageError]] = field(default_factory=list)

    def add(self, line: int, error: UsageError) -> None:
        """One more bad entry."""
        self.errors.append((line, error))

    def raise_any(self) -> None:
        """Refuse the file if anything is wrong with it."""
        if not self.errors:
            return
        self.errors.sort(key=lambda found: found[0])
        line, error = self.errors[0]
        others = list(dict.fromkeys(other for other, _ in self.errors if other != line))
        if others:
            more = f"{_lines(others)} not valid either"
            hint = f"{error.hint}; {more}" if error.hint else more
            error = UsageError(error.message, hint)
        raise located(self.source, line, error)


def _lines(lines: Iterable[int]) -> str:
    numbers = [str(line) for line in lines]
    if len(numbers) == 1:
        return f"line {numbers[0]} is"
    shown = ", ".join(numbers[:5])
    return f"lines {shown}{'' if len(numbers) <= 5 else f' and {len(numbers) - 5} more'} are"
