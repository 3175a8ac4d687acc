"""When something becomes due for a job although nothing happens: limits, warnings, grace times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from heapq import heappop, heappush

from stoker.core import events as ev
from stoker.core.jobs import Jobs
from stoker.core.model import PUTS_BACK, WAITING, Attempt, Cause, Job, Warning

HOUR_MS = 3_600_000
Entry = tuple[int, int, int, int]  # when, job, attempt, Timer


class Timer(IntEnum):
    """What may be due at a moment."""

    READY = 0
    WARNING = 1
    LIMIT = 2
    GRACE = 3
    SLICE = 4
    FIRST = 5


def deadline_ms(job: Job) -> int | None:
    """When the active attempt reaches its time limit; a cluster sees to that itself.

    The limit is of the time that it runs: none of it is spent while the machine can't start it, or
    while it is suspended.
    """
    assert job.active is not None
    limit, started = job.terms.time_limit_ms, _counts_from_ms(job.active)
    return None if limit is None or started is None or job.terms.executor else started + limit


def _counts_from_ms(attempt: Attempt) -> int | None:
    """The moment from which it would have run without a break; None while it does not run."""
    if attempt.started_at_ms is None or attempt.suspended_at_ms is not None:
        return None
    return attempt.started_at_ms + attempt.suspended_ms


def latest_end_ms(job: Job) -> int | None:
    """When the active attempt is over at the latest: its limit, and its grace time."""
    attempt = job.active
    assert attempt is not None
    if attempt.stop is not None:
        return kill_ms(job)
    limit, began = job.terms.time_limit_ms, _counts_from_ms(attempt)
    if attempt.suspended_at_ms is not None:
        return None
    if began is None and not job.terms.attached:  # One in a terminal may be started late.
        began = attempt.placed_at_ms
    if limit is None or began is None or job.terms.executor:
        return None
    return began + limit + job.terms.grace_ms


def warning_ms(job: Job) -> int | None:
    """When the active attempt is to get its signal before the limit."""
    deadline = deadline_ms(job)
    if deadline is None or job.terms.signal is None:
        return None
    return deadline - job.terms.signal_before_ms


def slice_over_ms(job: Job) -> int | None:
    """When the active attempt is to be told that its slice is over, should others wait."""
    assert job.active is not None
    length, started = job.terms.slice_ms, _counts_from_ms(job.active)
    if length is None or started is None or job.terms.executor:
        return None  # A cluster sees to that itself.
    return started + length - job.terms.signal_before_ms


def is_warned_first(job: Job) -> bool:
    """True if a stopping attempt gets the signal of its own, and time to heed it, before SIGTERM.

    So it is where the job is to go on later. A cluster sends its own signals.
    """
    attempt, terms = job.active, job.terms
    if terms.signal is None or terms.executor or attempt is None or attempt.stop is None:
        return False
    return attempt.stop.cause in PUTS_BACK and attempt.started_at_ms is not None


def ask_ms(job: Job) -> int:
    """When a stopping attempt is asked to end, by SIGTERM."""
    assert job.active is not None and job.active.stop is not None
    at_ms = job.active.stop.at_ms
    return at_ms + job.terms.signal_before_ms if is_warned_first(job) else at_ms


def kill_ms(job: Job) -> int:
    """When a stopping attempt's grace time is over."""
    return ask_ms(job) + job.terms.grace_ms


def ready_ms(job: Job) -> int:
    """When a waiting job may be looked at."""
    if job.not_before_ms is None and job.backoff_until_ms is None:
        return 0
    if job.terms.executor:  # A cluster is told the time, and waits for it itself.
        return job.backoff_until_ms or 0
    return max(job.not_before_ms or 0, job.backoff_until_ms or 0)


def goes_first_ms(job: Job) -> int | None:
    """When a job that gave way has waited so long that it goes before all others."""
    since_ms = None if job.gave_way is None else job.gave_way.since_ms
    return None if since_ms is None else since_ms + HOUR_MS


