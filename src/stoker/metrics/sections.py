"""To which part of a line a metric belongs: the keys of JSON or a Python dict around its name.

Pure, and by the text alone, as all of a line's meaning: what is found here is matched literally by
a template.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from stoker.metrics.vocabulary import name_of

# An apostrophe within a word begins no text. Texts are skipped, so that braces in them are none.
_TOKENS = re.compile(
    rb"(?P<text>\"(?:[^\"\\]|\\.){0,1000}+\"|(?<!\w)'(?:[^'\\]|\\.){0,1000}+')"
    rb"(?P<opens>[ \t]*:[ \t]*[\[{])?|(?P<bare>[\[{])|(?P<closes>[\]}])"
)
_KEY = re.compile(rb"[^\"'\\<>&\x00-\x1f]{1,100}")
_MOST_DEPTH = 20
_APART = "metrics"  # as in Stoker's own reports, whose metrics are not named after it


class Around(NamedTuple):
    """What is around a place of a line."""

    prefix: str | None  # None if it can't be part of a name
    keys: tuple[slice, ...]


_NOTHING = Around("", ())


class Nesting:
    """The keys around each place of a line."""

    def __init__(self, text: bytes) -> None:
        self._places = [0]
        self._around = [_NOTHING]
        if b"{" not in text:
            return
        stack: list[Around] = []
        now = _NOTHING
        for found in _TOKENS.finditer(text):
            if found["opens"] or found["bare"]:
                stack.append(now)
                if found["opens"]:
                    now = _within(now, text, slice(found.start() + 1, found.end("text") - 1))
            elif found["closes"] and stack:
                now = stack.pop()
            else:
                continue
            self._places.append(found.end())
            self._around.append(now)

    def at(self, place: int) -> Around:
        """What is around a place."""
        return self._around[bisect_right(self._places, place) - 1]


def _within(around: Around, text: bytes, key: slice) -> Around:
    name = name_of(text[key]) if _KEY.fullmatch(text[key]) else None
    if name is None or around.prefix is None or len(around.keys) >= _MOST_DEPTH:
        return Around(None, ())
    is_apart = name == _APART and not around.keys
    return Around(around.prefix if is_apart else f"{around.prefix}{name}/", (*around.keys, key))
