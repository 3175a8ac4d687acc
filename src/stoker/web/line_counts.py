"""Which number a line of a log has, without reading the whole log each time.

The newlines before a place are counted from the nearest place at which they were counted already.
A log of many gigabytes is counted in steps: until it is, its lines have no numbers.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections import OrderedDict

from stoker.holes import behind, readable_to

COUNT_S = 0.5
_BLOCK_BYTES = 4 * 1_048_576
_MOST_FILES = 64
_MOST_MARKS = 1_024

Mark = tuple[int, int]  # a place, and the number of newlines before it


class LineCounts:
    """What was counted so far, of the files that were read last."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[int, int], list[Mark]] = OrderedDict()
        self._lock = threading.Lock()

    def number_at(self, fd: int, position: int, hole: tuple[int, int] | None) -> int | None:
        """The number, from 1, of the line that begins at a place; None if that takes long."""
        about = os.fstat(fd)
        key = (about.st_dev, about.st_ino)
        at, newlines = self._nearest(key, position, about.st_size)
        until = time.monotonic() + COUNT_S
        while at < position:
            at = min(behind(at, hole), position)
            length = min(_BLOCK_BYTES, readable_to(at, position, hole) - at)
            block = os.pread(fd, length, at) if length > 0 else b""
            if not block:
                break
            at += len(block)
            newlines += block.count(b"\n")
            if time.monotonic() > until and at < position:
                self._note(key, (at, newlines))
                return None
        self._note(key, (at, newlines))
        return newlines + 1

    def _nearest(self, key: tuple[int, int], position: int, size: int) -> Mark:
        with self._lock:
            marks = self._files.setdefault(key, [])
            self._files.move_to_end(key)
            if len(self._files) > _MOST_FILES:
                self._files.popitem(last=False)
            if marks and marks[-1][0] > size:  # The file was emptied, and begins anew.
                marks.clear()
            place = bisect_right(marks, (position, size))
            return marks[place - 1] if place else (0, 0)

    def _note(self, key: tuple[int, int], mark: Mark) -> None:
        with self._lock:
            marks = self._files.setdefault(key, [])
            place = bisect_right(marks, mark)
            if place == 0 or marks[place - 1] != mark:
                marks.insert(place, mark)
            if len(marks) > _MOST_MARKS:
                del marks[1::2]
