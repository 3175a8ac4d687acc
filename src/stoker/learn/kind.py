"""The kind of a job: its program and options with their values left out.

Runs of one kind are taken to be alike: `train.py --lr 0.1` and `train.py --lr 0.01` are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

MOST_CHARS = 500
_NUMBERS_BEGIN = frozenset(".0123456789iInN")


# A word of a command as far as it tells the kind: itself; True: whatever follows an option as its
# value; False: a number that stands alone.
_Pattern = list[str | bool]
_Fixed = Callable[[Sequence[str]], str | tuple[str, ...]]


class Kinds:
    """The kinds of commands that come together, most of which differ in their values alone."""

    def __init__(self) -> None:
        self._kind = ""
        # What the last one was: so many words, those that stay, and the places of the others.
        self._count = 0
        self._fixed_of: _Fixed = tuple
        self._fixed: str | tuple[str, ...] = ()
        self._open: list[tuple[int, bool]] = []

    def of(self, argv: Sequence[str], shell: str | None) -> str:
        """The kind of a command, as `kind_of` says it."""
        words = argv if shell is None else shell.split()
        if len(words) == self._count and self._fixed_of(words) == self._fixed:
            for place, is_value in self._open:
                word = words[place]
                if is_value:
                    if word[:1] == "-" or "=" in word:
                        break
                elif not (word.isdigit() and word.isascii()):
                    break
            else:
                return self._kind
        self._kind, pattern = _read(words)
        self._remember(words, pattern)
        return self._kind

    def _remember(self, words: Sequence[str], pattern: _Pattern) -> None:
        fixed = [place for place, known in enumerate(pattern) if isinstance(known, str)]
        self._count = len(pattern)
        self._fixed_of = itemgetter(*fixed) if fixed else lambda words: ()
        self._fixed = self._fixed_of(words)
        self._open = [(n, known) for n, known in enumerate(pattern) if isinstance(known, bool)]


def kind_of(argv: Sequence[str], shell: str | None) -> str:
    """The kind of a command."""
    return _read(argv if shell is None else shell.split())[0]


def _read(words: Sequence[str]) -> tuple[str, _Pattern]:
    kept = list(words[:1])
    pattern: _Pattern = [*kept]
    value_follows = False
    for word in words[1:]:
        # Many of these are read at once: most words are told by how they begin.
        first = word[:1]
        known: str | bool = word
        if first == "-" and not (word[1:2] in _NUMBERS_BEGIN and _is_number(word)):
            name, has_value, _ = word.partition("=")
            kept.append(name)
            pattern.append(word)
            value_follows = not has_value
            continue
        if "=" in word:
            kept.append(word.partition("=")[0] + "=")
        elif value_follows:
            known = True
        elif _is_number(word):
            known = False
        else:
            kept.append(word)
        pattern.append(known)
        value_follows = False
    return " ".join(kept)[:MOST_CHARS], pattern


def _is_number(word: str) -> bool:
    # Most words are none, and an exception costs more than all the rest.
    if word.lstrip("+-")[:1] not in _NUMBERS_BEGIN:
        return False
    try:
        float(word)
    except ValueError:
        return False
    return True
