"""The ports of a simulated world, with a crash at any step.

A step is each moment at which a real daemon may be killed: before and after a commit, between
two orders, before facts are acknowledged. `Steps` counts them and raises `Crash` at those chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING

from stoker.core.change import Change
from stoker.core.commands import Command, StartAttached, Terminate
from stoker.core.events import AttemptEvicted, AttemptNotStarted, AttemptPutBack, Fact
from stoker.core.model import Cause, Job, Launch
from stoker.core.state import State
from stoker.executors.acceptances import Accepted, Torn
from stoker.executors.grants import Grants
from stoker.ports import StoreFailed
from stoker.sim.terminals import ANSWERS_WITHIN_MS, Key
from stoker.sim.world import World
from stoker.store.memory import MemoryStore

if TYPE_CHECKING:
    from stoker.sim.run import Simulation


RESERVE = 4


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


class CrashingStore:
    """A store whose owner may die just before or after a commit, and whose disk may be full."""

    def __init__(self, inner: MemoryStore, steps: Steps) -> None:
        self._inner = inner
        self._steps = steps
        self.disk_full = False
        self.reserve = RESERVE  # how many commits it has room for beyond that
        self.room = 0  # how many of them it was given up for
        self.refused = 0  # how many commits failed
        self.on_reserve = 0  # how many had room only by the reserve

    def survivor(self, inner: MemoryStore, steps: Steps) -> CrashingStore:
        """The disk as it is now, for what becomes of this moment elsewhere."""
        other = copy(self)
        other._inner, other._steps = inner, steps
        return other

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
        if self.disk_full and not self.room:
            self.refused += 1
            self._steps.run.pending.clear()  # It has not come true.
            raise StoreFailed("no space left on device")
        if self.disk_full:
            self.room -= 1
            self.on_reserve += 1
        self._inner.commit(state, change)
        self._steps.take()

    def make_room(self) -> bool:
        """See ports.Store."""
        self._steps.take()
        if not self.reserve:
            return False
        self.reserve -= 1
        # What fills the disk is quicker now and then.
        self.room = 0 if self.reserve % 2 else 1
        self._steps.take()
        return True

    def free(self) -> None:
        """There is room again."""
        self.disk_full, self.room, self.reserve = False, 0, RESERVE

    def launch(self, job_id: int) -> Launch:
        """See ports.Store."""
        return self._inner.launch(job_id)


class CrashingExecutor:
    """An executor whose owner may die between any two orders."""

    def __init__(
        self, world: World, steps: Steps, before_facts: Callable[[], object] = lambda: None
    ) -> None:
        """`before_facts` is called whenever facts are about to be told."""
        self._world = world
        self._steps = steps
        self._before_facts = before_facts
        self.grants = Grants(world.terminals, self._begun, world.tell)
        self.offered_at_ms: dict[Key, int] = {}  # in true time

    def adopt(self, active: Iterable[Job], now_ms: int) -> None:
        """See ports.Executor."""
        self._steps.take()
        known = [
            (job, a.number, a.started_at_ms is not None) for job in active if (a := job.active)
        ]
        self._world.adopt(known)
        for job, number, _ in known:
            key = (job.id, number)
            if job.active is not None and job.active.suspended_at_ms is not None:
                # A stop that could not be saved, and is forgotten, has let it go on.
                self._world.suspend(key, job.active.suspensions)
            if job.terms.attached and key not in self._world.made and not self._is_told(key):
                evicted = AttemptEvicted(now_ms, *key, Cause.REQUEUED, "the engine died")
                self.grants.end(evicted, now_ms)

    def carry_out(
        self, commands: Sequence[Command], launch_of: Callable[[int], Launch], now_ms: int
    ) -> None:
        """See ports.Executor."""
        for command in commands:
            self._steps.take()
            launch_of(command.job_id)  # A real executor needs it, so it must be there.
            if isinstance(command, StartAttached):
                self._offer(command, now_ms)
                continue
            key = (command.job_id, command.attempt)
            if isinstance(command, Terminate) and key in self.grants:
                self.grants.end(AttemptNotStarted(now_ms, *key, "stopped first"), now_ms)
            if key not in self.grants:
                self._world.carry_out(command)
        self._steps.take()

    # --- attached attempts, as the local executor and the daemon see to them ---

    def _is_told(self, key: Key) -> bool:
        return any((fact.job_id, fact.attempt) == key for fact in self._world.pending)

    def _offer(self, command: StartAttached, now_ms: int) -> None:
        key = (command.job_id, command.attempt)
        if key in self._world.watched or self._is_told(key):
            return
        if self.grants.offer(key, command.grace_ms, now_ms):
            self.offered_at_ms.setdefault(key, self._world.clock.true_ms)
            self._world.grant(command)
            self._hear_clients(now_ms)

    def _begun(self, key: Key, acceptance: Accepted | Torn, grace_ms: int, stops: bool) -> None:
        self._world.watch(key)

    def _hear_clients(self, now_ms: int) -> None:
        """What clients report, and what is not heard of them."""
        terminals, true_ms = self._world.terminals, self._world.clock.true_ms
        reports, terminals.reports = terminals.reports, []
        for key in reports:
            cause = self._world.behaviour_of(key).cannot_start
            if key in self.grants and cause is not None:
                self._take_back(key, cause, now_ms)
            elif key in self.grants and terminals.read(key) is None:
                what = "there is no room for a process"
                self.grants.end(AttemptPutBack(now_ms, *key, what, spent=True), now_ms)
            elif key in self.grants:
                assert self.grants.is_accepted(key, key[0], now_ms), f"{key} was accepted"
        for key, at_ms in list(self.offered_at_ms.items()):
            if key not in self.grants:
                del self.offered_at_ms[key]
            elif true_ms >= at_ms + ANSWERS_WITHIN_MS or key[0] in terminals.died_at_ms:
                self._take_back(key, Cause.TERMINAL_GONE, now_ms)

    def _take_back(self, key: Key, cause: Cause, now_ms: int) -> None:
        self.grants.end(AttemptNotStarted(now_ms, *key, "not started", cause), now_ms)

    def observe(self, now_ms: int) -> list[Fact]:
        """See ports.Executor."""
        self._steps.take()
        self._hear_clients(now_ms)
        self.grants.try_again(now_ms)
        self._before_facts()
        return self._world.facts()

    def acknowledged(self, facts: Sequence[Fact]) -> None:
        """See ports.Executor."""
        self._steps.take()
        self._world.acknowledged(facts)

    def next_wakeup_ms(self) -> int | None:
        """See ports.Executor."""
        ahead_ms = self._world.clock.wall_ahead_ms
        moments = [at_ms + ANSWERS_WITHIN_MS + ahead_ms for at_ms in self.offered_at_ms.values()]
        again_ms = self.grants.next_wakeup_ms()
        return min([*moments, *([] if again_ms is None else [again_ms])], default=None)

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        """See ports.Executor."""
        return self._world.owners(pids)
