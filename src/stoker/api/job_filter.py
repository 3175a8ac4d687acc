"""The one language in which jobs are filtered: in `stoker ls`, in `stoker top` and on the page.

    state:failed group:sweep name:lr* gpu:2 since:2h     a job must match every word
    resnet 17                          text in its name, group or command, or its whole id
    state:failed,lost gpu:0-3          any of these values
    -state:succeeded -resnet           not so
    name:"my run" "lr:0.1"             quotes keep spaces, commas and colons as they are

    state   a state, or its first letters
    group, name, user   the whole of it; * and ? stand for any letters, for any one letter
    gpu     the number or id of a GPU that the job's latest attempt has or had
    since   queued, started or ended within this time ("2h"), or after a moment ("22:00" is the
            last one, "2026-12-01", "2026-12-01T08:00")

A word that looks like `key:value` with another key is refused: it is more often a slip than a text.
Pure: the time is told. Front ends send the text as it is, and the daemon reads it, so that the
language is the same everywhere; they may read it themselves to tell of a slip at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stoker.errors import UsageError, quoted
from stoker.moments import past_moment_ms
from stoker.quantities import gpu_ids
from stoker.text.jobs import STATES
from stoker.text.suggest import meant, nearest

# Each key with an example, which is shown when something is wrong with its value.
KEYS = {
    "state": "state:failed", "group": "group:sweep", "name": "name:lr*", "user": "user:ada",
    "gpu": "gpu:0-3", "since": "since:2h",
}  # fmt: skip
TEXT = "text"  # the key of a word without one
MOST_WORDS = 20

_VALUE = r"""(?:"[^"]*"?|'[^']*'?|[^\s,"'][^\s,]*|)"""
_WORD = re.compile(
    rf"""(?P<no>-(?=[^\s-]))?
    (?:(?P<key>[A-Za-z_]+):(?P<values>{_VALUE}(?:,{_VALUE})*)|(?P<text>"[^"]*"?|'[^']*'?|\S+))""",
    re.VERBOSE,
)
_ONE_VALUE = re.compile(_VALUE)


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a filter: a job matches if any of the values does, or none if `negated`."""

    key: str  # of KEYS, or TEXT
    values: tuple[str, ...]  # for `since` the moment in milliseconds
    negated: bool = False


def parsed(text: str, now_ms: int) -> tuple[Term, ...]:
    """The words of a filter, all of which a job must match; a wrong one is refused with a hint."""
    terms = tuple(_terms(text, now_ms))
    if len(terms) > MOST_WORDS:
        raise UsageError("this filter has too many words", f"use at most {MOST_WORDS}")
    return terms


def _terms(text: str, now_ms: int) -> Iterator[Term]:
    for word in _WORD.finditer(text):
        negated = word["no"] is not None
        if word["key"] is None:
            if plain := _unquoted(word["text"]):
                yield Term(TEXT, (plain,), negated)
            continue
        key = word["key"].lower()
        if key not in KEYS:
            raise _no_such_key(key, word.group())
        values = _values(word["values"])
        if not values:
            raise UsageError(f"{key}: has no value", f"e.g. {KEYS[key]}")
        yield Term(key, _read(key, values, now_ms), negated)


def _read(key: str, values: list[str], now_ms: int) -> tuple[str, ...]:
    match key:
        case "state":
            return tuple(state for value in values for state in _states(value))
        case "gpu":
            return tuple(gpu for value in values for gpu in gpu_ids(value))
        case "since":
            # Of several moments the earliest lets through what any of them does.
            return (str(min(past_moment_ms(value, now_ms) for value in values)),)
        case _:
            return tuple(values)


def _states(value: str) -> list[str]:
    found = [state for state in STATES if state.startswith(value.lower())]
    if not found:
        guess = meant(value, list(STATES))
        raise UsageError(
            f"there is no state {quoted(value)}",
            f"did you mean state:{guess}?" if guess else f"states are {', '.join(STATES)}",
        )
    return found


def _no_such_key(key: str, word: str) -> UsageError:
    guess = nearest(key, list(KEYS))
    instead = f"did you mean {guess}: (or" if guess else f"use {', '.join(KEYS)} (or"
    return UsageError(
        f"there is no filter {quoted(key + ':')}",
        f'{instead} "{word.lstrip("-")}" in quotes, to search for the text)',
    )


def _values(text: str) -> list[str]:
    return [plain for one in _ONE_VALUE.findall(text) if (plain := _unquoted(one))]


def _unquoted(text: str) -> str:
    """A quote that is not closed ends with the filter, as it does while it is being typed."""
    mark = text[:1]
    return text.strip(mark) if mark in ('"', "'") else text
