"""What was done to Stoker, and what it answered: the driver's own memory, for the laws.

Law: times are those of the monotonic clock. Something that was asked has the time before, something
that was answered the time after, so that the truth lies between.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from crash.torture.shapes import Job


@dataclass(slots=True)
class Submission:
    """Jobs that one client asked for."""

    jobs: list[Job]
    front_end: str
    group: str = ""  # that its jobs have, if nothing in their commands tells them
    calls: int = 0  # of the library
    acknowledged: bool = False
    killed: bool = False  # its client was
    over: bool = False  # its client has ended
    code: int | None = None  # with which its client ended
    began_ns: int = field(default_factory=time.monotonic_ns)


@dataclass(slots=True)
class Cancel:
    """An order to stop a job."""

    token: str
    sent_ns: int
    acknowledged_ns: int = 0
    ids: tuple[int, ...] = ()  # those of which it was acknowledged
    told: dict[int, tuple[int, str]] = field(default_factory=dict)  # id: when its end, and which


@dataclass(frozen=True, slots=True)
class Event:
    """A kill, a stop or a shortage."""

    what: str
    began_ns: int
    ended_ns: int
    pid: int = 0
    text: str = ""


@dataclass(slots=True)
class Log:
    """All of it."""

    submissions: list[Submission] = field(default_factory=list)
    cancels: list[Cancel] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    keepers: dict[int, int] = field(default_factory=dict)  # by daemon; 0: it was killed before
    done: Counter[str] = field(default_factory=Counter)
    passed_over: Counter[str] = field(default_factory=Counter)  # there was nothing to do it to
    longest_silence_s: float = 0.0  # of the daemon
    lock: threading.Lock = field(default_factory=threading.Lock)

    def happened(self, what: str, began_ns: int, pid: int = 0, text: str = "") -> None:
        """Something is over now."""
        with self.lock:
            self.events.append(Event(what, began_ns, time.monotonic_ns(), pid, text))
            self.done[what] += 1

    def killed(self, *targets: str) -> set[int]:
        """The pids of those that were killed."""
        wanted = {f"kill-{target}" for target in targets}
        return {event.pid for event in self.events if event.what in wanted}

    def overlaps(self, kinds: set[str], since_ns: int, until_ns: int) -> bool:
        """Whether one of these was going on in between."""
        return any(
            event.what in kinds and event.began_ns <= until_ns and event.ended_ns >= since_ns
            for event in self.events
        )

    def jobs(self) -> dict[str, tuple[Job, Submission]]:
        """All jobs that were asked for, by token."""
        return {job.token: (job, asked) for asked in self.submissions for job in asked.jobs}
