"""A task's output on the terminal and, at the same time, in files.

Law: the task sees a terminal where the user has one. A terminal that is closed or a disk that is
full takes its copy away, and neither the others nor the task.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import threading
from collections.abc import Sequence

from stoker.text.terminal import say

_CHUNK = 65_536


class KeptStream:
    """One of the two streams: what the task writes is copied to all its targets."""

    def __init__(self, terminal: int, targets: Sequence[int], shown: bool) -> None:
        self._terminal = terminal if shown else -1
        self._targets = [*([terminal] if shown else []), *targets]
        self._is_terminal = shown and os.isatty(terminal)
        if self._is_terminal:
            self._source, self._end = pty.openpty()
            _pass_bytes_through(self._end)
            self._fit()
        else:
            self._source, self._end = os.pipe()
        # Closing this tells the copier that the task has ended, even if its stream is still open.
        self._over, self._over_in = os.pipe()
        self._thread: threading.Thread | None = None

    @property
    def path(self) -> str:
        """A name by which the task's process, once forked, opens its end of the stream."""
        return f"/proc/self/fd/{self._end}"

    def start(self) -> None:
        """Begin to copy; after the fork, and with signals blocked as they should stay."""
        os.close(self._end)
        self._end = -1
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """The task has ended: copy what it has written to the last byte, and no more."""
        os.close(self._over_in)
        if self._thread is not None:
            self._thread.join()
        for fd in (self._source, self._over, *([self._end] if self._end >= 0 else [])):
            os.close(fd)

    def _copy(self) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        over = False
        while True:
            ready = {fd for fd, _ in poll.poll(0 if over else None)}
            if self._source in ready:
                data = self._read()
                if not data:
                    return
                self._write(data)
            elif over:
                return
            elif self._over in ready:
                over = True
                poll.unregister(self._over)

    def _read(self) -> bytes:
        if self._is_terminal:
            self._fit()
        try:
            return os.read(self._source, _CHUNK)
        except OSError:
            return b""  # So a pseudo-terminal tells that its last writer is gone.

    def _write(self, data: bytes) -> None:
        for target in list(self._targets):
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(target, rest) :]
            except OSError as error:
                self._targets.remove(target)
                if target != self._terminal:
                    say(f"scheduler: the output can't be kept any more: {error.strerror}")

    def _fit(self) -> None:
        """Give the task's terminal the size of the user's."""
        try:
            size = fcntl.ioctl(self._terminal, termios.TIOCGWINSZ, bytes(8))
            if fcntl.ioctl(self._source, termios.TIOCGWINSZ, bytes(8)) != size:
                fcntl.ioctl(self._source, termios.TIOCSWINSZ, size)
        except (OSError, struct.error):
            pass


def _pass_bytes_through(fd: int) -> None:
    """The user's own terminal turns line ends into its own; once is enough."""
    settings = termios.tcgetattr(fd)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(fd, termios.TCSANOW, settings)
