"""The rules for an attempt's life: limits, what is done when it fails, when it goes on later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TEMPORARY = 75  # EX_TEMPFAIL: by this exit code a program says that it is to be run again
STUCK_AFTER = 3  # attempts without progress, if nothing else was said
YIELDS = 3  # how often one that offers itself gives way in an hour, if nothing else was said


def requeue_codes(
    said: Iterable[int], slice_ms: int | None, preemptible: bool = False
) -> tuple[int, ...]:
    """The exit codes by which a job asks to be put back; one that is told to end has one anyway."""
    implied = (TEMPORARY,) if slice_ms is not None or preemptible else ()
    return tuple(dict.fromkeys((*said, *implied)))


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules for an attempt's life: limits, and what is done when it fails."""

    time_limit_ms: int | None = None
    grace_ms: int = 30_000
    signal: int | None = None  # sent `signal_before_ms` before a limit, or before it is put back
    signal_before_ms: int = 0
    retries: int = 0
    attached: bool = False  # runs in its user's terminal, started by the client
    executor: str = ""  # what runs it: this machine, or the cluster of that name
    mps: bool = False  # shares its GPU with others through NVIDIA's MPS
    thread_percentage: int | None = None  # of the GPU's threads, under MPS
    notify: bool = False  # its user is told of its end
    hook: str | None = None  # a command of its user's that is run at its end
    adopted: str | None = None  # the process that it is and that is not ours: see ForeignProcess
    requeue_on: tuple[int, ...] = ()  # exit codes by which an attempt asks to be put back
    slice_ms: int | None = None  # it makes room for jobs that wait when it has run this long
    keep_place: bool = False  # when it is put back, it goes where it was and not behind its equals
    stuck_after: int = STUCK_AFTER  # attempts in a row without progress; 0: none is too many
    requeue: bool = False  # put back, and not lost, if no trace of an attempt is left
    preemptible: bool = False  # offers to give way for urgent jobs
    yields: int = YIELDS  # so often in an hour at most
    urgent: bool = False  # goes before all that are not, and those that offered it give way
    run_kind: str = ""  # jobs with the same one take about as long; empty: nothing is learned of it

    @property
    def longest_ms(self) -> int | None:
        """How long an attempt takes at most, with its grace time; None if nothing limits it."""
        return None if self.time_limit_ms is None else self.time_limit_ms + self.grace_ms

    @property
    def is_sliced_there(self) -> bool:
        """True if what a cluster takes for its time limit is its slice."""
        return self.slice_ms is not None and self.slice_ms == self.limit_there_ms

    @property
    def limit_there_ms(self) -> int | None:
        """The time limit that a cluster is told, which knows no slices."""
        return min(filter(None, (self.slice_ms, self.time_limit_ms)), default=None)

    @property
    def goes_on(self) -> bool:
        """True if its user counts on further attempts that go on where the last one stopped."""
        return bool(self.requeue_on) or self.requeue
