"""When will it start? The same core, run forward in virtual time on expected run times.

How long a job will run is not known, only how long others took that are like it. So there are
several futures, in each of which every job takes another of these times, and the answer is the
middle of them and a range. A job that has run for a while takes longer than that.

What is not known stays unknown: a job for which nothing can be expected never ends here, and
a job that needs its GPUs gets no answer rather than a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice
from math import exp

from stoker.core import events as ev
from stoker.core.learning import reserved_mib
from stoker.core.model import ALONE, SUBMITTED, Exit, Job, Memory, Profile, copied
from stoker.core.plan import Scan
from stoker.core.run_times import longer_than, quantile
from stoker.core.state import State
from stoker.core.timers import kill_ms

MOST_JOBS = 2_000
MOST_STEPS = 5_000
_MIDDLE = 0.5
# How many futures there are, by how many jobs there are at most. Prime, see `_parts`.
_FUTURES = ((250, 13), (700, 7), (MOST_JOBS, 3))
_RANGE = (0.1, 0.9)
# The logarithm of how much quicker or slower all jobs are in the outermost futures; as measured,
# four of five jobs then start within the range.
_PACE = 0.4
_PACE_WHERE_SHARED = 0.9
_SETTLES_MS = 60_000  # a job of a kind of which no memory is known tells it about then

Expect = Callable[[int], Sequence[int]]
"""How long jobs took, in ms, that are like the one with that id; empty if nothing is known."""


def _can_tell(state: State) -> bool:
    """Nothing is known of when a user resumes the queue, or makes room on a disk."""
    stopped = state.paused or (state.low_disk is not None and state.low_disk.stops)
    return len(state.jobs) <= MOST_JOBS and not stopped


@dataclass(frozen=True, slots=True)
class StartRange:
    """When a job should start; and the range in which it does four times out of five."""

    at_ms: int
    from_ms: int
    until_ms: int


def expected_start(state: State, job_id: int, expect: Expect) -> StartRange | None:
    """When a waiting job is expected to start; None if that can't be told."""
    if not _can_tell(state):
        return None
    count = next(number for most, number in _FUTURES if len(state.jobs) <= most)
    starts = []
    for number in range(count):
        start_ms = _start_in(_Future(state, expect, number, count), job_id)
        if start_ms is None:
            return None
        starts.append(start_ms)
    starts.sort()
    first, last = (quantile(starts, part) for part in _RANGE)
    return StartRange(quantile(starts, _MIDDLE), first, last)


def _start_in(future: _Future, job_id: int) -> int | None:
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


def expected_end_ms(
    job: Job, expect: Expect, now_ms: int, part: float = _MIDDLE, pace: float = 1.0
) -> int | None:
    """When a job that runs is expected to end; None if that can't be told.

    `part`: of those that are like it and took longer than it has run, this part took less.
    `pace`: the factor by which what is left takes longer than that.
    """
    attempt = job.active
    assert attempt is not None
    started = attempt.placed_at_ms if attempt.started_at_ms is None else attempt.started_at_ms
    ran_ms = started + attempt.suspended_ms
    runs = expect(job.id)
    so_far_ms = now_ms - ran_ms
    left_ms = quantile(longer_than(runs, so_far_ms), part) - so_far_ms if runs else 0
    known = [so_far_ms + round(left_ms * pace)] if runs else []
    if job.terms.time_limit_ms is not None:
        known.append(job.terms.time_limit_ms)
    if attempt.stop is not None and not job.terms.executor:
        known.append(kill_ms(job) - ran_ms)
    # Nor is it known when the cluster starts a job, or when a user continues one.
    if not known or job.state is SUBMITTED or attempt.suspended_at_ms is not None:
        return None
    return max(ran_ms + min(known), now_ms + 1)


