"""A whole simulated run from one seed: jobs of all kinds, users who change their minds, crashes.

Same seed and same crash steps, same log. After every turn the state is checked against itself and
against the world's own ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from stoker.core import events as ev
from stoker.core.check import check
from stoker.core.model import Cause, Exit, JobState, Need, Requirement, Terms
from stoker.core.state import State
from stoker.engine import Decided, Engine, Wish
from stoker.ports import SeenGpu
from stoker.sim.faults import Crash, CrashingExecutor, CrashingStore, Steps, WorldInventory
from stoker.sim.world import NEVER_MS, Behaviour, VirtualClock, World
from stoker.store.memory import MemoryStore

GPUS = (
    SeenGpu("0", 24_576),
    SeenGpu("1", 24_576),
    SeenGpu("2", 24_576),
    SeenGpu("3", 49_152),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job of the scenario: what is submitted, and what its command does."""

    need: Need
    terms: Terms
    behaviours: tuple[Behaviour, ...]
    priority: int
    group: str | None
    requires: tuple[tuple[int, bool], ...]  # jobs before it, by how far back
    held: bool
    cancel_after_ms: int | None


def scenario(random: Random, count: int) -> list[Wanted]:
    """Jobs of all kinds, in the order of their submission."""
    return [_wanted(random, place) for place in range(count)]


def _wanted(random: Random, place: int) -> Wanted:
    need = random.choice(
        (
            Need(gpus=1),
            Need(gpus=1),
            Need(gpus=2),
            Need(gpus=4),
            Need(gpus=1, mem_mib=random.choice((4_000, 8_000, 20_000))),
            Need(gpus=2, mem_mib=10_000),
            Need(gpus=1, share_milli=500),
            Need(gpus=1, on=("1", "2")),
            Need(gpus=1, mem_mib=30_000),
            Need(gpus=1, mem_mib=2_000, max_per_gpu=2),
            Need(gpus=0, cpus=random.choice((1, 2, 4))),
            Need(gpus=1, cpus=2),
            Need(gpus=1, prefer=("3", "0")),
        )
    )
    kind = random.random()
    runs_ms = random.randrange(1, 5_000)
    cancel_after_ms = None
    limit = random.choice((None, None, 2_000, 10_000))
    behaviour = Behaviour(runs_ms, Exit(code=0))
    if kind < 0.10:
        behaviour = Behaviour(runs_ms, Exit(code=random.randrange(1, 256)))
    elif kind < 0.16:
        behaviour = Behaviour(runs_ms, Exit(signal=random.choice((6, 9, 11))))
    elif kind < 0.20:
        behaviour = Behaviour(1, Exit(code=0), can_start=False)
    elif kind < 0.30:
        heeds = random.choice((10, None))
        behaviour = Behaviour(NEVER_MS, Exit(code=0), heeds_stop_after_ms=heeds)
        if limit is None or random.random() < 0.5:
            cancel_after_ms = random.randrange(1, 20_000)
    elif kind < 0.36:
        cancel_after_ms = random.randrange(1, 3_000)
    retries = random.choice((0, 0, 0, 1, 2))
    second_try = (behaviour, Behaviour(runs_ms, Exit(code=0)))
    requires: tuple[tuple[int, bool], ...] = ()
    if place > 5 and random.random() < 0.2:
        requires = ((random.randrange(1, 6), random.random() < 0.6),)
    return Wanted(
        need,
        Terms(limit, 500, 10 if limit and random.random() < 0.5 else None, 300, retries),
        second_try if retries and random.random() < 0.5 else (behaviour,),
        random.choice((0, 0, 0, -1, 5)),
        random.choice((None, None, "a", "b")),
        requires,
        random.random() < 0.05,
        cancel_after_ms,
    )


