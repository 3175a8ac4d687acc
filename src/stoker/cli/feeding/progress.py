"""What a feed shows while it runs, on stderr: a line that is redrawn, or plain lines in a pipe."""

from __future__ import annotations

import os
import sys
import time

from stoker.submission.lines import shown
from stoker.text import duration_text
from stoker.text.terminal import clipped, escaped, has_terminal, painted, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.cli.feeding.tally import Line, Tally

_MOST_COMMAND_CHARS = 200
_REDRAW_S = 0.1
_CLOCK_S = 1.0  # the time left goes on even if nothing happens


def progress(*, reads_terminal: bool) -> Plain:
    """The right one: no one can type a command into a line that is redrawn."""
    live = has_terminal(sys.stderr) and os.environ.get("TERM") != "dumb" and not reads_terminal
    return Live() if live else Plain()


def counts(tally: Tally) -> str:
    """Where the feed stands, in one line."""
    parts = [
        f"{tally.before + tally.succeeded} done",
        f"{tally.failed} failed",
        f"{tally.running} running",
        f"{tally.waiting} waiting",
    ]
    left_s = tally.left_s()
    if left_s is not None and (tally.waiting or tally.running):
        parts.append(f"about {duration_text(round(left_s) * 1000)} left")
    return ", ".join(parts)


class Plain:
    """A line for each start and each end."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def said(self, text: str) -> None:
        """Words about the feed itself."""
        self._lines.append(escaped(f"stoker: {text}"))

    def started(self, line: Line) -> None:
        """A line's job runs."""
        where = f" on GPU {','.join(line.gpus)}" if line.gpus else ""
        self._lines.append(f"job {line.job_id} started{where}: {_command(line)}")

    def ended(self, line: Line, event: dict[str, Any]) -> None:
        """A line's job is over, or will be tried again."""
        self._lines.append(outcome(line, event))

    def tick(self, tally: Tally) -> float | None:
        """Write what has come together; nothing happens by itself."""
        self._flush()
        return None

    def close(self) -> None:
        """Write what is left."""
        self._flush()

    def _flush(self) -> None:
        if self._lines:
            write("".join(f"{line}\n" for line in self._lines))
            self._lines.clear()


class Live(Plain):
    """One line that is redrawn; what went wrong stays above it."""

    def __init__(self) -> None:
        super().__init__()
        self._colour = wants_colour(sys.stderr)
        self._drawn = ""
        self._drawn_at = 0.0

    def started(self, line: Line) -> None:
        """The counts tell."""

    def ended(self, line: Line, event: dict[str, Any]) -> None:
        """What ended well is counted only."""
        if event["state"] != "succeeded" and not line.called_off:
            self._lines.append(painted(outcome(line, event), "red", self._colour))

    def tick(self, tally: Tally) -> float | None:
        """Redraw, but not more often than an eye can follow."""
        now = time.monotonic()
        if not self._lines and now - self._drawn_at < _REDRAW_S:
            return self._drawn_at + _REDRAW_S - now
        wanted = clipped(counts(tally), _width() - 1)
        if self._lines or wanted != self._drawn:
            above = "".join(f"{line}\n" for line in self._lines)
            self._lines.clear()
            # The cursor waits at the beginning, where other words would go over the line.
            write(f"\r\x1b[K{above}{wanted}\r")
            self._drawn = wanted
        self._drawn_at = now
        return _CLOCK_S

    def close(self) -> None:
        """Leave the terminal as it was found."""
        write("\r\x1b[K" if self._drawn else "")
        self._flush()


def outcome(line: Line, event: dict[str, Any]) -> str:
    """How a line's job ended, in one line."""
    words = f"job {line.job_id} {event['state']}"
    if event.get("ran_ms") is not None:
        words += f" after {duration_text(event['ran_ms'])}"
    if event["state"] != "succeeded":
        reason = event.get("reason")
        words += f", line {line.number}" + (f": {reason}" if reason else "")
        if not event["final"]:
            words += "; it will be tried again"
    return escaped(words)


def _command(line: Line) -> str:
    return clipped(escaped(shown(line.text)), _MOST_COMMAND_CHARS)


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def write(text: str) -> None:
    """Text as it is, on stderr."""
    if text and sys.stderr is not None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # A terminal that is gone is no reason to fail.


def let_go_of_a_lost_terminal() -> None:
    """Throw away what could not be shown: it would spoil the exit code at the very end."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except (OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
