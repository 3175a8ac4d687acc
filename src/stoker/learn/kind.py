"""The kind of a job: its program and options with their values left out.

Runs of one kind are taken to be alike: `train.py --lr 0.1` and `train.py --lr 0.01` are.
"""

from __future__ import annotations

MOST_CHARS = 500
_NUMBERS_BEGIN = frozenset(".0123456789iInN")


def kind_of(argv: tuple[str, ...], shell: str | None) -> str:
    """The kind of a command."""
    words = iter(shell.split() if shell is not None else argv)
    kept = [next(words, "")]
    value_follows = False
    for word in words:
        # One of these is made for every job that comes: most words are told by how they begin.
        first = word[:1]
        if first == "-" and not (word[1:2] in _NUMBERS_BEGIN and _is_number(word)):
            name, has_value, _ = word.partition("=")
            kept.append(name)
            value_follows = not has_value
            continue
        if "=" in word:
            kept.append(word.partition("=")[0] + "=")
        elif not value_follows and not _is_number(word):
            kept.append(word)
        value_follows = False
    return " ".join(kept)[:MOST_CHARS]


def _is_number(word: str) -> bool:
    # Most words are none, and an exception costs more than all the rest.
    if word.lstrip("+-")[:1] not in _NUMBERS_BEGIN:
        return False
    try:
        float(word)
    except ValueError:
        return False
    return True
