"""A feed that runs beside its test: it is given lines and signals, and its words are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually


class FeedProcess:
    """One `stoker feed` (or another command that is fed by stdin); use it as a context."""

    def __init__(
        self,
        stoker: StokerHome,
        *words: str,
        stdin: int | IO[bytes] | None = subprocess.PIPE,
        command: list[str] | None = None,
    ) -> None:
        # Files, not pipes: a process that nobody reads from must never stand still.
        directory = Path(tempfile.mkdtemp(prefix="feed-", dir=stoker.root))
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command or stoker.command("feed", *words),
                env=stoker.env,
                cwd=stoker.work,
                stdin=stdin,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def __enter__(self) -> FeedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass

    def write(self, *lines: str) -> None:
        """Give it lines, at once."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def end_of_input(self) -> None:
        """No more lines come."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def send(self, number: int) -> None:
        """A signal to the feed itself."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, negative for a signal."""
        return self.process.wait(PATIENCE_S * 2)

    @property
    def out(self) -> str:
        """What it has written to stdout."""
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        """What it has written to stderr."""
        return self._err.read_text(errors="replace")

    def until_said(self, text: str) -> None:
        """Wait for its words."""
        eventually(lambda: text in self.err, f"{text!r} is said")


def until_lines(path: Path, count: int) -> list[str]:
    """The lines of a file once there are so many."""

    def enough() -> list[str] | None:
        try:
            lines = path.read_text().splitlines()
        except FileNotFoundError:
            return None
        return lines if len(lines) >= count else None

    found = eventually(enough, f"{path.name} has {count} lines")
    assert found is not None
    return found


# A command that says on which GPU it is, and whether it is alone there; it takes a moment.
ALONE = (
    'mkdir "on-gpu-$CUDA_VISIBLE_DEVICES" || echo $CUDA_VISIBLE_DEVICES >> clashes.txt; '
    'sleep 0.05; echo "$CUDA_VISIBLE_DEVICES {}" >> ran.txt; rmdir "on-gpu-$CUDA_VISIBLE_DEVICES"'
)
# A command that ends when a file appears.
UNTIL = "until [ -e {} ]; do sleep 0.02; done"
