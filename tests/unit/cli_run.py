"""Ways to run the command line in tests: inside this process, as one of its own, on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.cli.main import main
from waiting import PATIENCE_S, until_interrupt_is_taken

SRC = str(Path(__file__).parents[2] / "src")


@dataclass(frozen=True)
class Ran:
    """What came of a command line."""

    code: int
    out: str
    err: str


def stoker(capsys: pytest.CaptureFixture[str], *words: str) -> Ran:
    """Run a command line in this process."""
    capsys.readouterr()
    code = main(list(words))
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment for a process of its own, in which nothing of the tester's is left."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "STOKER_HOME": str(home),
        "PYTHONPATH": SRC,
        **more,
    }


def argv(*words: str) -> list[str]:
    """The words that run a command line as a process of its own."""
    return [sys.executable, "-m", "stoker", *words]


def process(home: Path, *words: str, **more: str) -> Ran:
    """Run a command line as a process of its own."""
    done = subprocess.run(
        argv(*words),
        env=environment(home, **more),
        cwd=home,
        capture_output=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


class Terminal:
    """A command line in a terminal of its own, as a user would run it; use it as a context."""

    def __init__(self, home: Path, *words: str, **more: str) -> None:
        self.screen = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(home)
                command = argv(*words)
                os.execve(command[0], command, environment(home, **{"TERM": "xterm", **more}))
            finally:
                os._exit(127)
        self._code: int | None = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            try:
                os.killpg(self.pid, 9)  # The job, too: it is in our client's process group.
            except ProcessLookupError:
                pass
            self.wait()
        if self._fd >= 0:
            os.close(self._fd)

    def type(self, keys: bytes) -> None:
        """Press keys; b"\\x03" is Ctrl-C."""
        until_interrupt_is_taken(self.pid)
        os.write(self._fd, keys)

    def hang_up(self) -> None:
        """The terminal's window is closed."""
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
                time.sleep(0.02)
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
