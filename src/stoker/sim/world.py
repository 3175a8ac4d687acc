"""The world outside the engine: processes on GPUs, which go on whatever happens to the engine.

It keeps a ledger of its own of which process is on which GPU, and objects at once if two that
can't share are put on one GPU, or if a job is run twice at once. Some processes never end by
themselves, and some ignore a request to stop, so that a stop that is lost is noticed.
Nothing in it depends on how it came to be as it is: two worlds that look alike go on alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from random import Random

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.fit import fits_beside, reservation
from stoker.core.model import Cause, Exit, Gpu, Job, Need, Reservation
from stoker.ports import Reading, SeenGpu, Sighting
from stoker.sim.terminals import Habits, Terminals

NEVER_MS = 10**15
MOST_TOLD = 30

Key = tuple[int, int]  # job, attempt
Ending = ev.AttemptExited | ev.AttemptVanished


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a simulated command does when it is run."""

    runs_ms: int
    exit: Exit
    heeds_stop_after_ms: int | None = 10  # None: only SIGKILL ends it
    cannot_start: Cause | None = None  # set: no process can be made for it
    heeds_by: Exit | None = None  # how it ends when it is asked to; None: by the signal
    heeds_warning: bool = False  # by ending in the same way
    progresses: bool = True


@dataclass(slots=True)
class Process:
    """A running attempt, in true time."""

    behaviour: Behaviour
    started_at_ms: int
    ends_at_ms: int
    exit: Exit
    attached: bool = False
    warned: int = 0
    forced: bool = False


@dataclass(slots=True)
class VirtualClock:
    """Time that moves only when it is told to.

    The true time never jumps, and the world lives by it. The engine is shown the wall clock, which
    may be set.
    """

    true_ms: int = 0
    wall_ahead_ms: int = 1_700_000_000_000
    unread_shift_ms: int = 0

    @property
    def now_ms(self) -> int:
        """The time on the wall."""
        return self.true_ms + self.wall_ahead_ms

    def read(self) -> Reading:
        """See ports.Clock."""
        shifted, self.unread_shift_ms = self.unread_shift_ms, 0
        return Reading(self.now_ms, shifted)

    def set_wall(self, by_ms: int) -> None:
        """The wall clock is set."""
        self.wall_ahead_ms += by_ms
        self.unread_shift_ms += by_ms


