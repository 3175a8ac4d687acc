"""What the machine, or one job's own files, are short of, and how long no start is tried for it.

A start that fails for want of processes, files, memory or disk is no fault of the job: it is put
back, and the next try comes after a pause that grows. While the whole machine is short, one job at
a time is tried; the first that starts shows that the shortage is over. None of this is in a record:
a new daemon simply tries.
"""

from __future__ import annotations

from dataclasses import dataclass

# Nothing is tried while a disk is low, either: a log that grows must not take the room that the
# record needs. Unlike the others this is measured, not met: it ends when there is room again.

FIRST_PAUSE_MS = 500
LONGEST_PAUSE_MS = 30_000


@dataclass(frozen=True, slots=True)
class LowDisk:
    """A disk of ours with less free than is to stay free."""

    path: str
    free_mib: int
    least_mib: int
    stops: bool = True  # nothing starts; else it is only told


@dataclass(slots=True)
class Shortage:
    """Since when starts fail for want of `what`, and when the next is tried."""

    what: str
    since_ms: int  # when a start last failed for it
    until_ms: int
    pause_ms: int
    trial: int | None = None  # the job that was placed to see whether it is over

    def holds(self, now_ms: int) -> bool:
        """True while nothing is to be tried."""
        return now_ms < self.until_ms

    def try_with(self, job_id: int, now_ms: int) -> None:
        """This job is tried; another only if nothing is heard of it for another pause."""
        self.trial, self.until_ms = job_id, now_ms + self.pause_ms

    def says_nothing(self, job_id: int, now_ms: int) -> None:
        """The job that was tried can't start for a reason of its own: let another be tried."""
        if self.trial == job_id:
            self.trial, self.until_ms = None, now_ms

    def shift(self, by_ms: int) -> None:
        """The clock was set."""
        self.since_ms += by_ms
        self.until_ms += by_ms


def after_failure(before: Shortage | None, what: str, job_id: int, now_ms: int) -> Shortage:
    """The shortage once a start has failed for it; its pause grows with each trial."""
    if before is None:
        return Shortage(what, now_ms, now_ms + FIRST_PAUSE_MS, FIRST_PAUSE_MS)
    if before.trial != job_id:
        before.what, before.since_ms = what, now_ms
        return before
    pause_ms = min(before.pause_ms * 2, LONGEST_PAUSE_MS)
    return Shortage(what, now_ms, now_ms + pause_ms, pause_ms)
