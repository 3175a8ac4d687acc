"""A program in a terminal of its own, as a user would run it."""

from __future__ import annotations

import os
import pty
import select
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from waiting import PATIENCE_S, until_interrupt_is_taken


class Terminal:
    """Use it as a context: its program is gone at the end."""

    def __init__(self, words: list[str], env: Mapping[str, str], cwd: Path) -> None:
        self.screen = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                os.execvpe(words[0], words, {"TERM": "xterm", **env})
            finally:
                os._exit(127)
        self._code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            try:
                os.killpg(self.pid, 9)  # A job, too, that is in its client's process group.
            except ProcessLookupError:
                pass
            self.wait()
        self.hang_up()

    def type(self, keys: bytes) -> None:
        """Press keys; b"\\x03" is Ctrl-C."""
        until_interrupt_is_taken(self.pid)
        os.write(self._fd, keys)

    def hang_up(self) -> None:
        """The terminal's window is closed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def is_cooked(self) -> bool:
        """Whether the terminal takes lines, as a shell expects."""
        return bool(termios.tcgetattr(self._fd)[3] & termios.ICANON)

    def until(self, text: bytes) -> None:
        """Wait until the screen has shown a text."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.screen:
            assert time.monotonic() < deadline, f"{text!r} not in {self.screen!r}"
            if not self._read(0.5):
                assert text in self.screen, f"ended without {text!r}: {self.screen!r}"

    def wait(self) -> int:
        """Wait for the end; the exit code, negative for a signal."""
        deadline = time.monotonic() + PATIENCE_S
        while self._code is None:
            assert time.monotonic() < deadline, f"did not end: {self.screen!r}"
            # A process can't end while the terminal is full of what it wrote last.
            if self._fd >= 0:
                self._read(0.02)
            else:
                select.poll().poll(20)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        while self._fd >= 0 and self._read(0):
            pass
        return self._code

    def _read(self, timeout_s: float) -> bool:
        """Take in what was written; False if nothing will ever come again."""
        if not select.select([self._fd], [], [], timeout_s)[0]:
            return timeout_s > 0
        try:
            data = os.read(self._fd, 65_536)
        except OSError:
            return False
        self.screen += data
        return bool(data)
