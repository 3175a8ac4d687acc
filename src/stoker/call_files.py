"""The files of calls, as the library that writes them and the daemon that deletes them know them.

In `calls` in the state directory each program that has submitted calls has a directory. In it are,
for each call, `N.call`, perhaps `N.call.prepared`, and `N.call.ATTEMPT.result`; `jobs` says which
call is that of which job, and `lock` is held as long as the program lives.

Law: a result that a program has asked for is not deleted before that program has read it, or has
ended. Who asks holds a lock on byte N of the file `asked`, shared with all others who ask; who
deletes has that byte alone meanwhile. The kernel gives up the locks of those that are killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

ROOT, JOBS, LOCK = "calls", "jobs", "lock"
CALL, RESULT, PREPARED = ".call", ".result", ".prepared"
_ASKED = "asked"
_FLOCK = "hhqqi0q"  # struct flock: type, whence, start, length, pid


class Asked:
    """The calls of one directory whose results this process has asked for."""

    def __init__(self, directory: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(os.path.join(directory, _ASKED), flags, 0o600)

    def close(self) -> None:
        """None of them is wanted any more."""
        os.close(self._fd)

    def ask(self, path: str) -> None:
        """The result of this call is to be kept until it was read."""
        self._set(fcntl.F_RDLCK, path)

    def take_alone(self, path: str) -> bool:
        """To delete it; False if it was asked for."""
        try:
            self._set(fcntl.F_WRLCK, path)
        except BlockingIOError:
            return False
        return True

    def done(self, path: str) -> None:
        """It was read, or is not wanted any more."""
        self._set(fcntl.F_UNLCK, path)

    def _set(self, kind: int, path: str) -> None:
        lock = struct.pack(_FLOCK, kind, os.SEEK_SET, number_of(path), 1, 0)
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, lock)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise BlockingIOError(*error.args) from None
            # There are file systems on which nothing can be locked.


def number_of(path: str) -> int:
    """The number of a call; 0 for a name that is none of ours."""
    number = os.path.basename(path).removesuffix(CALL)
    return int(number) if number.isdecimal() and number.isascii() else 0


def is_kept(home: str, path: str) -> bool:
    """Whether a file that a job names is that of a call, in the place where a home has them."""
    directory = os.path.dirname(path)
    if not (path.endswith(CALL) and number_of(path)):
        return False
    return os.path.realpath(os.path.dirname(directory)) == os.path.realpath(f"{home}/{ROOT}")


def files_of(path: str, attempts: int) -> list[str]:
    """All that there can be of a call of which so many attempts were made."""
    results = [f"{path}.{number}{RESULT}" for number in range(1, attempts + 1)]
    return [path, path + PREPARED, *results]


def delete(path: str, attempts: int) -> int | None:
    """Delete what there is of a call: how many bytes; None if its result was asked for."""
    try:
        asked = Asked(os.path.dirname(path))
    except FileNotFoundError:
        return 0
    try:
        if not asked.take_alone(path):
            return None
        freed = 0
        for name in files_of(path, attempts):
            with suppress(OSError):
                size = os.stat(name).st_blocks * 512
                os.unlink(name)
                freed += size
        return freed
    finally:
        asked.close()


def sizes(directory: str) -> dict[str, int]:
    """What each file in a directory takes on disk."""
    found = {}
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with suppress(OSError):
                found[entry.name] = entry.stat(follow_symlinks=False).st_blocks * 512
    return found


def jobs_of(directory: str) -> dict[str, int]:
    """Which call is that of which job, by the names of their files."""
    owners = (line.partition(" ") for line in lines(os.path.join(directory, JOBS)))
    return {name: int(job) for name, _, job in owners if job.isdecimal()}


def note_jobs(directory: str, pairs: Iterable[tuple[str, int]]) -> None:
    """These calls are those of these jobs."""
    text = "".join(f"{os.path.basename(path)} {job_id}\n" for path, job_id in pairs)
    with open(os.path.join(directory, JOBS), "a", encoding="utf-8") as file:
        file.write(text)


def lines(path: str) -> Iterator[str]:
    """The whole lines of a file; the last one may be cut off by the end of its writer."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from (line.rstrip("\n") for line in file if line.endswith("\n"))
    except FileNotFoundError:
        return
