"""Where a feed's lines come from: a file, or whatever stdin is.

A plain file is looked through before its first line is taken, so that one bad line in it means
that nothing was queued. What a pipe will bring is not known.
"""

from __future__ import annotations

import os
import stat

from stoker.errors import UsageError
from stoker.submission.lines import LineReader, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoker.submission.lines import Command

# Between two readings the daemon is heard, which may wait for the next lines.
_READ_BYTES = 16_384


class Source:
    """An open input; `path` is None if it has no name by which it could be found again."""

    def __init__(self, path: str | None) -> None:
        path = None if path == "-" else path
        self.fd = _opened(path)
        status = os.fstat(self.fd)
        self._is_file = stat.S_ISREG(status.st_mode)
        self.is_terminal = os.isatty(self.fd)
        self.path = self._path_of_stdin(status) if path is None else os.path.realpath(path)
        self.name = path or ("stdin" if self.path is None else os.path.basename(self.path))
        self._reader = LineReader()

    def _path_of_stdin(self, status: os.stat_result) -> str | None:
        if not self._is_file:
            return None
        try:
            path = os.readlink(f"/proc/self/fd/{self.fd}")
            path.encode()
            # A file that was deleted, or is in another part of the system, has no name here.
            return path if os.path.samestat(os.stat(path), status) else None
        except (OSError, UnicodeEncodeError):
            return None

    def check(self) -> int | None:
        """How many commands there are; a bad line is refused. None if that can't be told."""
        if not self._is_file:
            return None
        reader, place, commands = LineReader(), os.lseek(self.fd, 0, os.SEEK_CUR), 0
        while piece := os.pread(self.fd, _READ_BYTES, place):
            place += len(piece)
            commands += self._counted(reader.feed(piece))
        return commands + self._counted(reader.finish())

    def _counted(self, found: Iterator[Command | Refusal]) -> int:
        count = 0
        for one in found:
            if isinstance(one, Refusal):
                raise UsageError(f"{self.name}, line {one.number}: {one.what}", one.hint)
            count += 1
        return count

    def read(self) -> list[Command | Refusal] | None:
        """What has arrived, once there is something; None at the end."""
        try:
            piece = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            piece = b""  # The terminal is gone, say: nothing will ever come again.
        if piece:
            return list(self._reader.feed(piece))
        return None

    def rest(self) -> list[Command | Refusal]:
        """What the end of the input completes."""
        return list(self._reader.finish())


def _opened(path: str | None) -> int:
    if path is None:
        try:
            os.fstat(0)
        except OSError:
            raise UsageError(
                "stdin is closed, so there is nothing to read", "name a file, or redirect its input"
            ) from None
        return 0
    try:
        # A named pipe without a writer must not keep us from hearing signals.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise UsageError(
            f"can't read {path}: {error.strerror}", "name a file with one command per line"
        ) from None
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise UsageError(f"{path} is a directory", "name a file with one command per line")
    return fd
