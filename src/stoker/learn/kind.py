"""The kind of a job: its program and options with their values left out.

Runs of one kind are taken to be alike: `train.py --lr 0.1` and `train.py --lr 0.01` are.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_CHARS = 500
_NUMBERS_BEGIN = frozenset(".0123456789iInN")


# A word of a command as far as it tells the kind: itself; True: whatever follows an option as its
# value; False: a number that stands alone.
_Pattern = list[str | bool]


class Kinds:
    """The kinds of commands that come together, most of which differ in their values alone."""

    def __init__(self) -> None:
        self._kind = ""
        self._pattern: _Pattern = []

    def of(self, argv: Sequence[str], shell: str | None) -> str:
        """The kind of a command, as `kind_of` says it."""
        words = argv if shell is None else shell.split()
        pattern = self._pattern
        if len(words) == len(pattern):
            for word, known in zip(words, pattern, strict=True):
                if known is True:
                    if word[:1] == "-" or "=" in word:
                        break
                elif known is False:
                    if not (word.isdigit() and word.isascii()):
                        break
                elif word != known:
                    break
            else:
                return self._kind
        self._kind, self._pattern = _read(words)
        return self._kind


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
