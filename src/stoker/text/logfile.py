"""A log file that is read while it grows, and the printer that shows it.

The client reads the files itself: a log of gigabytes never passes through the daemon.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from stoker.holes import behind, hole_in, readable_to
from stoker.text.loglines import Collapser, start_of_last_lines, tamed
from stoker.text.terminal import clipped, escaped, has_terminal, terminal_width, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

_READ_BYTES = 1_048_576


class LogFile:
    """One log, open, with the place up to which it has been read."""

    def __init__(self, path: str) -> None:
        self.path = path
        # A pipe, which may have come in place of the file, would let us wait for a writer.
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        if stat.S_ISFIFO(os.fstat(self._fd).st_mode):
            os.close(self._fd)
            raise OSError(errno.EINVAL, "it is a pipe", path)
        self._position = 0

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def skip_to_last(self, lines: int) -> int:
        """Go to where the last lines begin; how many bytes were passed over."""
        size = os.fstat(self._fd).st_size
        self._position = start_of_last_lines(self._fd, size, lines)
        return self._position

    def backlog_bytes(self) -> int:
        """How much has been written that was not read yet."""
        return max(0, os.fstat(self._fd).st_size - self._position)

    def new_pieces(self) -> Iterator[bytes]:
        """What was written since the last call, up to where the file ends now."""
        status = os.fstat(self._fd)
        if status.st_size < self._position:  # The file was emptied: it begins anew.
            self._position = 0
        end = status.st_size
        hole = hole_in(self._fd, end)
        while self._position < end:
            start = behind(self._position, hole)
            if hole is not None and start > self._position > hole[0]:
                # What was still to be read is gone, and so is the line that says so.
                left_out = (start - self._position) / 1_048_576
                yield f"\n[stoker: {left_out:.1f} MiB left out here: --max-log]\n".encode()
            self._position = start
            length = readable_to(start, end, hole) - start
            piece = os.pread(self._fd, min(_READ_BYTES, length), start)
            if not piece:
                return
            self._position += len(piece)
            yield piece

    def was_replaced(self) -> bool:
        """Whether another file now stands at this path."""
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        mine = os.fstat(self._fd)
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)


def whole_log(path: str | None) -> str:
    """All of a log; nothing where there is none, or a pipe has come in its place."""
    try:
        if path is None or stat.S_ISFIFO(os.stat(path).st_mode):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


class Printer:
    """Prints a log: untouched (`raw`), collapsed (to a pipe or file), or tame (on a terminal)."""

    def __init__(
        self, *, raw: bool, live: bool, prefix: str = "", only: re.Pattern[bytes] | None = None
    ) -> None:
        """`prefix`: in front of every line; `only`: the lines in which this is found."""
        self._prefix = prefix.encode(errors="replace")
        self._only = only
        self._raw = raw
        self._terminal = has_terminal()
        self._colours = wants_colour()
        self._live = live and self._terminal and not raw  # show a line that has not ended yet
        self._collapser = Collapser()
        self._shown_partial = b""

    def write(self, piece: bytes) -> None:
        """Print what is complete with this piece."""
        if self._raw:
            self._put(piece)
            return
        done = self._chosen(self._collapser.feed(piece))
        if done:
            self._erase_partial()
            self._put(tamed(done, colours=self._colours) if self._terminal else done)
            if self._only is not None and sys.stdout is not None:
                sys.stdout.flush()  # The next search may take long, and be interrupted.

    def flush(self) -> None:
        """Bring the terminal up to date with what has come so far."""
        if self._live and self._collapser.partial != self._shown_partial:
            self._erase_partial()
            self._shown_partial = self._collapser.partial
            text = tamed(self._shown_partial, colours=False).decode(errors="replace")
            self._put(clipped(escaped(text), (terminal_width() or 80) - 1).encode(errors="replace"))
        if sys.stdout is not None:
            sys.stdout.flush()

    def finish(self) -> None:
        """Print the line that never ended, and leave the terminal as it was found."""
        self._erase_partial()
        rest, self._collapser = self._collapser.partial, Collapser()
        if rest and (self._prefix or self._only is not None):
            rest = self._chosen(rest + b"\n")
        if rest:
            self._put(tamed(rest, colours=self._colours) + b"\n" if self._terminal else rest)
        if self._colours and not self._raw:
            self._put(b"\x1b[0m")
        if sys.stdout is not None:
            sys.stdout.flush()

    def _chosen(self, done: bytes) -> bytes:
        """Of whole lines, those that are wanted, each with its prefix."""
        only, prefix = self._only, self._prefix
        if not done or (only is None and not prefix):
            return done
        lines = done.removesuffix(b"\n").split(b"\n")
        if only is not None:  # Colours are not part of the text that is looked for.
            lines = [line for line in lines if only.search(tamed(line, colours=False))]
        return b"".join(prefix + line + b"\n" for line in lines)

    def _erase_partial(self) -> None:
        if self._shown_partial:
            self._put(b"\r\x1b[K")
            self._shown_partial = b""

    def _put(self, data: bytes) -> None:
        if sys.stdout is not None:
            sys.stdout.buffer.write(data)
