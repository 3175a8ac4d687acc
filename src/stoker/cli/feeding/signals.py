"""What signals ask of a feed: heard at any moment, heeded when the feed next looks."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Self

_HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Signals:
    """Catches signals while it is entered; its descriptor is readable when one has come."""

    def __init__(self) -> None:
        self.interrupts = 0  # Ctrl-C, or SIGTERM
        self.interrupted_by = 0  # the signal that came first
        self.finish = False  # SIGUSR1
        self.hung_up = False  # SIGHUP
        self._old: dict[int, Any] = {}
        self._old_wakeup = -1

    def __enter__(self) -> Self:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        self._old_wakeup = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in _HEARD:
            # What was ignored when we were started (nohup, say) goes on being ignored.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self.fd)
        os.close(self._write_fd)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self.finish = True
        elif number == signal.SIGHUP:
            self.hung_up = True
        else:
            self.interrupt(number)

    def interrupt(self, number: int) -> None:
        """As if that signal had come."""
        self.interrupts += 1
        self.interrupted_by = self.interrupted_by or number

    def clear(self) -> None:
        """Empty the descriptor."""
        try:
            while os.read(self.fd, 512):
                pass
        except BlockingIOError:
            pass
