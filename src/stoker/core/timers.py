"""The moments at which something becomes due without any event, soonest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from stoker.core import events as ev
from stoker.core.jobs import Jobs
from stoker.core.model import Cause, Job, Warning
from stoker.core.moments import (
    Timer,
    attempt_timers,
    deadline_ms,
    kill_ms,
    ready_ms,
    warning_ms,
)

Entry = tuple[int, int, int, int]  # when, job, attempt, Timer


class Timers:
    """An entry is only a hint: the job says whether its moment still holds."""

    def __init__(self, jobs: Jobs, waits_for_time: Callable[[Job], bool]) -> None:
        self._jobs = jobs
        self._waits_for_time = waits_for_time  # a job of which nothing but time is missing
        self._heap: list[Entry] = []

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entry in self._heap if self._is_awaited(*entry))

    def wait_until(self, moment_ms: int, job: Job) -> None:
        """Let a waiting job be looked at then."""
        heappush(self._heap, (moment_ms, job.id, 0, Timer.READY))

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
        attempt = job.active
        if attempt is None or attempt.number != number:
            return False
        if kind == Timer.GRACE:
            return attempt.stop is not None and kill_ms(job) == moment
        if attempt.stop is not None:
            return False
        if kind == Timer.WARNING:
            return attempt.warning is Warning.NONE and warning_ms(job) == moment
        return deadline_ms(job) == moment

    def take_due(self, now_ms: int) -> tuple[list[Job], list[ev.Event]]:
        """The jobs that may be ready by now, and what else has become due, still to be applied.

        Each event once, though the timers of an attempt's placement and of its start, which moves
        the moment, may both have run out.
        """
        ready: list[Job] = []
        due: dict[ev.Event, None] = {}
        while self._heap and self._heap[0][0] <= now_ms:
            _, job_id, number, kind = heappop(self._heap)
            job = self._jobs.get(job_id)
            if job is None:
                continue
            if kind == Timer.READY:
                ready.append(job)
                continue
            attempt = job.active
            if attempt is None or attempt.number != number or attempt.stop is not None:
                continue
            if kind == Timer.WARNING and attempt.warning is Warning.NONE:
                if (warning_ms(job) or 0) <= now_ms:
                    due[ev.WarningDue(now_ms, job_id, number)] = None
            elif kind == Timer.LIMIT and (deadline_ms(job) or 0) <= now_ms:
                due[ev.StopRequested(now_ms, job_id, number, Cause.TIME_LIMIT)] = None
        return ready, list(due)
