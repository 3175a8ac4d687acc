"""A whole simulated run from one seed: jobs of all kinds, users who change their minds, faults.

Same seed, same faults and same crash steps: same log. After every turn the state is checked
against itself and against the world's own ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from stoker.core import events as ev
from stoker.core.commands import Relieve
from stoker.engine import Engine, Wish
from stoker.errors import Unavailable
from stoker.sim import scenario
from stoker.sim.agreement import check_agreement, check_end, check_time_limits
from stoker.sim.faults import Crash, CrashingExecutor, CrashingStore, Steps, WorldInventory
from stoker.sim.scenario import Ask
from stoker.sim.world import VirtualClock, World
from stoker.store.memory import MemoryStore

MOST_CRASHES_IN_A_MOMENT = 3
ASKS_AGAIN_AFTER_MS = 50


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong outside: how often, at moments that follow from the seed."""

    clock_jumps: int = 4
    gpus_lost: int = 2
    facts_repeated: int = 4
    power_cuts: int = 0
    disk_full: int = 0
    in_a_turn_ms: int = 0  # what ends that soon, by the clock of the world, ends during the turn


class Simulation:
    """One run. `log` is every event that was committed, in order."""

    def __init__(
        self, seed: int, jobs: int, steps: Steps | None = None, faults: Faults | None = None
    ) -> None:
        self.jobs = jobs
        self.log: list[ev.Event] = []
        self.crashes = 0
        self.shift_was_lost = False
        self.clock = VirtualClock()
        self.world = World(scenario.GPUS, scenario.CPUS, self.clock, seed)
        if faults is not None:
            self.world.in_a_turn_ms = faults.in_a_turn_ms
        self.store = MemoryStore()
        self.steps = Steps() if steps is None else steps
        self.disk = CrashingStore(self.store, self.steps)
        self.todo: list[tuple[int, int, Ask]] = []  # by users: when, a number, what
        self.outside: list[tuple[int, int, Happening]] = []  # the same, by the world
        self._pending: list[ev.Event] = []
        self._crashes_now = 0
        self._shift_is_open = False  # the clock was set, and that is not committed yet
        self._plan(Random(seed), Faults() if faults is None else faults)
        self.steps.run = self
        self.engine = self._new_engine()

    def survivor(self, steps: Steps) -> Simulation:
        """What becomes of this very moment if the engine dies in it: a run of its own.

        Disk and world are copied as they are now, between two steps. The engine's memory is not:
        that is gone.
        """
        other = copy(self)
        other.steps, other.log, other._pending = steps, [], []
        other.todo, other.outside = self.todo.copy(), self.outside.copy()
        other.clock = replace(self.clock)
        other.world = self.world.copied(other.clock)
        other.store = copy(self.store)
        for name, value in vars(self.store).items():
            if isinstance(value, dict | list):  # What is in them is replaced, and never changed.
                setattr(other.store, name, value.copy())
        other.disk = CrashingStore(other.store, steps)
        other.disk.disk_full = self.disk.disk_full
        steps.run = other
        other._crashed()
        other.engine = other._new_engine()
        return other

    # ------------------------------------------------------------------ what will happen

    def _plan(self, random: Random, faults: Faults) -> None:
        at_ms = 0
        self._will(0, scenario.limit("b", 2))
        for job_id in range(1, self.jobs + 1):
            at_ms += random.randrange(1, 1_000)
            self._plan_job(random, at_ms, job_id)
        for _ in range(self.jobs // 20):
            moment = random.randrange(0, at_ms)
            group = random.choice((None, "a"))
            self._will(moment, scenario.pause(group))
            self._will(moment + random.randrange(1, 3_000), scenario.resume(group))
        for _ in range(self.jobs // 50):
            moment = random.randrange(0, at_ms)
            gpu_id = random.choice(scenario.GPUS).id
            self._will(moment, scenario.drain(gpu_id))
            self._will(moment + random.randrange(1, 3_000), scenario.undrain(gpu_id))
        self._plan_faults(random, faults, at_ms)
        self.todo.sort(key=lambda item: item[:2])
        self.outside.sort(key=lambda item: item[:2])

    def _plan_job(self, random: Random, at_ms: int, job_id: int) -> None:
        wanted = scenario.wanted(random, job_id - 1)
        self.world.behaviours[job_id] = wanted.behaviours
        self.world.needs[job_id] = wanted.need
        self._will(at_ms, scenario.submit(job_id, wanted))
        if wanted.held:
            self._will(at_ms + random.randrange(1, 5_000), scenario.release(job_id))
        if wanted.cancel_after_ms is not None:
            self._will(at_ms + wanted.cancel_after_ms, scenario.cancel(job_id))
        if wanted.retry_after_ms is not None:
            self._will(at_ms + wanted.retry_after_ms, scenario.retry(job_id, wanted))
        if random.random() < 0.05:
            moment = at_ms + random.randrange(1, 2_000)
            self._will(moment, scenario.hold(job_id))
            self._will(moment + random.randrange(1, 2_000), scenario.release(job_id))
        if random.random() < 0.05:
            moment = at_ms + random.randrange(1, 2_000)
            self._will(moment, scenario.reprioritise(job_id, random.randrange(-3, 3)))

    def _plan_faults(self, random: Random, faults: Faults, until_ms: int) -> None:
        for _ in range(faults.clock_jumps):
            by_ms = random.choice((-3_600_000, 3_600_000, 86_400_000, -50, 50))
            self._outside_at(random.randrange(until_ms), _sets_the_clock(by_ms))
        for _ in range(faults.gpus_lost):
            moment = random.randrange(until_ms)
            gpu_id = random.choice(scenario.GPUS).id
            self._outside_at(moment, _loses_gpu(gpu_id))
            self._outside_at(moment + random.randrange(1, 5_000), _finds_all_gpus)
        for _ in range(faults.facts_repeated):
            self._outside_at(random.randrange(until_ms), _repeats_facts)
        for _ in range(faults.power_cuts):
            self._outside_at(random.randrange(until_ms), Simulation.cut_power)
        for _ in range(faults.disk_full):
            moment = random.randrange(until_ms)
            self._outside_at(moment, _fills_the_disk)
            self._outside_at(moment + random.randrange(1, 4_000), _frees_the_disk)

    def _will(self, at_ms: int, ask: Ask) -> None:
        self.todo.append((at_ms, len(self.todo), ask))

    def _outside_at(self, at_ms: int, happens: Happening) -> None:
        self.outside.append((at_ms, len(self.outside), happens))

    # ------------------------------------------------------------------ the run

    def run(self, most_turns: int = 20_000) -> None:
        """Until every job is final."""
        for _ in range(most_turns):
            if not self.step():
                check_end(self)
                return
        raise AssertionError(f"not at an end after {most_turns} turns: {self.engine.state.jobs}")

    def step(self) -> bool:
        """What happens now, one turn, and the time until the next; False if nothing is left."""
        while self.outside and self.outside[0][0] <= self.clock.true_ms:
            self.outside.pop(0)[2](self)
        if self.turn():
            if not self.todo and not self.engine.state.jobs:
                return False
            self.world.advance_to(self._next_moment())
        elif self._crashes_now >= MOST_CRASHES_IN_A_MOMENT:
            self.world.advance_to(self._next_moment())
            self._crashes_now = 0
        return True

    def turn(self) -> bool:
        """One turn of the engine, with whatever its users want by now; False if it crashed."""
        wishes: list[Wish] = []
        while len(wishes) < len(self.todo) and self.todo[len(wishes)][0] <= self.clock.true_ms:
            wishes.append(partial(self.todo[len(wishes)][2], self.store))
        refused = self.disk.refused
        try:
            answers = self.engine.turn(wishes)
        except Crash:
            self._crashed()
            self.engine = self._new_engine()
            return False
        self._crashes_now = 0
        if self.disk.refused > refused:
            assert all(isinstance(answer.error, Unavailable) for answer in answers), answers
            self.todo = [
                (max(at_ms, self.clock.true_ms + ASKS_AGAIN_AFTER_MS), number, ask)
                for at_ms, number, ask in self.todo
            ]
        else:
            assert all(answer.error is None for answer in answers), answers
            del self.todo[: len(wishes)]
            self._shift_is_open = False
            check_time_limits(self, self._pending)
            self.log.extend(self._pending)
            check_agreement(self)
        self._pending.clear()
        return True

    def set_clock(self, by_ms: int) -> None:
        """Somebody sets the wall clock."""
        self.clock.set_wall(by_ms)
        self._shift_is_open = True

    def standing_order(self) -> Relieve | None:
        """Who is to take whose place, as far as the executor knows."""
        return self._executor.relief

    def cut_power(self) -> None:
        """The engine and all processes die at once; then the machine is switched on again."""
        self.world.power_cut()
        self._crashed()
        self.engine = self._new_engine()

    def _new_engine(self) -> Engine:
        while True:
            self._executor = executor = CrashingExecutor(self.world, self.steps)
            inventory = WorldInventory(self.world)
            try:
                return Engine(self.disk, executor, inventory, self.clock, self._pending.append)
            except Crash:
                self._crashed()

    def _crashed(self) -> None:
        self.crashes += 1
        self._crashes_now += 1
        self._pending.clear()
        if self._shift_is_open and not self.clock.unread_shift_ms:
            # It was read by an engine that died before it could commit what follows from it.
            self._shift_is_open, self.shift_was_lost = False, True

    def _next_moment(self) -> int:
        """When something happens next, in true time; never now, so that time does pass."""
        now_ms = self.clock.true_ms
        moments = [self.world.next_end_ms()]
        wakeup_ms = self.engine.next_wakeup_ms()
        if wakeup_ms is not None:
            moments.append(wakeup_ms - self.clock.wall_ahead_ms)
        moments += [queue[0][0] for queue in (self.todo, self.outside) if queue]
        known = [moment for moment in moments if moment is not None]
        soonest = now_ms + (ASKS_AGAIN_AFTER_MS if self.disk.disk_full else 1)
        return max(min(known, default=soonest), soonest)


Happening = Callable[[Simulation], None]
"""Something that happens outside, whatever the engine does."""


def _sets_the_clock(by_ms: int) -> Happening:
    return lambda run: run.set_clock(by_ms)


def _loses_gpu(gpu_id: str) -> Happening:
    return lambda run: run.world.show(gpu for gpu in scenario.GPUS if gpu.id != gpu_id)


def _finds_all_gpus(run: Simulation) -> None:
    run.world.show(scenario.GPUS)


def _repeats_facts(run: Simulation) -> None:
    run.world.tell_again()


def _fills_the_disk(run: Simulation) -> None:
    run.disk.disk_full = True


def _frees_the_disk(run: Simulation) -> None:
    run.disk.disk_full = False
