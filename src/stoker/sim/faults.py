"""The ports of a simulated world, with a crash at any step.

A step is each moment at which a real daemon may be killed: before and after a commit, between
two orders, before facts are settled. `Steps` counts them and raises `Crash` at those chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from stoker.core.change import Change
from stoker.core.commands import Command, Relieve
from stoker.core.events import Fact
from stoker.core.model import Job, Launch
from stoker.core.state import State
from stoker.ports import Sighting, StoreFailed
from stoker.sim.world import World
from stoker.store.memory import MemoryStore

if TYPE_CHECKING:
    from stoker.sim.run import Simulation


class Crash(BaseException):
    """The engine's process is gone. Not an Exception, so that nothing handles it by accident."""


class Steps:
    """Counts the steps, and crashes at those that were chosen."""

    run: Simulation  # whose steps these are

    def __init__(self, crash_at: Container[int] = ()) -> None:
        self.taken = 0
        self._crash_at = crash_at

    def take(self) -> None:
        """One more moment at which the process might be killed."""
        self.taken += 1
        if self.taken in self._crash_at:
            raise Crash


class EveryNth:
    """The steps `first`, `first + n`, `first + 2n`, ..."""

    def __init__(self, n: int, first: int) -> None:
        self._n = n
        self._first = first

    def __contains__(self, step: object) -> bool:
        if not isinstance(step, int):
            return False
        return step >= self._first and (step - self._first) % self._n == 0


class CrashingStore:
    """A store whose owner may die just before or after a commit, and whose disk may be full."""

    def __init__(self, inner: MemoryStore, steps: Steps) -> None:
        self._inner = inner
        self._steps = steps
        self.disk_full = False
        self.refused = 0  # how many commits failed

    def load(self, now_ms: int) -> State:
        """See ports.Store."""
        return self._inner.load(now_ms)

    def commit(
        self, state: State, change: Change, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """See ports.Store."""
        self._steps.take()
        if meanwhile is not None:
            meanwhile()
            self._steps.take()
        if self.disk_full:
            self.refused += 1
            raise StoreFailed("no space left on device")
        self._inner.commit(state, change)
        self._steps.take()

    def launch(self, job_id: int) -> Launch:
        """See ports.Store."""
        return self._inner.launch(job_id)


class CrashingExecutor:
    """An executor whose owner may die between any two orders."""

    def __init__(self, world: World, steps: Steps) -> None:
        self._world = world
        self._steps = steps
        self.relief: Relieve | None = None

    def adopt(self, active: Iterable[Job], standbys: Iterable[Job], now_ms: int) -> None:
        """See ports.Executor."""
        self._steps.take()
        self._world.adopt(active, standbys, now_ms)

    def carry_out(
        self, commands: Sequence[Command], launch_of: Callable[[int], Launch], now_ms: int
    ) -> None:
        """See ports.Executor."""
        self.relief = None
        for command in commands:
            self._steps.take()
            if isinstance(command, Relieve):
                self.relief = self._world.still_to_come(command)
                continue
            launch_of(command.job_id)  # A real executor needs it, so it must be there.
            self._world.carry_out(command)
        self._steps.take()

    def observe(self, now_ms: int) -> list[Fact]:
        """See ports.Executor."""
        self._steps.take()
        self._take_over()
        return self._world.facts()

    def keep_to(self, order: Relieve | None) -> None:
        """See ports.Executor."""
        if order is None or self.relief is None:
            self.relief = None
            return
        attempts = [one for one in self.relief.attempts if one in order.attempts]
        pairs = zip(self.relief.standbys, order.standbys, strict=False)
        standbys = [now for now, then in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        self.relief = Relieve(tuple(attempts), tuple(standbys))

    def relieve(self, now_ms: int) -> bool:
        """See ports.Executor: while a turn goes on, processes may end that were about to."""
        self._world.end_those_due_within(self._world.in_a_turn_ms)
        self._world.took_over_in_a_turn += self._take_over()
        return False

    def _take_over(self) -> int:
        """Let standbys take over; how many have."""
        count = 0
        for place in self._world.left_places(self.relief) if self.relief is not None else ():
            assert self.relief is not None
            if not self.relief.standbys:
                break
            standby, *others = self.relief.standbys
            attempts = self.relief.attempts
            if standby.may_be_relieved:
                attempts = (*attempts, (standby.job_id, standby.attempt))
            self.relief = Relieve(attempts, tuple(others))
            self._world.relieve(place, standby)
            count += 1
            self._steps.take()
        return count

    def settled(self, facts: Sequence[Fact]) -> None:
        """See ports.Executor."""
        self._steps.take()
        self._world.settled(facts)

    def next_wakeup_ms(self) -> int | None:
        """See ports.Executor."""
        return None

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        """See ports.Executor: nobody looks at what processes are on simulated GPUs."""
        return {}


class WorldInventory:
    """Sees the world's GPUs."""

    def __init__(self, world: World) -> None:
        self._world = world

    def read_soon(self) -> None:
        """The world's GPUs are always seen as they are."""

    def observe(self) -> Sighting:
        """See ports.Inventory."""
        return self._world.sighting
