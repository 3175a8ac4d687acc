"""When will it start? The same core, run forward in virtual time on expected run times.

What is not known stays unknown: a job for which nothing can be expected never ends here, and
a job that needs its GPUs gets no answer rather than a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice

from stoker.core import events as ev
from stoker.core.model import SUBMITTED, Exit, Job, copied
from stoker.core.plan import Scan
from stoker.core.state import State
from stoker.core.timers import kill_ms

MOST_JOBS = 2_000
MOST_STEPS = 5_000

Expect = Callable[[int], int | None]
"""How long a job is expected to run, in ms, by its id; None if nothing is known."""


def _can_tell(state: State) -> bool:
    """Nothing is known of when a user resumes the queue, or makes room on a disk."""
    stopped = state.paused or (state.low_disk is not None and state.low_disk.stops)
    return len(state.jobs) <= MOST_JOBS and not stopped


def expected_start_ms(state: State, job_id: int, expect: Expect) -> int | None:
    """When a waiting job is expected to start; None if that can't be told."""
    if not _can_tell(state):
        return None
    future = _Future(state, expect)
    for start in future.starts():
        if start.job_id == job_id:
            return start.starts_at_ms
        if job_id not in future.state.jobs:
            return None
    return None


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """What is expected of a job that waits; the end is None where nothing is known of it."""

    job_id: int
    gpus: tuple[str, ...]
    starts_at_ms: int
    ends_at_ms: int | None


def expected_starts(state: State, expect: Expect, most: int) -> list[ExpectedStart]:
    """What is expected to start next, soonest first; none if that can't be told."""
    if not _can_tell(state):
        return []
    return list(islice(_Future(state, expect).starts(), most))


def expected_end_ms(job: Job, expect: Expect, now_ms: int) -> int | None:
    """When a job that runs is expected to end; None if that can't be told."""
    attempt = job.active
    assert attempt is not None
    known = [ms for ms in (expect(job.id), job.terms.time_limit_ms) if ms is not None]
    started = attempt.placed_at_ms if attempt.started_at_ms is None else attempt.started_at_ms
    ran_ms = started + attempt.suspended_ms
    if attempt.stop is not None and not job.terms.executor:
        known.append(kill_ms(job) - ran_ms)
    # Nor is it known when the cluster starts a job, or when a user continues one.
    if not known or job.state is SUBMITTED or attempt.suspended_at_ms is not None:
        return None
    return max(ran_ms + min(known), now_ms + 1)


class _Future:
    def __init__(self, state: State, expect: Expect) -> None:
        self._expect = expect
        self.state = State.restored(
            [copied(job) for job in state.jobs.values()],
            [replace(gpu, held_by={}) for gpu in state.gpus.values()],
            [replace(group, running=0) for group in state.groups.values()],
            state.profiles.values(),
            now_ms=state.now_ms,
            next_job_id=state.next_job_id,
            paused=False,
            cpus=state.cpus,
            at_cluster_most=state.at_cluster_most,
            **state.order.kept(),
        )
        for job_id in state.terminals:
            self.state.apply(ev.TerminalCame(state.now_ms, job_id))
        self._ends: list[tuple[int, int, int]] = []
        for job_id in self.state.active:
            self._expect_end(self.state.jobs[job_id])

    def starts(self) -> Iterator[ExpectedStart]:
        """Each start as it comes."""
        state = self.state
        for _ in range(MOST_STEPS):
            for placed in Scan(state).carry_out(self._start):
                ends_at_ms = self._expect_end(state.jobs[placed.job_id])
                yield ExpectedStart(placed.job_id, placed.gpus, state.now_ms, ends_at_ms)
            if not self._advance():
                return

    def _start(self, placed: ev.AttemptPlaced) -> None:
        self.state.apply(placed)
        started = ev.AttemptStarted(self.state.now_ms, placed.job_id, placed.attempt, None)
        self.state.apply(started)

    def _expect_end(self, job: Job) -> int | None:
        attempt = job.active
        assert attempt is not None
        end = expected_end_ms(job, self._expect, self.state.now_ms)
        if end is not None:
            heappush(self._ends, (end, job.id, attempt.number))
        return end

    def _advance(self) -> bool:
        """Go to the next moment at which something happens; False if nothing will."""
        state = self.state
        timer = state.next_timer_ms()
        end = self._ends[0][0] if self._ends else None
        moments = [moment for moment in (timer, end) if moment is not None]
        if not moments:
            return False
        state.apply(ev.TimePassed(min(moments)))
        state.take_due()  # Limits end jobs here by their expected end, not by being stopped.
        while self._ends and self._ends[0][0] <= state.now_ms:
            _, job_id, number = heappop(self._ends)
            if state.is_current(job_id, number):
                state.apply(ev.AttemptExited(state.now_ms, job_id, number, Exit(code=0)))
        while skips := state.take_doomed():
            for skip in skips:
                state.apply(skip)
        return True
