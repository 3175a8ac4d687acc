"""A feed's lines and their count: what is kept of each, and for how long.

A line is kept while it is under way. Of those that ended well only the number stays, so that a
feed of any length takes no more memory than what is under way at one time.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_FAILURES_KEPT = 1000
_MOST_TEXT_KEPT = 2000


class Line:
    """One command on its way: read, then queued as a job, then running."""

    __slots__ = (
        "asked", "called_off", "gpus", "job_id", "log", "number", "point", "rerun", "started_at",
        "state", "text",
    )  # fmt: skip

    def __init__(self, number: int, text: str, point: str) -> None:
        self.number = number
        self.text = text
        self.point = point
        self.job_id = 0
        self.state = "read"  # then "waiting", "held" (by the feed itself) or "running"
        self.gpus: list[str] = []
        self.log: str | None = None  # where its output is, if that is known
        self.started_at: float | None = None
        self.asked = ""  # the request that was last sent about it in this state
        self.called_off = False  # by the feed itself
        self.rerun = False  # it was being stopped when the feed was resumed: run it again


class Failure:
    """A line that did not end well."""

    __slots__ = ("job_id", "number", "reason", "state", "text")

    def __init__(self, line: Line, state: str, reason: str) -> None:
        self.job_id = line.job_id
        self.number = line.number
        self.text = line.text[:_MOST_TEXT_KEPT]
        self.state = state
        self.reason = reason


class Tally:
    """The counts that people want to see."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.expected: int | None = None  # commands in the input, if that is known
        self.taken = 0  # lines read
        self.refused = 0  # lines that no command could be made of
        self.before = 0  # succeeded when an earlier run of a resumed feed ran them
        self.succeeded = 0
        self.failed = 0
        self.stopped = 0  # started, and called off by the feed
        self.not_run = 0  # taken, and called off before they started
        self.running = 0
        self.failures: list[Failure] = []
        self._first_start: float | None = None

    @property
    def ended(self) -> int:
        """Lines of this run that are over."""
        return self.succeeded + self.failed + self.stopped + self.not_run

    @property
    def waiting(self) -> int:
        """Lines that have not started, those that are still in the file included."""
        known = max(self.expected or 0, self.taken)
        return max(known - self.before - self.ended - self.running, 0)

    def left_s(self) -> float | None:
        """How long the rest will take at the pace so far."""
        done = self.succeeded + self.failed
        if not done or self._first_start is None:
            return None
        pace_s = (time.monotonic() - self._first_start) / done
        return pace_s * (self.waiting + self.running)

    def started(self) -> None:
        """One more runs."""
        self.running += 1
        if self._first_start is None:
            self._first_start = time.monotonic()

    def end(self, line: Line, event: dict[str, Any]) -> bool:
        """One is over; True if that is a failure."""
        state: str = event["state"]
        if line.state == "running":
            self.running -= 1
        if state == "succeeded":
            self.succeeded += 1
        elif state == "cancelled" and line.called_off:
            if line.started_at is None:
                self.not_run += 1
            else:
                self.stopped += 1
        else:
            self.failed += 1
            if len(self.failures) < MOST_FAILURES_KEPT:
                self.failures.append(Failure(line, state, event.get("reason") or ""))
            return state != "cancelled"
        return False
