"""Attempts that are processes which Stoker did not start: `stoker adopt`.

Law: such a process is watched and never signalled. It is its user's own, and so is what it has
started. Its end is all that can be known of it: how it ended is for its parent alone to know.
A pidfd tells the end; only where the kernel gives none is /proc read once a second.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from stoker.core import events as ev
from stoker.core.foreign import ForeignProcess
from stoker.executors.ledger import Key
from stoker.executors.processes import stat_of
from stoker.machine import boot_id

ENDED = "ended; exit code unknown: Stoker did not start it"
_LET_GO = "it was let go, and goes on without Stoker"
_LOOK_AGAIN_MS = 1_000
_POLLED = -1  # in place of a pidfd


def lives(kept: str) -> bool:
    """Whether that very process still runs, or may: to guess would free what it has too early."""
    process = ForeignProcess.of(kept)
    if process.boot != boot_id():
        return False
    try:
        stat = stat_of(process.pid)
    except OSError:
        return True  # No file can be opened now.
    return stat is not None and stat.id.start_time == process.start_time and stat.state not in "ZX"


class ForeignProcesses:
    """All of them. `tell` hears of the end of each until that is acknowledged."""

    def __init__(self, tell: Callable[[ev.AttemptVanished], None]) -> None:
        self._tell = tell
        self._epoll = select.epoll()
        self._watched: dict[Key, tuple[str, int]] = {}  # with their pidfds
        self._by_fd: dict[int, Key] = {}
        self._look_ms: int | None = None  # when to look at those without one

    def __contains__(self, key: Key) -> bool:
        return key in self._watched

    def __bool__(self) -> bool:
        return bool(self._watched)

    def fileno(self) -> int:
        """Readable when one of them has ended."""
        return self._epoll.fileno()

    def close(self) -> None:
        """Watch nothing any more."""
        for fd in self._by_fd:
            os.close(fd)
        self._epoll.close()

    def roots(self) -> dict[int, int]:
        """The job of each, by pid."""
        return {ForeignProcess.of(kept).pid: key[0] for key, (kept, _) in self._watched.items()}

    def watch(self, key: Key, kept: str, now_ms: int) -> bool:
        """Hear of its end; False if it has ended, which is told."""
        pidfd = _POLLED
        try:
            pidfd = os.pidfd_open(ForeignProcess.of(kept).pid)
        except OSError:
            pass  # It is gone, or there are no pidfds to be had: a look will tell.
        # Opened first, then compared: a pid that was given to another in between is noticed.
        if not lives(kept):
            if pidfd != _POLLED:
                os.close(pidfd)
            self._tell(ev.AttemptVanished(now_ms, *key, ENDED))
            return False
        self._watched[key] = (kept, pidfd)
        if pidfd == _POLLED:
            self._look_ms = now_ms + _LOOK_AGAIN_MS
        else:
            self._by_fd[pidfd] = key
            self._epoll.register(pidfd, select.EPOLLIN)
        return True

    def let_go(self, key: Key, now_ms: int) -> None:
        """Count it no longer; the process goes on."""
        self._forget(key)
        self._tell(ev.AttemptVanished(now_ms, *key, _LET_GO))

    def look(self, now_ms: int) -> list[int]:
        """Tell of those that have ended; their jobs."""
        over = [self._by_fd[fd] for fd, _ in self._epoll.poll(0)]
        if self._look_ms is not None and self._look_ms <= now_ms:
            polled = {key: kept for key, (kept, pidfd) in self._watched.items() if pidfd == _POLLED}
            over += [key for key, kept in polled.items() if not lives(kept)]
            self._look_ms = now_ms + _LOOK_AGAIN_MS if polled else None
        for key in over:
            self._forget(key)
            self._tell(ev.AttemptVanished(now_ms, *key, ENDED))
        return [job_id for job_id, _ in over]

    def next_wakeup_ms(self) -> int | None:
        """When to look again."""
        return self._look_ms

    def _forget(self, key: Key) -> None:
        _, pidfd = self._watched.pop(key)
        if pidfd != _POLLED:
            del self._by_fd[pidfd]
            self._epoll.unregister(pidfd)
            os.close(pidfd)
