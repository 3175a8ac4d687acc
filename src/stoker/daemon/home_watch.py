"""Noticing that the daemon's home is not its own any more, or that its socket was deleted.

The kernel tells of deletions in the home's directory, so an idle daemon need not look. Where it
can't (other file systems, none of its watches left), each turn looks at the lock anyway.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

from stoker.api.paths import Home

_IN_MOVED_FROM, _IN_DELETE = 0x40, 0x200
_IN_DELETE_SELF, _IN_MOVE_SELF = 0x400, 0x800
_LEFT = _IN_MOVED_FROM | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF

Identity = tuple[int, int]


def identity(path: str) -> Identity | None:
    """Which file is at this path; None if there is none."""
    try:
        stat = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_dev, stat.st_ino


class HomeWatch:
    """What of the home is still as this daemon found or made it."""

    def __init__(self, home: Home, lock_fd: int) -> None:
        self._home = home
        stat = os.fstat(lock_fd)
        self._lock: Identity = (stat.st_dev, stat.st_ino)
        self._database = identity(home.database)
        self._socket: Identity | None = None
        self._fd = _watch(home.root)

    def fileno(self) -> int:
        """Readable when something was deleted in the home; -1 if the kernel does not tell."""
        return self._fd

    def heard(self) -> None:
        """Whatever was deleted: it is looked at."""
        with suppress(BlockingIOError):
            while self._fd >= 0 and os.read(self._fd, 65_536):
                pass

    def has_lock(self) -> bool:
        """Whether the lock that others see is ours; if not, another daemon may start."""
        return _is_still(self._lock, self._home.lock)

    def has_database(self) -> bool:
        """Whether the next daemon here would find our jobs."""
        return _is_still(self._database, self._home.database)

    def socket_made(self) -> None:
        """The socket that is there is ours."""
        self._socket = identity(self._home.socket)

    def has_socket(self) -> bool:
        """Whether clients find us."""
        return _is_still(self._socket, self._home.socket)

    def close(self) -> None:
        """Look no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _is_still(known: Identity | None, path: str) -> bool:
    """False only if it is known: on a network's file system an error may be over in a moment."""
    try:
        return identity(path) == known
    except OSError:
        return True


def _watch(directory: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(directory), _LEFT) < 0:
        os.close(fd)
        return -1
    return fd