class Simulation:
    """One run. `log` is every event that was committed, in order."""

    def __init__(
        self, seed: int, jobs: int, crash_at: Iterable[int] = (), clock_jumps: bool = True
    ) -> None:
        self.jobs = jobs
        self.log: list[ev.Event] = []
        self.crashes = 0
        self._clock_jumps = clock_jumps
        self._random = Random(seed)
        self.clock = VirtualClock()
        self.world = World(GPUS, 4, self.clock, seed)
        self.store = MemoryStore()
        self.steps = Steps(crash_at)
        self.disk = CrashingStore(self.store, self.steps)
        self._pending: list[ev.Event] = []
        self._todo: list[tuple[int, int, Wish]] = []
        self._plan_users()
        self.engine = self._new_engine()

    # ------------------------------------------------------------------ users

    def _plan_users(self) -> None:
        at_ms = self.clock.now_ms
        for place, wanted in enumerate(scenario(self._random, self.jobs)):
            job_id = place + 1
            at_ms += self._random.randrange(0, 400)
            self.world.behaviours[job_id] = list(wanted.behaviours)
            self.world.needs[job_id] = wanted.need
            self._will(at_ms, self._submission(job_id, wanted))
            if wanted.held:
                self._will(at_ms + self._random.randrange(1, 5_000), _release(job_id))
            if wanted.cancel_after_ms is not None:
                self._will(at_ms + wanted.cancel_after_ms, _cancel(job_id))
        for _ in range(self.jobs // 20):
            moment = self._random.randrange(self.clock.now_ms, at_ms)
            group = self._random.choice((None, "a"))
            self._will(moment, _pause(group))
            self._will(moment + self._random.randrange(1, 3_000), _resume(group))
        self._will(self.clock.now_ms, lambda s: Decided([ev.GroupLimited(s.now_ms, "b", 2)]))
        self._todo.sort(key=lambda item: item[:2])

    def _will(self, at_ms: int, wish: Wish) -> None:
        self._todo.append((at_ms, len(self._todo), wish))

    def _submission(self, job_id: int, wanted: Wanted) -> Wish:
        def wish(state: State) -> Decided:
            if job_id in state.jobs or job_id in self.store.outcomes:
                return Decided([])  # It was committed before the crash; the user sees that.
            requires = []
            for back, must in wanted.requires:
                ended = self.store.outcomes.get(job_id - back)
                if ended is None:
                    requires.append(Requirement(job_id - back, must))
            submitted = ev.JobSubmitted(
                state.now_ms,
                job_id,
                wanted.need,
                wanted.terms,
                wanted.priority,
                wanted.group,
                None,
                tuple(requires),
                wanted.held,
            )
            return Decided([submitted])

        return wish

    # ------------------------------------------------------------------ the run

    def _new_engine(self) -> Engine:
        while True:
            executor = CrashingExecutor(self.world, self.steps)
            inventory = WorldInventory(self.world)
            try:
                return Engine(self.disk, executor, inventory, self.clock, self._pending.append)
            except Crash:
                self._crashed()

    def _crashed(self) -> None:
        self.crashes += 1
        self._pending.clear()

    def turn(self) -> None:
        """One turn of the engine, with whatever its users want by now; it may crash."""
        wishes: list[Wish] = []
        while len(wishes) < len(self._todo) and self._todo[len(wishes)][0] <= self.clock.now_ms:
            wishes.append(self._todo[len(wishes)][2])
        try:
            answers = self.engine.turn(wishes)
        except Crash:
            self._crashed()
            self.engine = self._new_engine()
            return
        for answer in answers:
            assert answer.error is None, answer.error
        del self._todo[: len(wishes)]
        self.log.extend(self._pending)
        self._pending.clear()
        check(self.engine.state)
        self._check_ledger()

    def _check_ledger(self) -> None:
        """What runs in the world holds its GPUs in the state: the two must agree."""
        for gpu_id, held in self.world.ledger.items():
            believed = self.engine.state.gpus[gpu_id].held_by
            for job_id, _ in held:
                assert job_id in believed, f"job {job_id} is on GPU {gpu_id}, unknown to the state"

    def run(self, most_turns: int = 100_000) -> None:
        """Until every job is final."""
        for number in range(most_turns):
            self.turn()
            if not self._todo and not self.engine.state.jobs:
                return
            if self._clock_jumps and number % 97 == 96:
                self.jump_clock(self._random.choice((-3_600_000, 3_600_000, 86_400_000)))
            self.world.advance_to(self._next_moment())
        raise AssertionError(f"not at an end after {most_turns} turns: {self.engine.state.jobs}")

    def jump_clock(self, by_ms: int) -> None:
        """Somebody sets the wall clock."""
        self.world.set_wall(by_ms)
        self._todo = [(at + by_ms, n, wish) for at, n, wish in self._todo]

    def _next_moment(self) -> int:
        moments = [self.engine.next_wakeup_ms(), self.world.next_end_ms()]
        if self._todo:
            moments.append(self._todo[0][0])
        known = [m for m in moments if m is not None]
        return max(min(known, default=self.clock.now_ms + 1), self.clock.now_ms + 1)


def _release(job_id: int) -> Wish:
    def wish(state: State) -> Decided:
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.HELD:
            return Decided([])
        return Decided([ev.JobReleased(state.now_ms, job_id)])

    return wish


def _cancel(job_id: int) -> Wish:
    def wish(state: State) -> Decided:
        job = state.jobs.get(job_id)
        if job is None:
            return Decided([])
        if job.active is None:
            return Decided([ev.JobCancelled(state.now_ms, job_id)])
        return Decided([ev.StopRequested(state.now_ms, job_id, job.active.number, Cause.CANCELLED)])

    return wish


def _pause(group: str | None) -> Wish:
    return lambda state: Decided([ev.QueuePaused(state.now_ms, group)])


def _resume(group: str | None) -> Wish:
    return lambda state: Decided([ev.QueueResumed(state.now_ms, group)])
