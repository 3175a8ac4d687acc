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
from stoker.core.learning import Habits, next_look_ms
from stoker.core.model import Cause, Job
from stoker.core.order import Policy
from stoker.core.state import State
from stoker.core.unsaved import UnsavedStops
from stoker.engine import Decided, Engine, Proposal
from stoker.errors import Unavailable
from stoker.sim import scenario
from stoker.sim.agreement import (
    check_agreement,
    check_end,
    check_giving_way,
    check_time_limits,
)
from stoker.sim.faults import Crash, CrashingExecutor, CrashingStore, Steps
from stoker.sim.takeover import CrashingTakeover
from stoker.sim.terminals import COMES_WITHIN_MS, unruly
from stoker.sim.terminals import Habits as ClientHabits
from stoker.sim.world import NEVER_MS, VirtualClock, World
from stoker.store.memory import MemoryStore

MOST_CRASHES_IN_A_MOMENT = 3
ASKS_AGAIN_AFTER_MS = 50
LOOKS_AFTER_MS = 20
SETTLE_MS = 400


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong outside: how often, at moments that follow from the seed."""

    clock_jumps: int = 4
    gpus_lost: int = 2
    facts_repeated: int = 4
    power_cuts: int = 0
    disk_full: int = 0
    shortages: int = 0  # times in which no process can be made
    in_a_turn_ms: int = 0  # what ends that soon, by the clock of the world, ends during the turn
    going_on: float = 0.0  # of the jobs, this part is put back, by itself, slices or users
    measured: float = 0.0  # of the jobs, the memory of this part is learned, by readings of GPUs
    suspended: float = 0.0  # of the jobs, this part is suspended now and then
    giving_way: float = 0.0  # of the jobs, this part is urgent, or offers to give way
    policies: bool = False  # jobs are of some kinds, and the policy changes now and then
    unruly_clients: bool = False  # half the jobs are attached; clients are late, unheard, and die


class WatchedEngine(Engine):
    """An engine of which every event that it applies is noted."""

    noted: list[ev.Event]

    def apply(self, event: ev.Event) -> None:
        """Apply it, and note it if it could be."""
        super().apply(event)
        self.noted.append(event)


class Simulation:
    """One run. `log` is every event that was committed, in order."""

    def __init__(
        self, seed: int, jobs: int, steps: Steps | None = None, faults: Faults | None = None
    ) -> None:
        self.jobs = jobs
        self.log: list[ev.Event] = []
        self.crashes = 0
        self.shift_was_lost = False
        self.stopped_unsaved = 0  # how often something was stopped that could not be committed
        self.forgotten: frozenset[int] = frozenset()  # jobs of which a crash forgot just that
        self.clock = VirtualClock()
        is_measured = faults is not None and faults.measured > 0
        self.gpus = scenario.MEASURED_GPUS if is_measured else scenario.GPUS
        self.world = World(self.gpus, scenario.CPUS, self.clock, seed)
        self.world.looks_after_ms = LOOKS_AFTER_MS
        if faults is not None:
            self.world.in_a_turn_ms = faults.in_a_turn_ms
        self.store = MemoryStore()
        self.steps = Steps() if steps is None else steps
        self.disk = CrashingStore(self.store, self.steps)
        # What users ask for, and what happens in the world: when, a number, what.
        self.todo: list[tuple[int, int, Callable[[MemoryStore, State], Decided]]] = []
        self.outside: list[tuple[int, int, Callable[[Simulation], None]]] = []
        self.pending: list[ev.Event] = []  # what has come true and is not committed yet
        self._unsaved = UnsavedStops()  # the engine's own
        self._crashes_now = 0
        self._shift_is_open = False  # the clock was set, and that is not committed yet
        again = Random(f"{seed} again")  # Its own, so that all else stays as it is without it.
        self._gives_way = Random(f"{seed} gives way")
        self._policies = Random(f"{seed} policies")
        self._plan(Random(seed), Faults() if faults is None else faults, again)
        self.steps.run = self
        self.engine = self._new_engine()

    def survivor(self, steps: Steps) -> Simulation:
        """What becomes of this very moment if the engine dies in it: a run of its own.

        Disk and world are copied as they are now, between two steps. The engine's memory is not:
        that is gone.
        """
        other = copy(self)
        other.steps, other.log, other.pending = steps, [], []
        other.todo, other.outside = self.todo.copy(), self.outside.copy()
        other.clock = replace(self.clock)
        other.world = self.world.copied(other.clock)
        other.store = copy(self.store)
        for name, value in vars(self.store).items():
            if isinstance(value, dict | list):  # What is in them is replaced, and never changed.
                setattr(other.store, name, value.copy())
        other.disk = self.disk.survivor(other.store, steps)
        steps.run = other
        other._crashed()
        other.engine = other._new_engine()
        return other

    # ------------------------------------------------------------------ what will happen

    def _plan(self, random: Random, faults: Faults, again: Random) -> None:
        at_ms = 0
        clients = Random(f"{random.random()} clients")
        measured = Random(f"{again.random()} measured") if faults.measured else None
        suspended = Random(f"{again.random()} suspended") if faults.suspended else None
        self._will(0, scenario.limit, "b", 2)
        for job_id in range(1, self.jobs + 1):
            at_ms += random.randrange(1, 1_000)
            goes_on = again if again.random() < faults.going_on else None
            client = clients if faults.unruly_clients else None
            gives_way = self._gives_way.random() < faults.giving_way
            is_learned = measured is not None and measured.random() < faults.measured
            learned = measured if is_learned else None
            of_kinds = self._policies if faults.policies else None
            who = (client, goes_on, gives_way, learned, of_kinds)
            self._plan_job(random, at_ms, job_id, *who)
            if suspended is not None and suspended.random() < faults.suspended:
                self._plan_suspensions(suspended, at_ms, job_id)
        for _ in range(self.jobs // 20):
            moment = random.randrange(0, at_ms)
            group = random.choice((None, "a"))
            self._will(moment, scenario.pause, group)
            self._will(moment + random.randrange(1, 3_000), scenario.resume, group)
        for _ in range(self.jobs // 50):
            moment = random.randrange(0, at_ms)
            gpu_id = random.choice(scenario.GPUS).id
            self._will(moment, scenario.drain, gpu_id)
            self._will(moment + random.randrange(1, 3_000), scenario.undrain, gpu_id)
        self._plan_faults(random, faults, at_ms)
        self.todo.sort(key=lambda item: item[:2])
        self.outside.sort(key=lambda item: item[:2])

    def _plan_job(
        self,
        random: Random,
        at_ms: int,
        job_id: int,
        clients: Random | None,
        again: Random | None,
        gives_way: bool,
        measured: Random | None,
        policies: Random | None,
    ) -> None:
        wanted = scenario.wanted(random, job_id - 1)
        if policies is not None:
            wanted = scenario.of_a_kind(policies, wanted)
            if policies.random() < 0.1:
                self._will(at_ms, scenario.set_policy, policies.choice(tuple(Policy)))
        if measured is not None:
            wanted = scenario.measured(measured, wanted)
        if gives_way:
            again = None
            wanted = scenario.giving_way(self._gives_way, wanted)
            if wanted.terms.preemptible and self._gives_way.random() < 0.2:
                moment = at_ms + self._gives_way.randrange(1, 10_000)
                self._will(moment, scenario.give_way, job_id)
        if again is not None:
            wanted = scenario.going_on(again, wanted)
            for _ in range(again.randrange(3)):
                self._will(at_ms + again.randrange(1, 10_000), scenario.requeue, job_id)
        if clients is not None:
            wanted = self._with_unruly_client(clients, at_ms, job_id, wanted)
        if wanted.terms.attached:
            self.world.terminals.habits.setdefault(job_id, ClientHabits())
            self.world.terminals.come_at_ms[job_id] = at_ms + 1
        self.world.behaviours[job_id] = wanted.behaviours
        self.world.needs[job_id] = wanted.need
        self._will(at_ms, scenario.submit, job_id, wanted)
        if wanted.held:
            self._will(at_ms + random.randrange(1, 5_000), scenario.release, job_id)
        if wanted.cancel_after_ms is not None:
            self._will(at_ms + wanted.cancel_after_ms, scenario.cancel, job_id)
        if wanted.retry_after_ms is not None and not wanted.terms.attached:
            self._will(at_ms + wanted.retry_after_ms, scenario.retry, job_id, wanted)
        if random.random() < 0.05:
            moment = at_ms + random.randrange(1, 2_000)
            self._will(moment, scenario.hold, job_id)
            self._will(moment + random.randrange(1, 2_000), scenario.release, job_id)
        if random.random() < 0.05:
            moment = at_ms + random.randrange(1, 2_000)
            self._will(moment, scenario.reprioritise, job_id, random.randrange(-3, 3))

    def _with_unruly_client(
        self, random: Random, at_ms: int, job_id: int, wanted: scenario.Wanted
    ) -> scenario.Wanted:
        if random.random() < 0.5:
            return wanted
        self.world.terminals.habits[job_id] = unruly(random)
        if random.random() < 0.25:
            dies_at_ms = at_ms + random.randrange(1, 10_000)
            self._outside_at(dies_at_ms, lambda run: run.world.kill_client(job_id))
        cancel_after_ms = wanted.cancel_after_ms
        if random.random() < 0.4:
            cancel_after_ms = random.randrange(1, 10_000)
        terms = replace(wanted.terms, attached=True)
        return replace(wanted, terms=terms, cancel_after_ms=cancel_after_ms)

    def _plan_suspensions(self, random: Random, at_ms: int, job_id: int) -> None:
        for _ in range(random.randrange(1, 12)):
            at_ms += random.randrange(1, 4_000)
            self._will(at_ms, scenario.suspend, job_id)
            self._will(at_ms + random.randrange(0, 10_000), scenario.go_on, job_id)

    def _plan_faults(self, random: Random, faults: Faults, until_ms: int) -> None:
        for _ in range(faults.clock_jumps):
            by_ms = random.choice((-3_600_000, 3_600_000, 86_400_000, -50, 50))
            self._outside_at(random.randrange(until_ms), Simulation.set_clock, by_ms)
        for _ in range(faults.gpus_lost):
            moment = random.randrange(until_ms)
            gpu_id = random.choice(scenario.GPUS).id
            self._outside_at(moment, Simulation.show_gpus_but, gpu_id)
            self._outside_at(moment + random.randrange(1, 5_000), Simulation.show_gpus_but, None)
        for _ in range(faults.facts_repeated):
            self._outside_at(random.randrange(until_ms), lambda run: run.world.tell_again())
        for _ in range(faults.power_cuts):
            self._outside_at(random.randrange(until_ms), Simulation.cut_power)
        for _ in range(faults.disk_full):
            moment = random.randrange(until_ms)
            self._outside_at(moment, Simulation.fill_disk, True)
            self._outside_at(moment + random.randrange(1, 4_000), Simulation.fill_disk, False)
        for _ in range(faults.shortages):
            moment = random.randrange(until_ms)
            self._outside_at(moment, Simulation.set_short, True)
            self._outside_at(moment + random.randrange(1, 8_000), Simulation.set_short, False)

    def _will(self, at_ms: int, ask: Callable[..., Decided], *about: object) -> None:
        self.todo.append((at_ms, len(self.todo), partial(ask, *about)))

    def _outside_at(self, at_ms: int, happens: Callable[..., None], *about: object) -> None:
        self.outside.append((at_ms, len(self.outside), lambda run: happens(run, *about)))

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
        proposals: list[Proposal] = []
        while (
            len(proposals) < len(self.todo) and self.todo[len(proposals)][0] <= self.clock.true_ms
        ):
            proposals.append(partial(self.todo[len(proposals)][2], self.store))
        refused = self.disk.refused
        of_users = len(proposals)
        if self._news_of_clients(self.engine.state):
            proposals.append(lambda state: Decided(self._news_of_clients(state)))
        try:
            answers = self.engine.turn(proposals)
        except Crash:
            self._crashed()
            self.engine = self._new_engine()
            return False
        self._crashes_now = 0
        refused_now = self.disk.refused - refused
        # What is not on record yet is asked for again, as what was refused is.
        granted = [answer.error is None and not answer.note for answer in answers]
        if refused_now:
            assert all(isinstance(a.error, Unavailable | None) for a in answers), answers
            self.stopped_unsaved += sum(bool(answer.note) for answer in answers)
        else:
            assert all(granted), answers
        asked, later = self.todo[:of_users], self.todo[of_users:]
        of_users_done = granted[:of_users]
        self.todo = [i for i, done in zip(asked, of_users_done, strict=True) if not done] + later
        if refused_now:
            self.todo = [
                (max(at_ms, self.clock.true_ms + ASKS_AGAIN_AFTER_MS), number, ask)
                for at_ms, number, ask in self.todo
            ]
        if self.engine.saved:
            self._shift_is_open = False
            check_time_limits(self, self.pending)
            check_giving_way(self, self.pending)
            self.log.extend(self.pending)
            check_agreement(self)
        self.pending.clear()
        return True

    def set_clock(self, by_ms: int) -> None:
        """The wall clock is set."""
        self.clock.set_wall(by_ms)
        self._shift_is_open = True

    def show_gpus_but(self, lost: str | None) -> None:
        """From now on, all GPUs are seen, but for one if it is lost."""
        self.world.show(gpu for gpu in self.gpus if gpu.id != lost)

    def set_short(self, short: bool) -> None:
        """From now on, no process can be made; or one can."""
        self.world.short = short

    def fill_disk(self, full: bool) -> None:
        """The disk has no room any more; or it has again."""
        self.disk.disk_full = self.world.terminals.disk_full = full
        if not full:
            self.disk.free()

    def _news_of_clients(self, state: State) -> list[ev.Event]:
        """Who has come, who is gone, and what is called off, as the daemon tells its engine."""
        terminals, now_ms = self.world.terminals, self.clock.true_ms
        news: list[ev.Event] = []
        for job in state.jobs.attached():
            here = terminals.is_there(job.id, now_ms)
            if here != (job.id in state.terminals):
                change = ev.TerminalCame if here else ev.TerminalLeft
                news.append(change(state.now_ms, job.id))
            if job.active is None and now_ms >= self._called_off_at_ms(job.id):
                news.append(ev.JobCancelled(state.now_ms, job.id, Cause.TERMINAL_GONE))
        return news

    def _called_off_at_ms(self, job_id: int) -> int:
        """When a job that waits is called off since its client is gone."""
        died_at_ms = self.world.terminals.died_at_ms.get(job_id)
        if died_at_ms is None:
            return NEVER_MS
        # A connection that breaks tells it at once; who was gone before is waited for.
        seen = died_at_ms > self._engine_since_ms
        return died_at_ms if seen else self._engine_since_ms + COMES_WITHIN_MS

    def state_terminals(self) -> list[tuple[int, int]]:
        """The jobs whose clients are gone, and when those that wait will be called off."""
        gone = self.world.terminals.died_at_ms
        return [(i, self._called_off_at_ms(i)) for i in gone if i in self.engine.state.jobs]

    def cut_power(self) -> None:
        """The engine and all processes die at once; then the machine is switched on again."""
        self.world.power_cut()
        self._crashed()
        self.engine = self._new_engine()

    def _new_engine(self) -> Engine:
        while True:
            self._engine_since_ms = self.clock.true_ms
            self.world.terminals.reports.clear()
            self.takeover = takeover = CrashingTakeover(self.world, self.steps)
            self.executor = CrashingExecutor(self.world, self.steps, takeover.fill_places)
            ports = (self.disk, self.executor, self.world, self.clock)
            try:
                says, saved = self.world.ran_out_of_memory, self.world.last_saved
                engine = WatchedEngine(
                    *ports, says_out_of_memory=says, takeover=takeover, last_saved=saved
                )
            except Crash:
                self._crashed()
            else:
                engine.noted, self._unsaved = self.pending, engine.unsaved
                engine.habits = Habits(SETTLE_MS)
                return engine

    def _crashed(self) -> None:
        self.crashes += 1
        self._crashes_now += 1
        self.pending.clear()
        self.forgotten |= {proposal.job_id for proposal in self._unsaved.value()}
        if self._shift_is_open and not self.clock.unread_shift_ms:
            # It was read by an engine that died before it could commit what follows from it.
            self._shift_is_open, self.shift_was_lost = False, True

    def _lacks(self, job: Job) -> bool:
        there = job.id not in self.world.terminals.died_at_ms
        return there and self.engine.state.lacks_terminal(job)

    def _next_moment(self) -> int:
        """When something happens next, in true time; never now, so that time does pass."""
        now_ms = self.clock.true_ms
        if self.world.measured:
            look_ms = next_look_ms(self.engine.state, self.engine.habits)
            if look_ms is not None:
                self.world.look_by(look_ms - self.clock.wall_ahead_ms)
        moments = [self.world.next_ms()]
        wakeup_ms = self.engine.next_wakeup_ms()
        if wakeup_ms is not None:
            moments.append(wakeup_ms - self.clock.wall_ahead_ms)
        moments += [queue[0][0] for queue in (self.todo, self.outside) if queue]
        for job in self.engine.state.jobs.attached():
            if job.active is None:
                come_at_ms = self.world.terminals.come_at_ms[job.id]
                moments.append(max(come_at_ms, now_ms) if self._lacks(job) else None)
                moments.append(self._called_off_at_ms(job.id))
        known = [moment for moment in moments if moment is not None and moment < NEVER_MS]
        soonest = now_ms + (ASKS_AGAIN_AFTER_MS if self.disk.disk_full else 1)
        return max(min(known, default=soonest), soonest)
