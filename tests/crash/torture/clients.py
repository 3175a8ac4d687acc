"""Front ends as processes of their own, which can be killed and stopped; some on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crash.torture.log import Submission
from crash.torture.place import Place
from stoker_home import is_running


@dataclass(slots=True, eq=False)
class Client:
    """One process that the driver has started."""

    process: subprocess.Popen[bytes]
    verb: str
    submission: Submission | None
    output: Path
    terminal_fd: int = -1


class Clients:
    """All of them."""

    def __init__(self, place: Place, env: dict[str, str]) -> None:
        self._place = place
        self._env = env
        self._count = 0
        self.living: list[Client] = []

    def start(self, *words: str, submission: Submission | None = None, stdin: str = "") -> Client:
        """A command line; what it reads and prints is in files, since these are never full."""
        return self._start([sys.executable, "-m", "stoker", *words], words[0], submission, stdin)

    def start_python(self, words: Sequence[str], submission: Submission) -> Client:
        """A program of a user's."""
        return self._start([sys.executable, *words], submission.front_end, submission, "")

    def start_on_terminal(self, *words: str, submission: Submission) -> Client:
        """A command line on a terminal of its own."""
        ours, theirs = pty.openpty()

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        self._count += 1
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "stoker", *words],
                env=self._env, cwd=self._place.root, stdin=theirs, stdout=theirs, stderr=theirs,
                preexec_fn=take_terminal,
            )  # fmt: skip
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        output = self._place.outputs / f"{self._count}.terminal"
        client = Client(process, words[0], submission, output, ours)
        self.living.append(client)
        return client

    def _start(
        self, words: list[str], verb: str, submission: Submission | None, stdin: str
    ) -> Client:
        self._count += 1
        output = self._place.outputs / f"{self._count}.out"
        given = self._place.outputs / f"{self._count}.in"
        given.write_text(stdin, encoding="utf-8")
        with output.open("wb") as out, given.open("rb") as source:
            process = subprocess.Popen(
                words, env=self._env, cwd=self._place.root, stdin=source, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        client = Client(process, verb, submission, output)
        self.living.append(client)
        return client

    def collect(self) -> list[Client]:
        """Those that have ended since; what the others say on their terminals is taken."""
        ended = []
        for client in self.living:
            if client.terminal_fd >= 0:
                _drain(client)
            if client.process.poll() is not None:
                ended.append(client)
                if client.terminal_fd >= 0:
                    os.close(client.terminal_fd)
                if client.submission is not None:
                    client.submission.over = True
                    client.submission.code = client.process.returncode
        self.living = [client for client in self.living if client not in ended]
        return ended

    def that_live(self, verb: str = "") -> list[Client]:
        """Those that can be killed or stopped."""
        return [
            client
            for client in self.living
            if (not verb or client.verb == verb) and is_running(client.process.pid)
        ]

    def end_all(self) -> None:
        """For the end of a run, however it came about."""
        for client in self.living:
            client.process.kill()
            client.process.wait()
        self.collect()


def _drain(client: Client) -> None:
    while select.select([client.terminal_fd], [], [], 0)[0]:
        try:
            data = os.read(client.terminal_fd, 65_536)
        except OSError:
            return  # The other end is closed.
        if not data:
            return
        with client.output.open("ab") as file:
            file.write(data)