class _Future:
    """One of so many. In the only one, all jobs take what is in the middle."""

    def __init__(self, state: State, expect: Expect, number: int = 0, count: int = 1) -> None:
        self._expect = expect
        self._number, self._count = number, count
        # Jobs of a kind are slow or quick together, and what is not played here delays all.
        shared = any(not state.jobs[job_id].need.whole for job_id in state.active)
        pace = _PACE_WHERE_SHARED if shared else _PACE
        self._pace = exp(pace * (2 * (number + 0.5) / count - 1))
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
        self._settles: list[tuple[int, int, int]] = []  # when, and which attempt
        for job_id in self.state.active:
            self._expect_end(self.state.jobs[job_id])
            self._expect_memory(self.state.jobs[job_id])

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
        self._expect_memory(self.state.jobs[placed.job_id])

    def _part(self, job_id: int) -> float:
        """Which of the known times a job takes here.

        In each of the futures it is another, and for each job in another order.
        """
        step = job_id % (self._count - 1) + 1 if self._count > 2 else 1
        place = (self._number * step + job_id * 7) % self._count
        return (place + 0.5) / self._count

    def _expect_memory(self, job: Job) -> None:
        """What is learned of memory is learned here too, or others would wait for it for ever."""
        attempt = job.active
        assert attempt is not None
        if job.need.kind is not None and attempt.gpus and not attempt.settled:
            settles_ms = max(attempt.placed_at_ms + _SETTLES_MS, self.state.now_ms + 1)
            heappush(self._settles, (settles_ms, job.id, attempt.number))

    def _settle(self, job_id: int, number: int) -> None:
        state = self.state
        if not state.is_current(job_id, number):
            return
        job = state.jobs[job_id]
        kind, attempt = job.need.kind, job.active
        assert kind is not None and attempt is not None
        profile = state.profiles.get(kind)
        if profile is None:
            profile = _like_others(kind, state, attempt.peak_mib or job.need.mem_mib)
            state.apply(ev.ProfileLearned(state.now_ms, profile))
        peak = max(attempt.peak_mib or 0, round(profile.mean_mib))
        state.apply(ev.MemorySeen(state.now_ms, job_id, number, peak, True, True))
        if job.need.whole or job.floor_mib == ALONE:
            return
        wanted = max(job.need.with_margin(peak), job.floor_mib or 0, job.need.mem_mib or 0)
        if wanted < reserved_mib(state, attempt, job_id):
            memory = Memory(wanted, wanted - peak, profile.growth_mib(job.need))
            state.apply(ev.ReservationChanged(state.now_ms, job_id, number, memory))

    def _expect_end(self, job: Job) -> int | None:
        attempt = job.active
        assert attempt is not None
        end = expected_end_ms(job, self._expect, self.state.now_ms, self._part(job.id), self._pace)
        if end is not None:
            heappush(self._ends, (end, job.id, attempt.number))
        return end

    def _advance(self) -> bool:
        """Go to the next moment at which something happens; False if nothing will."""
        state = self.state
        timer = state.next_timer_ms()
        end = self._ends[0][0] if self._ends else None
        settles = self._settles[0][0] if self._settles else None
        moments = [moment for moment in (timer, end, settles) if moment is not None]
        if not moments:
            return False
        state.apply(ev.TimePassed(min(moments)))
        state.take_due()  # Limits end jobs here by their expected end, not by being stopped.
        while self._settles and self._settles[0][0] <= state.now_ms:
            _, job_id, number = heappop(self._settles)
            self._settle(job_id, number)
        while self._ends and self._ends[0][0] <= state.now_ms:
            _, job_id, number = heappop(self._ends)
            if state.is_current(job_id, number):
                state.apply(ev.AttemptExited(state.now_ms, job_id, number, Exit(code=0)))
        while skips := state.take_doomed():
            for skip in skips:
                state.apply(skip)
        return True


def _like_others(kind: str, state: State, seen_mib: int | None) -> Profile:
    """What is supposed of the memory of a kind of which nothing is known."""
    others = list(state.profiles.values())
    peak = seen_mib
    if peak is None and others:
        peak = sum(one.max_mib for one in others) // len(others)
    if peak is None:
        peak = max((gpu.memory_mib or 0 for gpu in state.gpus.values()), default=0) // 4
    uses = [one.use_percent for one in others if one.use_percent is not None]
    use = sum(uses) // len(uses) if uses else None
    return Profile(kind, 0, peak, float(peak), 0.0, _SETTLES_MS, use, 0, state.now_ms)
