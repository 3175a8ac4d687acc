"""Room that is kept for the moment when the disk is full: a file that is there to be given up.

To stop a job or to remove one takes a commit, and the commit takes room. Without a reserve a job
that fills the disk could not be put on record as stopped, nor could old ones be removed to make
room. It is given up in parts: what fills the disk may be quicker than we are, and then there is
another part for when that one has been stopped.

The file is written, not only made large: file systems that leave out holes, or press zeros
together, would keep nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

PART_BYTES = 1024 * 1024
PARTS = 4
# As much again stays free, so that it is not the reserve that fills the disk.
_FREE_BESIDE_BYTES = PARTS * PART_BYTES


class Reserve:
    """The file; how much of it is left is its length."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._left = path.stat().st_size
        except OSError:
            self._left = 0

    @property
    def is_whole(self) -> bool:
        """True if nothing of it was given up."""
        return self._left >= PARTS * PART_BYTES

    def give_up_part(self) -> bool:
        """Let others have some of it; False if nothing is left."""
        shorter = max(0, self._left - 1) // PART_BYTES * PART_BYTES
        if not self._left:
            return False
        self._left = shorter
        try:
            os.truncate(self._path, shorter)
        except OSError:
            self._left = 0  # It was removed.
            return False
        return True

    def fill(self) -> None:
        """Make it whole again if there is room for it, and some more."""
        missing = PARTS * PART_BYTES - self._left
        try:
            if free_bytes(self._path.parent) < missing + _FREE_BESIDE_BYTES:
                return
            fd = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                while self._left < PARTS * PART_BYTES:
                    self._left += os.pwrite(fd, os.urandom(PART_BYTES), self._left)
            finally:
                os.close(fd)
        except OSError:
            return  # What there is of it is as good as it goes.


def free_bytes(directory: Path) -> int:
    """The room that is left there for us."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def room_is_short(directory: Path) -> bool:
    """True if a daemon could hardly start there."""
    try:
        return free_bytes(directory) < PART_BYTES // 2
    except OSError:
        return False


def lengthen(path: Path, by_bytes: int) -> None:
    """Let a file have so much room beyond its end, if that can be had."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.posix_fallocate(fd, os.fstat(fd).st_size, by_bytes)
    except OSError:
        pass
    finally:
        os.close(fd)
