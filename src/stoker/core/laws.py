"""What is raised where a law of the core is broken: always a bug of ours, never a user's mistake.

They are raised and not asserted, since `python -O` takes assertions away and must not repeal a law.
An `assert` in the core only tells the type checker what the line before has made sure of.
"""

from __future__ import annotations


class LawBroken(AssertionError):
    """The turn is given up before anything of it is committed."""


class IllegalMove(LawBroken):
    """An event came that can't have happened to its job as it stood."""


class ImpossibleValue(LawBroken):
    """A value was to be made that means nothing."""


class Contradiction(LawBroken):
    """Two parts of the state do not agree."""


def must_agree(holds: bool, *what: object) -> None:
    """Raise Contradiction unless it holds; what is wrong is put into words only then."""
    if not holds:
        raise Contradiction(" ".join(map(str, what)))
