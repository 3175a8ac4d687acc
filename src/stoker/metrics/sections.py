"""To which part of a line a metric belongs: keys of JSON or a dict around it, and words before it.

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


_SECTION = rb"(?i:train|training|val|valid|validation|test|testing|eval|evaluation|dev)"
_HEADING = re.compile(rb"(?<![\w\x80-\xff./@%\\:\"'-])" + _SECTION + rb"(?=[ ]?:)")
_QUALIFIED = re.compile(rb"(" + _SECTION + rb")[ ]")
_HAS_SECTION = re.compile(rb"(?:.*[^a-zA-Z])?" + _SECTION + rb"(?![a-zA-Z])")
# Of the whole training, though they may stand behind `train loss 0.5`.
_OF_ALL = re.compile(
    rb"(?i:.*(?:lr|learning_rate|norm|mem|memory|time|speed|throughput|eps|epsilon|momentum|scale))"
)


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


class Headings:
    """The words before metrics that say of which part of a training these are.

    As in `train: loss 0.5 acc 0.6 | val: loss 0.9 acc 0.4`, up to the next such word. Without a
    colon, as in `train Loss: 0.5 Acc: 0.6`, only if the first metric of the line has one.
    """

    def __init__(self, text: bytes, names: set[int]) -> None:
        """`names` are the places of words that name a number themselves, as in `test: 0.67`."""
        self._text = text
        found = [one for one in _HEADING.finditer(text) if one.start() not in names]
        self._places = [one.end() for one in found]
        self._words = [one[0].decode() for one in found]
        self._word: str | None = ""  # of the last metric's own name; None if the first has none
        self._under = 0

    def prefix(self, name_at: slice) -> str:
        """What comes before the name of the line's next metric."""
        raw, under = self._text[name_at], bisect_right(self._places, name_at.start)
        if under != self._under:
            self._under, self._word = under, ""
        if qualified := _QUALIFIED.match(raw):
            if self._word is not None:
                self._word = qualified[1].decode()
            return ""
        if _HAS_SECTION.match(raw):
            self._word = None
            return ""
        if self._word:
            return "" if _OF_ALL.fullmatch(raw) else f"{self._word}_"
        if under:
            return f"{self._words[under - 1]}_"
        self._word = None
        return ""
