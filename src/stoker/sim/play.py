"""Jobs of a trace played in virtual time, by the real engine, on simulated GPUs.

The world is that of the crash tests, without a crash. A turn is made when something happens that
an engine would hear of: a job comes, a process ends, a timer is due, a driver is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from stoker.core import events as ev
from stoker.core.change import Change
from stoker.core.learning import next_look_ms
from stoker.core.model import Exit, Launch, Need, Terms
from stoker.core.order import Policy
from stoker.core.state import State
from stoker.engine import Decided, Engine, Proposal
from stoker.ports import SeenGpu
from stoker.sim.devices import Phase
from stoker.sim.faults import CrashingExecutor, Steps
from stoker.sim.world import Behaviour, VirtualClock, World

CPUS = 100_000
_LAUNCH = Launch()
_TERMS = Terms()
_DONE = Exit(code=0)

POLICIES = tuple(Policy)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of a trace: when it comes, what it asks for, and what it really does."""

    at_ms: int
    need: Need
    runs_ms: int
    phases: tuple[Phase, ...] = ()
    terms: Terms = _TERMS
    priority: int = 0
    group: str | None = None
    name: str = ""


@dataclass(slots=True)
class Stay:
    """An attempt on its GPUs."""

    gpus: tuple[str, ...]
    from_ms: int
    until_ms: int | None = None


@dataclass(slots=True)
class Ran:
    """What became of a job; moments are of the trace's own time."""

    arrival: Arrival
    stays: list[Stay] = field(default_factory=list)
    ended_ms: int | None = None  # None: it never came to its end
    out_of_memory: int = 0  # attempts that were

    @property
    def waited_ms(self) -> int | None:
        """Until its first start; None if there was none."""
        return self.stays[0].from_ms - self.arrival.at_ms if self.stays else None

    @property
    def took_ms(self) -> int | None:
        """From when it came to its end."""
        return None if self.ended_ms is None else self.ended_ms - self.arrival.at_ms


class _Nothing:
    """The store of a run that never crashes: it keeps nothing."""

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus

    def load(self, now_ms: int) -> State:
        """See ports.Store."""
        state = State(now_ms)
        state.cpus = self._cpus
        return state

    def commit(
        self, state: State, change: Change, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """See ports.Store."""

    def make_room(self) -> bool:
        """See ports.Store."""
        return False

    def launch(self, job_id: int) -> Launch:
        """See ports.Store."""
        return _LAUNCH


class _NotingEngine(Engine):
    """An engine that tells of each event before it is applied."""

    noted: Callable[[ev.Event], None]

    def apply(self, event: ev.Event) -> None:
        """Note it, and apply it."""
        self.noted(event)
        super().apply(event)


class Play:
    """A trace on GPUs. `run` plays it to its end."""

    def __init__(
        self,
        arrivals: Iterable[Arrival],
        gpus: Sequence[SeenGpu],
        *,
        cpus: int = CPUS,
        policy: str = "fifo",
        seed: int = 0,
    ) -> None:
        self.arrivals = sorted(arrivals, key=lambda one: one.at_ms)
        self.clock = VirtualClock()
        self.world = World(gpus, cpus, self.clock, seed)
        self.ran = [Ran(one) for one in self.arrivals]
        self._come = 0  # so many have
        for job_id, one in enumerate(self.arrivals, 1):
            self.world.needs[job_id] = one.need
            self.world.behaviours[job_id] = (Behaviour(one.runs_ms, _DONE, phases=one.phases),)
        executor = CrashingExecutor(self.world, Steps())
        self.engine = _NotingEngine(
            _Nothing(cpus), executor, self.world, self.clock, self.world.ran_out_of_memory
        )
        self.engine.noted = self._note
        self._turn([lambda state: Decided([ev.PolicySet(state.now_ms, Policy(policy))])])
        if self.arrivals:
            self.clock.true_ms = max(0, self.arrivals[0].at_ms)

    # ------------------------------------------------------------------ the run

    def run(self, progress: Callable[[int], object] | None = None) -> list[Ran]:
        """What became of each job. `progress` is told how many have ended, now and then."""
        while self.step():
            if progress is not None:
                progress(self.ended)
        return self.ran

    @property
    def ended(self) -> int:
        """How many jobs are over."""
        return self._come - len(self.engine.state.jobs)

    def step(self) -> bool:
        """One turn, and the time until the next; False if nothing more will happen."""
        now_ms = self.clock.true_ms
        proposals: list[Proposal] = []
        while self._come < len(self.arrivals) and self.arrivals[self._come].at_ms <= now_ms:
            self._come += 1
            proposals.append(partial(_submit, self._come, self.arrivals[self._come - 1]))
        self._turn(proposals)
        if self.world.measured and self.world.pending:
            self._turn([])  # That they began is known before their GPUs are looked at.
        moment_ms = self._next_moment()
        if moment_ms is None:
            return False
        self.world.advance_to(moment_ms)
        return True

    def _turn(self, proposals: list[Proposal]) -> None:
        for answer in self.engine.turn(proposals):
            if answer.error is not None:
                raise answer.error

    def _next_moment(self) -> int | None:
        """When a turn is due next."""
        ahead_ms, state = self.clock.wall_ahead_ms, self.engine.state
        if self.world.measured and state.active:
            look_ms = next_look_ms(state, self.engine.habits)
            if look_ms is not None:
                self.world.look_by(look_ms - ahead_ms)
        moments = []
        if self._come < len(self.arrivals):
            moments.append(self.arrivals[self._come].at_ms)
        elif not state.jobs:
            return None
        wakeup_ms = self.engine.next_wakeup_ms()
        if wakeup_ms is not None:
            moments.append(wakeup_ms - ahead_ms)
        if state.active or self.world.pending:
            world_ms = self.world.next_ms()
            if world_ms is not None:
                moments.append(world_ms)
        return max(min(moments), self.clock.true_ms) if moments else None

    def _note(self, event: ev.Event) -> None:
        at_ms = event.at_ms - self.clock.wall_ahead_ms
        match event:
            case ev.AttemptPlaced(job_id=job_id, gpus=gpus):
                self.ran[job_id - 1].stays.append(Stay(gpus, at_ms))
            case ev.AttemptExited(job_id=job_id):
                ran = self.ran[job_id - 1]
                ran.stays[-1].until_ms = at_ms
                ran.out_of_memory += event.out_of_memory
                if event.exit.ok or not event.out_of_memory:
                    ran.ended_ms = at_ms


def _submit(job_id: int, one: Arrival, state: State) -> Decided:
    submitted = ev.JobSubmitted(
        state.now_ms, job_id, one.need, one.terms, one.priority, one.group, launch=_LAUNCH
    )
    return Decided([submitted])


def gpus_like(count: int, memory_mib: int | None, *, measured: bool) -> list[SeenGpu]:
    """So many GPUs of one size."""
    vendor = "stand-in" if measured else ""
    return [SeenGpu(str(n), memory_mib, n, vendor=vendor) for n in range(count)]
