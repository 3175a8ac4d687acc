"""The output of a feed's jobs on this console, as if they ran in it.

Jobs write to their logs; what is written there is passed on as it comes, byte for byte. Errors are
kept apart from the output only if the console keeps them apart (`2> errors.txt`): else the order
in which a job wrote its lines would be lost.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys

from stoker.api.client import Client
from stoker.api.paths import make_private
from stoker.errors import StokerError
from stoker.text.logfile import LogFile
from stoker.text.terminal import escaped, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

    from stoker.cli.feeding.signals import Signals
    from stoker.cli.feeding.tally import Line, Tally

_LOOK_S = 0.05


class Console:
    """Shows each start as the older tool does, and what the jobs print."""

    def __init__(self, program: str, signals: Signals, errors: ErrorFiles | None) -> None:
        self._program = program
        self._signals = signals
        self._errors = errors
        self._client = Client(autostart=False)
        self._running: dict[int, _Output] = {}

    def said(self, text: str) -> None:
        """Words about the feed itself."""
        say(f"{self._program}: {text}")

    def started(self, line: Line) -> None:
        """Say so, and show its output from now on."""
        known = self._running.get(line.job_id)
        if known is not None:
            known.close()  # A job that is tried again has a new log.
        text = f"Processing command `{line.text}` on gpu {','.join(line.gpus)}\n"
        self._put(1, text.encode(errors="replace"))
        output = _Output(self._errors.path(line.point) if self._errors else "")
        self._running[line.job_id] = output
        if line.log is not None:
            output.find(line.log)

    def ended(self, line: Line, event: dict[str, Any]) -> None:
        """Show the rest of its output; and why it never started, if it did not."""
        output = self._running.get(line.job_id)
        if output is not None:
            output.is_over = True
        elif event["state"] != "cancelled":
            self.said(f"`{escaped(line.text)}` {event['state']}: {event.get('reason') or ''}")

    def tick(self, tally: Tally) -> float | None:
        """Pass on what was written since the last look."""
        # What is known to be over before the look has been read to its end after it.
        over = [job_id for job_id, output in self._running.items() if output.is_over]
        self._find_logs()
        for output in self._running.values():
            self._show(output)
        for job_id in over:
            if self._running[job_id].is_found:
                self._running.pop(job_id).close()
        self._flush()
        return _LOOK_S if self._running else None

    def close(self) -> None:
        """Nothing more will come."""
        for output in self._running.values():
            output.close()
        self._flush()
        self._client.close()

    def _find_logs(self) -> None:
        """Ask where the logs of those are that have started since the last time."""
        wanted = [job_id for job_id, output in self._running.items() if not output.is_found]
        if not wanted:
            return
        try:
            select = {"ids": [str(job_id) for job_id in wanted]}
            jobs = self._client.call("list", select=select, all=True)["jobs"]
        except StokerError:
            return  # The daemon is away; the logs will still be there when it is back.
        for job in jobs:
            if job["log"] is not None:
                self._running[job["id"]].find(job["log"])

    def _show(self, output: _Output) -> None:
        for fd, log in output.logs:
            for piece in log.new_pieces():
                self._put(fd, piece)

    def _put(self, fd: int, data: bytes) -> None:
        self._on(fd, lambda stream: stream.write(data))

    def _flush(self) -> None:
        for fd in (1, 2):
            self._on(fd, lambda stream: stream.flush())

    def _on(self, fd: int, action: Callable[[BinaryIO], object]) -> None:
        stream = sys.stdout if fd == 1 else sys.stderr
        try:
            if stream is not None:
                action(stream.buffer)
        except BrokenPipeError:
            # The reader of the pipe is gone, as after `| head`.
            if fd == 1 and not self._signals.interrupts:
                self._signals.interrupt(signal.SIGPIPE)
        except OSError:
            pass  # A terminal that is gone is no reason to fail.


class _Output:
    """Where one job writes."""

    def __init__(self, error_path: str) -> None:
        self._error_path = error_path
        self.logs: list[tuple[int, LogFile]] = []
        self.is_found = False
        self.is_over = False

    def find(self, path: str) -> None:
        """Open the job's log, and the file of its errors if they are apart."""
        self.is_found = True
        for fd, name in ((1, path), (2, self._error_path)):
            try:
                if name:
                    self.logs.append((fd, LogFile(name)))
            except OSError:
                pass  # It was removed meanwhile.

    def close(self) -> None:
        """Let go of the files; errors that were shown are kept nowhere else."""
        for _, log in self.logs:
            log.close()
        self.logs = []
        if self._error_path and self.is_over:
            try:
                os.unlink(self._error_path)
            except FileNotFoundError:
                pass


class ErrorFiles:
    """A private directory for what the jobs write to stderr until it has been shown."""

    def __init__(self, home: str, run: str) -> None:
        root = os.path.join(home, "consoles")
        self._directory = os.path.join(root, run)
        make_private(root)
        make_private(self._directory)

    def path(self, point: str) -> str:
        """The file for one line."""
        return os.path.join(self._directory, point.rpartition("feed:")[2].replace(":", "-"))

    def close(self) -> None:
        """Remove the directory; the one above it stays, since another console may just begin."""
        shutil.rmtree(self._directory, ignore_errors=True)


def keeps_errors_apart() -> bool:
    """Whether stdout and stderr of this process go to different places."""
    try:
        out, err = os.fstat(1), os.fstat(2)
    except OSError:
        return False
    return not os.path.samestat(out, err)
