"""Which points may be the best, by how their runs ended: the law that `results` states."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stoker.text.jobs import ENDED_WELL, FINAL_STATES

# One that has ended well; one that is the best only while there is none of those; one that is not.
ENDED, GOING, BARRED = range(3)


def standing_of(states: Iterable[str], value: float | None = 0.0) -> int:
    """How a point stands by the states of its runs and its value, which may have diverged."""
    if value is None or not math.isfinite(value):
        return BARRED
    standing = ENDED
    for state in states:
        if state not in FINAL_STATES:
            standing = GOING
        elif state not in ENDED_WELL:
            return BARRED
    return standing