def attempt_timers(job: Job) -> list[tuple[int, Timer]]:
    """The moments that lie ahead of the active attempt."""
    attempt = job.active
    assert attempt is not None
    if attempt.stop is not None:
        asked = [(ask_ms(job), Timer.GRACE)] if is_warned_first(job) else []
        return [*asked, (kill_ms(job), Timer.GRACE)]
    moments: tuple[tuple[int | None, Timer], ...] = ()
    if job.terms.time_limit_ms is not None:
        moments = ((deadline_ms(job), Timer.LIMIT), (warning_ms(job), Timer.WARNING))
    elif job.terms.slice_ms is None:
        return []
    moments = (*moments, (slice_over_ms(job), Timer.SLICE))
    return [(moment, kind) for moment, kind in moments if moment is not None]


class Timers:
    """What lies ahead, soonest first; whether an entry still holds is for its job to say."""

    def __init__(self, jobs: Jobs, waits_for_time: Callable[[Job], bool]) -> None:
        self._jobs = jobs
        self._waits_for_time = waits_for_time  # a job of which nothing but time is missing
        self._heap: list[Entry] = []

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entry in self._heap if self._is_awaited(*entry))

    def wait_until(self, moment_ms: int, job: Job, kind: Timer = Timer.READY) -> None:
        """Let a waiting job be looked at then."""
        heappush(self._heap, (moment_ms, job.id, 0, kind))

    def watch(self, job: Job) -> None:
        """Set what lies ahead of its active attempt."""
        assert job.active is not None
        for moment, kind in attempt_timers(job):
            heappush(self._heap, (moment, job.id, job.active.number, kind))

    def clear(self) -> None:
        """Forget all of them; they are set anew."""
        self._heap.clear()

    def next_ms(self) -> int | None:
        """When the first is due."""
        while self._heap and not self._is_awaited(*self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_awaited(self, moment: int, job_id: int, number: int, kind: int) -> bool:
        """False for a timer that was overtaken: its attempt ended, or its moment moved."""
        job = self._jobs.get(job_id)
        if job is None:
            return False
        if kind == Timer.READY:
            return self._waits_for_time(job) and ready_ms(job) == moment
        if kind == Timer.FIRST:
            waits = job.state is WAITING and not job.goes_first
            return waits and goes_first_ms(job) == moment
        attempt = job.active
        if attempt is None or attempt.number != number:
            return False
        if kind == Timer.GRACE:
            return attempt.stop is not None and moment in (kill_ms(job), ask_ms(job))
        if attempt.stop is not None:
            return False
        if kind == Timer.SLICE:
            return slice_over_ms(job) == moment
        if kind == Timer.WARNING:
            return attempt.warning is Warning.NONE and warning_ms(job) == moment
        return deadline_ms(job) == moment

    def take_due(self, now_ms: int) -> tuple[list[Job], list[Job], list[ev.Event]]:
        """The jobs that may be ready, or past their slices, by now; and events, to be applied.

        Each event once, though the timers of an attempt's placement and of its start, which moves
        the moment, may both have run out.
        """
        ready: list[Job] = []
        past_slice: list[Job] = []
        due: dict[ev.Event, None] = {}
        while self._heap and self._heap[0][0] <= now_ms:
            _, job_id, number, kind = heappop(self._heap)
            job = self._jobs.get(job_id)
            if job is None:
                continue
            if kind in (Timer.READY, Timer.FIRST):
                ready.append(job)
                continue
            attempt = job.active
            if attempt is None or attempt.number != number or attempt.stop is not None:
                continue
            if attempt.suspended_at_ms is not None:
                continue  # What lies ahead is set anew when it goes on.
            if kind == Timer.WARNING and attempt.warning is Warning.NONE:
                if (warning_ms(job) or 0) <= now_ms:
                    due[ev.WarningDue(now_ms, job_id, number)] = None
            elif kind == Timer.SLICE and (slice_over_ms(job) or 0) <= now_ms:
                past_slice.append(job)
            elif kind == Timer.LIMIT and (deadline_ms(job) or 0) <= now_ms:
                due[ev.StopRequested(now_ms, job_id, number, Cause.TIME_LIMIT)] = None
        return ready, past_slice, list(due)
