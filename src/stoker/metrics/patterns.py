"""A metric in the user's own words: `loss=final loss (\\S+)`, a name and a regular expression.

There are expressions that backtrack for ever. So one looks at the first bytes of a line only, and
what reads with it bounds its time: CPython looks for signals while it matches, so the timer of
`patience` ends a match that takes too long. The expression is then given up, and that is said. Only
the process's own CPU time counts, since a busy machine is no fault of the expression.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from stoker.errors import UsageError

PATIENCE_S = 2.0
_MOST_CHARS = 1000
_LOOKED_AT = 2048
_AROUND_A_NUMBER = b" \t,;:%'\"()[]{}"


class TooSlow(Exception):
    """An expression took longer than its reader is patient."""


class MetricPattern:
    """A metric, and the expression whose first group (or `value`) is its value, `step` its step."""

    def __init__(self, name: str, expression: re.Pattern[bytes], text: str) -> None:
        self.name = name
        self.text = text  # as it was said
        self._expression = expression
        self._value: int | str = "value" if "value" in expression.groupindex else 1
        self._has_step = "step" in expression.groupindex

    def values(self, line: bytes) -> Iterator[tuple[float | None, float]]:
        """The steps (None if it does not tell) and values that a line has."""
        for found in self._expression.finditer(line, 0, _LOOKED_AT):
            value = _number(found[self._value])
            if value is not None:
                yield _number(found["step"]) if self._has_step else None, value


def read_pattern(text: str) -> MetricPattern:
    """What `--metric` says: NAME=EXPRESSION."""
    name, equals, expression = text.partition("=")
    name = name.strip()
    example = r"write it as in --metric 'loss=final loss (\S+)'"
    if not equals or not name or not expression:
        raise UsageError(f"--metric {text!r} is no name and expression", hint=example)
    if len(name) > 100 or not name.isprintable():
        raise UsageError("--metric has a name that is too long or can't be shown", hint=example)
    if len(expression) > _MOST_CHARS:
        raise UsageError(
            f"the expression of --metric {name} has more than {_MOST_CHARS} characters", example
        )
    try:
        compiled = re.compile(expression.encode())
    except (re.error, RecursionError, OverflowError, UnicodeEncodeError) as error:
        raise UsageError(
            f"the expression of --metric {name} is wrong: {error}", hint=example
        ) from None
    if compiled.groups == 0:
        hint = f"put the number in parentheses: {example}"
        raise UsageError(
            f"the expression of --metric {name} does not say where its value is", hint=hint
        )
    return MetricPattern(name, compiled, text)


@contextmanager
def patience(seconds: float = PATIENCE_S) -> Iterator[None]:
    """Raise TooSlow if what is done takes longer: for the main thread of a process.

    In another thread no signal arrives. What reads there has a process of its own for it.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("only the main thread can be interrupted")

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _number(text: bytes | None) -> float | None:
    try:
        return None if text is None else float(text.strip(_AROUND_A_NUMBER))
    except ValueError:
        return None
