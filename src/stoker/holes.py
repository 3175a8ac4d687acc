"""The hole in a log: where its middle was left out, nothing is on disk and zeros would be read.

What is left out is told by a line in the log itself, right before the hole: see
executors/log_cap.py. Readers go on behind the hole.
"""

from __future__ import annotations

import os


def hole_in(fd: int, size: int) -> tuple[int, int] | None:
    """Where the first hole of a file begins and ends; None if it has none."""
    if os.fstat(fd).st_blocks * 512 >= size:
        return None
    try:
        start = os.lseek(fd, 0, os.SEEK_HOLE)
        if start >= size:
            return None
        return start, min(os.lseek(fd, start, os.SEEK_DATA), size)
    except OSError:  # Nothing but a hole follows, or this file system can't tell.
        return None


def behind(position: int, hole: tuple[int, int] | None) -> int:
    """The position, or the end of the hole that it is in."""
    return hole[1] if hole is not None and hole[0] <= position < hole[1] else position


def readable_to(position: int, end: int, hole: tuple[int, int] | None) -> int:
    """How far can be read from a position before the hole comes, or the end."""
    return hole[0] if hole is not None and position < hole[0] < end else end
