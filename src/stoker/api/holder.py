"""The daemon by its lock: who it is, and what is the matter with one that does not answer.

A socket may be deleted, and a daemon may be stopped; the lock goes only with its process, and the
file of the lock has that one's pid.
"""

from __future__ import annotations

import fcntl
import os

from stoker.errors import Failed, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.paths import Home

LOOK_AFTER_S = 1.5
"""How long a daemon that has the lock is waited for before something is said of it."""


class NotAnswering(Unreachable):
    """There is a daemon, and it does not answer."""

    def __init__(self, message: str, hint: str, pid: int | None) -> None:
        super().__init__(message, hint)
        self.pid = pid


def holder(home: Home) -> int | None:
    """The process that has the lock, 0 if that can't be told; None if it is free."""
    try:
        fd = os.open(home.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return written_pid(fd)
    except OSError as error:
        raise no_locks(home.root, error) from None
    finally:
        os.close(fd)


def no_locks(directory: str, error: OSError) -> Failed:
    """What to say of a file system on which a lock can't be had at all."""
    return Failed(
        f"files can't be locked in {directory}: {error.strerror}",
        "set STOKER_HOME to a directory on a local disk",
    )


def written_pid(lock_fd: int) -> int:
    """The process that the file of a lock names; 0 if none."""
    word = os.pread(lock_fd, 32, 0).split(b"\n")[0]
    return int(word) if word.isdigit() else 0


def put_down(lock_fd: int) -> None:
    """Say in the file of the lock that it is this process's."""
    line = f"{os.getpid()}\n".encode()
    try:
        os.pwrite(lock_fd, line, 0)
        os.ftruncate(lock_fd, len(line))
    except OSError:
        pass  # The disk is full, say.


def is_stopped(pid: int, program: bytes = b"stoker.daemon.main") -> bool:
    """True if this is a process of that program which was stopped by a signal."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            is_one = program in file.read()
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    return is_one and text[text.rindex(")") + 2] in "Tt"


def trouble(pid: int, home: Home) -> NotAnswering:
    """What to say of a daemon that does not answer."""
    its_log = f"its log is {home.log}"
    if not pid:
        return NotAnswering("a daemon is running, but does not answer", its_log, None)
    if is_stopped(pid):
        return NotAnswering(
            f"the daemon (process {pid}) was stopped by a signal, and so can't answer",
            f"`kill -CONT {pid}` continues it; it then carries out the pending requests",
            pid,
        )
    return NotAnswering(
        f"the daemon (process {pid}) does not answer",
        f"it may still be starting; if not, `kill {pid}` stops it, and its jobs continue; "
        f"{its_log}",
        pid,
    )