class World:
    """Processes that survive any crash of the engine; `faults` makes the other ports of it."""

    def __init__(self, gpus: Sequence[SeenGpu], cpus: int, clock: VirtualClock, seed: int) -> None:
        self.clock = clock
        self.behaviours: dict[int, tuple[Behaviour, ...]] = {}  # one an attempt, the last repeats
        self.needs: dict[int, Need] = {}
        self.processes: dict[Key, Process] = {}
        self.made: set[Key] = set()  # attempts for which there once was a process
        self.terminals = Terminals()
        self.watched: set[Key] = set()  # attached attempts that an executor knows to have begun
        self.unseen: dict[Key, Ending] = {}  # how others of these have ended meanwhile
        self.pending: list[ev.Fact] = []
        self.told: list[ev.Fact] = []  # the latest of those that are acknowledged
        self.ledger: dict[str, dict[Key, Reservation]] = {g.id: {} for g in gpus}
        self.places: dict[Key, tuple[str, ...]] = {}  # where attempts were started
        self._gpus = {g.id: Gpu(g.id, g.memory_mib) for g in gpus}
        self.sighting = Sighting(cpus, tuple(gpus))
        self._seed = seed
        self.short = False  # no process can be made at the moment
        self.in_a_turn_ms = 0  # processes whose time comes that soon end while a turn goes on
        self.took_over_in_a_turn = 0

    def copied(self, clock: VirtualClock) -> World:
        """Another world in which all is the same, and which goes on by itself."""
        other = copy(self)
        other.clock = clock
        other.processes = {key: replace(process) for key, process in self.processes.items()}
        other.made = self.made.copy()
        other.terminals = self.terminals.copied()
        other.watched, other.unseen = self.watched.copy(), self.unseen.copy()
        other.places = self.places.copy()
        other.pending = self.pending.copy()
        other.told = self.told.copy()
        other.ledger = {gpu_id: held.copy() for gpu_id, held in self.ledger.items()}
        return other

    # ------------------------------------------------------------------ the world goes on

    def advance_to(self, true_ms: int) -> None:
        """Let time pass; processes whose time has come end."""
        self.clock.true_ms = max(self.clock.true_ms, true_ms)
        self.end_those_due_within(0)
        told = self.terminals.told
        for key in [key for key, (at_ms, _) in told.items() if at_ms <= self.clock.true_ms]:
            self._client_acts(key)

    def end_those_due_within(self, ms: int) -> None:
        """Processes whose time comes until then end now."""
        by_ms = self.clock.true_ms + ms
        for key in [k for k, p in self.processes.items() if p.ends_at_ms <= by_ms]:
            process = self.processes.pop(key)
            for held in self.ledger.values():
                held.pop(key, None)
            progressed = process.behaviour.progresses
            ended: Ending = ev.AttemptExited(
                self.clock.now_ms, *key, process.exit, progressed=progressed
            )
            if process.attached and key[0] in self.terminals.died_at_ms:
                # Its parent is dead, so that nothing tells how it ended.
                ended = ev.AttemptVanished(self.clock.now_ms, *key, why="no exit code")
            if process.attached and key not in self.watched:
                self.unseen[key] = ended
            else:
                self.pending.append(ended)

    def next_end_ms(self) -> int | None:
        """When a process ends by itself, or a client acts, next in true time."""
        ends = [p.ends_at_ms for p in self.processes.values() if p.ends_at_ms < NEVER_MS]
        ends += [at_ms for at_ms, _ in self.terminals.told.values()]
        return min(ends, default=None)

    def power_cut(self) -> None:
        """Everything dies, and nothing is left to tell how."""
        self.processes.clear()
        self.terminals.all_die(self.clock.true_ms)
        # Where one has taken the place of another, it stands on disk how that ended.
        self.pending = [fact for fact in self.pending if successor_of(fact) is not None]
        for held in self.ledger.values():
            held.clear()

    def tell_again(self) -> None:
        """Facts that are long acknowledged are told once more, as by an executor that forgot."""
        random = Random(f"{self._seed} {self.clock.true_ms} again")
        self.pending += random.sample(self.told, min(len(self.told), MOST_TOLD // 2))

    # ------------------------------------------------------------------ clients at terminals

    def grant(self, command: cmd.StartAttached) -> None:
        """Tell a client to start its job; it does so when it can, if it still may."""
        key = (command.job_id, command.attempt)
        if not self.terminals.is_there(key[0], self.clock.true_ms) or key in self.terminals.told:
            return
        at_ms = self.clock.true_ms + self.habits_of(key[0]).answers_after_ms
        self.terminals.told[key] = (at_ms, command)
        if at_ms <= self.clock.true_ms:
            self._client_acts(key)

    def habits_of(self, job_id: int) -> Habits:
        """What the client of a job does."""
        return self.terminals.habits.get(job_id, Habits())

    def kill_client(self, job_id: int) -> None:
        """It is gone; what it started goes on."""
        self.terminals.died_at_ms.setdefault(job_id, self.clock.true_ms)
        for key in [key for key in self.terminals.told if key[0] == job_id]:
            del self.terminals.told[key]

    def _client_acts(self, key: Key) -> None:
        _, command = self.terminals.told.pop(key)
        if self.behaviour_of(key).cannot_start is not None:
            self.terminals.reports.append(key)
        elif self.short:
            if self.habits_of(key[0]).is_heard:
                self.terminals.reports.append(key)
        elif self.terminals.accept(key):
            self.start(command)
            if self.habits_of(key[0]).is_heard:
                self.terminals.reports.append(key)

    def watch(self, key: Key) -> None:
        """An executor has found that an attached attempt has begun; it may be over by now."""
        self.watched.add(key)
        self.pending.append(self._started(key))
        if key in self.unseen:
            self.pending.append(self.unseen.pop(key))
        elif key not in self.processes:
            vanished = ev.AttemptVanished(self.clock.now_ms, *key, why="power cut")
            self.pending.append(vanished)

    def behaviour_of(self, key: Key) -> Behaviour:
        """What the command of an attempt does."""
        behaviours = self.behaviours[key[0]]
        return behaviours[min(key[1], len(behaviours)) - 1]

    def observe(self) -> Sighting:
        """See ports.Inventory."""
        return self.sighting

    def read_soon(self) -> None:
        """GPUs are always seen as they are."""

    def show(self, gpus: Iterable[SeenGpu]) -> None:
        """From now on, these GPUs are seen."""
        self.sighting = replace(self.sighting, gpus=tuple(gpus))

    # ------------------------------------------------------------------ what an executor does

    def adopt(self, attempts: Iterable[tuple[Job, int, bool]]) -> None:
        """See ports.Executor: what the state thinks is alive and is not has vanished.

        Each job comes with the number of its attempt, and with whether that is known to have begun.
        """
        told = self._being_told()
        for job, number, begun in attempts:
            key = (job.id, number)
            if key in told:
                continue
            if job.terms.attached and key in self.made and key not in self.watched:
                self.watch(key)
            elif key in self.processes and not begun:
                self.pending.append(self._started(key))
            elif key not in self.processes and key in self.made:
                vanished = ev.AttemptVanished(self.clock.now_ms, *key, why="power cut")
                self.pending.append(vanished)

    def carry_out(self, command: cmd.Command) -> None:
        """Do one thing."""
        match command:
            case cmd.Start():
                self.start(command)
            case cmd.Terminate():
                self._terminate(command)
            case cmd.Warn(job_id=job_id, attempt=attempt):
                process = self.processes.get((job_id, attempt))
                if process is not None:
                    process.warned += 1
                    behaviour, heeds_ms = process.behaviour, self.clock.true_ms + 5
                    if behaviour.heeds_warning and heeds_ms < process.ends_at_ms:
                        process.ends_at_ms = heeds_ms
                        process.exit = behaviour.heeds_by or process.exit
                    sent = ev.WarningSent(self.clock.now_ms, job_id, attempt)
                    self.pending.append(sent)

    def facts(self) -> list[ev.Fact]:
        """All facts that are not acknowledged, in any order that keeps each attempt's own."""
        by_attempt: dict[Key, list[ev.Fact]] = {}
        for fact in self.pending:
            by_attempt.setdefault((fact.job_id, fact.attempt), []).append(fact)
        keys = sorted(by_attempt)
        if len(keys) > 1:
            Random(f"{self._seed} {self.clock.true_ms} {keys}").shuffle(keys)
        return [fact for key in keys for fact in by_attempt[key]]

    def tell(self, fact: ev.Fact) -> None:
        """One more fact, told until it is acknowledged."""
        self.pending.append(fact)

    def acknowledged(self, facts: Sequence[ev.Fact]) -> None:
        """See ports.Executor."""
        done = {id(fact) for fact in facts}
        self.pending = [fact for fact in self.pending if id(fact) not in done]
        # One that was put back is told once: its number is given again.
        again = [fact for fact in facts if not isinstance(fact, ev.AttemptPutBack)]
        self.told = [*self.told, *again][-MOST_TOLD:]

    # ------------------------------------------------------------------ its parts

    def _being_told(self) -> set[Key]:
        return {(fact.job_id, fact.attempt) for fact in self.pending}

    def _started(self, key: Key) -> ev.AttemptStarted:
        return ev.AttemptStarted(self.clock.now_ms, *key, pid=1000 + key[0])

    def start(self, command: cmd.Start | cmd.StartAttached) -> None:
        """Make the process of an attempt, if it has never had one."""
        key = (command.job_id, command.attempt)
        if key in self.made or key in self._being_told():
            return
        behaviour = self.behaviour_of(key)
        if behaviour.cannot_start is not None:
            why, cause = "there is nothing to run", behaviour.cannot_start
            self.pending.append(ev.AttemptNotStarted(self.clock.now_ms, *key, why, cause))
            return
        if self.short:
            what = "there is no room for a process"
            self.pending.append(ev.AttemptPutBack(self.clock.now_ms, *key, what))
            return
        twice = [other for other in self.processes if other[0] == command.job_id]
        assert not twice, f"{key} is started while {twice} runs"
        need = self.needs[command.job_id]
        assert len(command.gpus) == need.gpus, f"job {command.job_id} got {command.gpus}"
        for gpu_id in command.gpus:
            gpu, held = self._gpus[gpu_id], self.ledger[gpu_id]
            mine = reservation(need, gpu)
            assert fits_beside(mine, held.values(), gpu), f"GPU {gpu_id} is over its capacity"
            held[key] = mine
        self.places[key] = command.gpus
        started = self.clock.true_ms
        self.made.add(key)
        attached = isinstance(command, cmd.StartAttached)
        ends_ms = min(NEVER_MS, started + behaviour.runs_ms)
        self.processes[key] = Process(behaviour, started, ends_ms, behaviour.exit, attached)
        if not attached:
            self.pending.append(self._started(key))

    def _terminate(self, command: cmd.Terminate) -> None:
        key = (command.job_id, command.attempt)
        process = self.processes.get(key)
        if process is None:
            if key not in self.made and key not in self._being_told():
                stopped = ev.AttemptNotStarted(self.clock.now_ms, *key, why="stopped first")
                self.pending.append(stopped)
            return
        # Each order is given again and again until the end is known, and only its first time
        # counts: a process can't be killed twice.
        if command.force and not process.forced:
            process.forced = True
            end, by = self.clock.true_ms + 1, Exit(signal=9)
        elif not command.force and process.behaviour.heeds_stop_after_ms is not None:
            end = self.clock.true_ms + process.behaviour.heeds_stop_after_ms
            by = process.behaviour.heeds_by or Exit(signal=15)
        else:
            return
        if end < process.ends_at_ms:
            process.ends_at_ms, process.exit = end, by


def successor_of(fact: ev.Fact) -> Key | None:
    """Who has taken the place of the attempt that a fact is about."""
    return fact.taken_over_by if isinstance(fact, ev.AttemptExited) else None
