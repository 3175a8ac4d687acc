"""The daemon's own log: bounded, and a line that repeats itself is counted.

Others write to the same file (the keeper, the page), so it is not replaced when it is full: what it
has is copied beside it, and it begins anew.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress

MOST_BYTES = 8 * 1024 * 1024
MOST_ALIKE = 10  # lines of one kind in a while; the others are counted
_WHILE_S = 60.0
_MOST_KINDS = 256

_Kind = tuple[str, int, str, str]


class OwnLog(logging.Handler):
    """Writes to standard error, which is the file at `path` if the daemon is in the background."""

    def __init__(self, path: str, now: Callable[[], float] = time.monotonic, fd: int = 2) -> None:
        super().__init__()
        self._path = path
        self._now = now
        self._fd = fd
        self._told: dict[_Kind, tuple[float, int, str]] = {}  # since when, how often, the last one
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, or count it."""
        try:
            now = self._now()
            self._tell_counts(now)
            kind = _kind(record)
            since, count, _ = self._told.get(kind, (now, 0, ""))
            self._told[kind] = (since, count + 1, record.getMessage())
            if count < MOST_ALIKE:
                self._write(self.format(record))
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Tell what was only counted."""
        self._tell_counts(float("inf"))
        super().close()

    def _tell_counts(self, now: float) -> None:
        if len(self._told) > _MOST_KINDS:
            now = float("inf")
        over = [kind for kind, (since, *_) in self._told.items() if now - since >= _WHILE_S]
        for kind in over:
            _, count, last = self._told.pop(kind)
            if count > MOST_ALIKE:
                self._write(f"{count - MOST_ALIKE} more such lines, the last of them: {last}")

    def _write(self, line: str) -> None:
        data = line.encode(errors="backslashreplace") + b"\n"
        with suppress(OSError):  # The disk is full, and there is nowhere to say so.
            os.write(self._fd, data)
            self._bound()

    def _bound(self) -> None:
        """Begin anew when the file is full."""
        ours = os.fstat(self._fd)
        if ours.st_size < MOST_BYTES or not stat.S_ISREG(ours.st_mode):
            return
        try:
            if not os.path.samestat(ours, os.stat(self._path)):
                return  # Its user has sent it elsewhere, or has moved it.
        except FileNotFoundError:
            return
        with suppress(OSError):  # Better to lose old lines than to fill the disk.
            kept = f"{self._path}.1"
            with open(self._path, "rb") as source, open(kept, "wb", opener=_private) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        os.ftruncate(self._fd, 0)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _kind(record: logging.LogRecord) -> _Kind:
    error = record.exc_info[0] if record.exc_info else None
    return record.name, record.levelno, str(record.msg), "" if error is None else error.__name__


def begin(path: str) -> None:
    """Let all that is logged in this process go there."""
    logging.basicConfig(level=logging.INFO, handlers=[OwnLog(path, fd=sys.stderr.fileno())])
