"""The world outside the engine: processes on GPUs, which go on whatever happens to the engine.

It keeps a ledger of its own of which process is on which GPU, and objects at once if two that
can't share are put on one GPU, or if a job is run twice at once. Some processes never end by
themselves, and some ignore a request to stop, so that a stop that is lost is noticed.
Nothing in it depends on how it came to be as it is: two worlds that look alike go on alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from heapq import heappop, heappush
from random import Random

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.fit import fits_beside, reservation
from stoker.core.gpu import Gpu, Reservation
from stoker.core.model import Exit, Job, Need
from stoker.ports import SeenGpu, Sighting
from stoker.sim.devices import NEVER_MS as NEVER_MS
from stoker.sim.devices import Devices, Key
from stoker.sim.processes import Behaviour as Behaviour
from stoker.sim.processes import Process as Process
from stoker.sim.processes import VirtualClock as VirtualClock
from stoker.sim.terminals import Habits, Terminals

MOST_TOLD = 30
FIRST_PID = 1000
LOOKS_AFTER_MS = 1_000  # at most so long after something changed on a GPU, a driver is asked

Ending = ev.AttemptExited | ev.AttemptVanished


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
        self.devices = Devices(gpus)
        self.measured = any(gpu.vendor for gpu in gpus)
        self.ran_out: set[Key] = set()  # attempts that found no memory
        self._ends: list[tuple[int, Key]] = []  # of processes, as far as that still holds
        self.look_ms: int | None = None  # when the driver is asked next
        self.looks_after_ms = LOOKS_AFTER_MS
        self._shown = tuple(gpus)
        self.places: dict[Key, tuple[str, ...]] = {}  # where attempts were started
        self._gpus = {g.id: Gpu(g.id, g.memory_mib) for g in gpus}
        self.sighting = Sighting(cpus, tuple(gpus))
        self._seed = seed
        self.short = False  # no process can be made at the moment
        self.in_a_turn_ms = 0  # processes whose time comes that soon end while a turn goes on
        self.took_over_in_a_turn = 0
        self.lost_ms: dict[Key, int] = {}  # of the work of each that has ended
        self.may_lose_ms: dict[Key, int] = {}  # by those that are told to give way, at most

    def copied(self, clock: VirtualClock) -> World:
        """Another world in which all is the same, and which goes on by itself."""
        other = copy(self)
        other.clock = clock
        other.processes = {key: replace(process) for key, process in self.processes.items()}
        other.made = self.made.copy()
        other.terminals = self.terminals.copied()
        other.watched, other.unseen = self.watched.copy(), self.unseen.copy()
        other.places = self.places.copy()
        other.lost_ms, other.may_lose_ms = self.lost_ms.copy(), self.may_lose_ms.copy()
        other.devices, other._ends = self.devices.copied(), self._ends.copy()
        other.ran_out = self.ran_out.copy()
        other.pending = self.pending.copy()
        other.told = self.told.copy()
        other.ledger = {gpu_id: held.copy() for gpu_id, held in self.ledger.items()}
        return other

    # ------------------------------------------------------------------ the world goes on

    def advance_to(self, true_ms: int) -> None:
        """Let time pass; processes whose time has come end."""
        while (moment_ms := self._next_of_processes()) is not None and moment_ms <= true_ms:
            self.clock.true_ms = max(self.clock.true_ms, moment_ms)
            self.end_those_due_within(0)
            self._go_on()
        self.clock.true_ms = max(self.clock.true_ms, true_ms)
        if self.look_ms is not None and self.look_ms <= self.clock.true_ms:
            self.look()
        told = self.terminals.told
        for key in [key for key, (at_ms, _) in told.items() if at_ms <= self.clock.true_ms]:
            self._client_acts(key)

    def end_those_due_within(self, ms: int) -> None:
        """Processes whose time comes until then end now."""
        by_ms = self.clock.true_ms + ms
        for key in self._due_by(by_ms):
            process = self.processes.pop(key)
            self._moved(self.devices.end(key, self.clock.true_ms))
            self.look_by(self.clock.true_ms + self.looks_after_ms)
            for held in self.ledger.values():
                held.pop(key, None)
            progressed = process.behaviour.progresses
            saves = process.exit == process.behaviour.heeds_by
            self.lost_ms[key] = 0 if saves else process.unsaved_ms(process.ends_at_ms)
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

    def last_saved(self, jobs: Sequence[Job]) -> dict[int, int] | None:
        """See Engine: of files on a network, which now and then answer a while later."""
        true_ms = self.clock.true_ms
        if Random(f"{self._seed} {true_ms // 100} files").random() < 0.3:
            return None
        there = {job.id: self.processes.get((job.id, job.attempt)) for job in jobs}
        return {
            job_id: process.saved_at_ms(true_ms) + self.clock.wall_ahead_ms
            for job_id, process in there.items()
            if process is not None
        }

    def next_ms(self) -> int | None:
        """When something happens next by itself, in true time, or a GPU is looked at."""
        moments = [at_ms for at_ms, _ in self.terminals.told.values()]
        moments += [ms for ms in (self._next_of_processes(), self.look_ms) if ms is not None]
        return min(moments, default=None)

    def power_cut(self) -> None:
        """Everything dies, and nothing is left to tell how."""
        for key in self.processes:
            self.devices.end(key, self.clock.true_ms)
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

    # ------------------------------------------------------------------ what a driver tells

    def observe(self) -> Sighting:
        """See ports.Inventory."""
        return self.sighting

    def read_soon(self) -> None:
        """See ports.Inventory."""
        self.look_by(self.clock.true_ms + 1)

    def show(self, gpus: Iterable[SeenGpu]) -> None:
        """From now on, these GPUs are seen."""
        self._shown = tuple(gpus)
        self.look()

    def look(self) -> None:
        """Ask the driver, if there is one."""
        self.look_ms, now_ms = None, self.clock.now_ms
        gpus = self._shown
        if self.measured:
            gpus = tuple(self.devices.seen(gpu, FIRST_PID, now_ms) for gpu in gpus)
        self.sighting = replace(self.sighting, gpus=gpus)

    def look_by(self, true_ms: int) -> None:
        """Ask it then, or before."""
        if self.measured and (self.look_ms is None or true_ms < self.look_ms):
            self.look_ms = true_ms

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        """See ports.Executor."""
        known = {FIRST_PID + key[0]: key[0] for key in self.processes}
        return {pid: known[pid] for pid in pids if pid in known}

    def ran_out_of_memory(self, job: Job) -> bool:
        """Whether the output of a job's attempt says so."""
        return (job.id, job.attempt) in self.ran_out

    # ------------------------------------------------------------------ what is due

    def _next_of_processes(self) -> int | None:
        """When a process ends, or begins another phase of its work."""
        while self._ends:
            end_ms, key = self._ends[0]
            process = self.processes.get(key)
            if process is not None and process.ends_at_ms == end_ms:
                break
            heappop(self._ends)
        phase_ms = self.devices.next_ms()
        if not self._ends:
            return phase_ms
        return self._ends[0][0] if phase_ms is None else min(phase_ms, self._ends[0][0])

    def _due_by(self, true_ms: int) -> list[Key]:
        """The processes that end until then, in the order in which they began."""
        due: set[Key] = set()
        while self._ends and self._ends[0][0] <= true_ms:
            end_ms, key = heappop(self._ends)
            process = self.processes.get(key)
            if process is not None and process.ends_at_ms == end_ms:
                due.add(key)
        return [key for key in self.processes if key in due] if len(due) > 1 else list(due)

    def _will_end(self, key: Key, process: Process, at_ms: int) -> None:
        process.ends_at_ms = at_ms
        if at_ms < NEVER_MS:
            heappush(self._ends, (at_ms, key))

    def _go_on(self) -> None:
        """Phases begin whose time has come."""
        while (begun := self.devices.go_on(self.clock.true_ms)) is not None:
            key, moved = begun
            self._moved(moved)
            self._take_memory(key)

    def _moved(self, keys: Iterable[Key]) -> None:
        """The processes go on at another speed."""
        for key in keys:
            process = self.processes.get(key)
            if process is not None and not process.told and process.stopped_at_ms is None:
                self._will_end(key, process, self.devices.end_ms(key))

    def _take_memory(self, key: Key) -> None:
        """A process has taken more or less memory; it ends if there is not so much."""
        self.look_by(self.clock.true_ms + self.looks_after_ms)
        process = self.processes.get(key)
        if process is not None and self.devices.lacks_memory(key):
            self.ran_out.add(key)
            process.told, process.exit = True, Exit(code=1)
            self._will_end(key, process, self.clock.true_ms)

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
                    assert process.stopped_at_ms is None, f"job {job_id} can't heed its signal"
                    behaviour, heeds_ms = process.behaviour, self.clock.true_ms + 5
                    if behaviour.heeds_warning and heeds_ms < process.ends_at_ms:
                        process.told, process.exit = True, behaviour.heeds_by or process.exit
                        self._will_end((job_id, attempt), process, heeds_ms)
                    sent = ev.WarningSent(self.clock.now_ms, job_id, attempt)
                    self.pending.append(sent)
            case cmd.Suspend(job_id=job_id, attempt=attempt, nth=nth):
                self.suspend((job_id, attempt), nth)
            case cmd.Continue(job_id=job_id, attempt=attempt, nth=nth):
                self._continue((job_id, attempt))
                self._tell_once(ev.AttemptContinued(self.clock.now_ms, job_id, attempt, nth))

    def suspend(self, key: Key, nth: int) -> None:
        """Stop the process of an attempt where it stands; that it is late is told later."""
        process = self.processes.get(key)
        if process is None:
            return
        if process.stopped_at_ms is None:
            process.stopped_at_ms = self.clock.true_ms
            process.ends_at_ms += NEVER_MS
            self._moved(self.devices.stop(key, self.clock.true_ms))
            self.look_by(self.clock.true_ms + self.looks_after_ms)
        self._tell_once(ev.AttemptSuspended(self.clock.now_ms, *key, nth))

    def _continue(self, key: Key) -> None:
        process = self.processes.get(key)
        if process is None or process.stopped_at_ms is None:
            return
        stood_ms = self.clock.true_ms - process.stopped_at_ms
        process.stopped_at_ms = None
        process.stood_ms += stood_ms
        if process.ends_at_ms >= NEVER_MS:  # Else it is being killed.
            self._will_end(key, process, min(NEVER_MS, process.ends_at_ms - NEVER_MS + stood_ms))
        self._moved(self.devices.go_on_again(key, self.clock.true_ms))
        self.look_by(self.clock.true_ms + self.looks_after_ms)
        if process.asked:
            self._asked_to_end(key, process)

    def _tell_once(self, fact: ev.AttemptSuspended | ev.AttemptContinued) -> None:
        told = ((type(one), one.job_id, one.attempt) for one in self.pending)
        if (type(fact), fact.job_id, fact.attempt) not in told:
            self.pending.append(fact)

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
        return ev.AttemptStarted(self.clock.now_ms, *key, pid=FIRST_PID + key[0])

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
        self._check_whole(need, command.gpus)
        if need.kind is None:  # What others get depends on what was learned, and changes.
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
        process = Process(behaviour, started, ends_ms, behaviour.exit, attached)
        self.processes[key] = process
        self._will_end(key, process, ends_ms)
        phases = behaviour.phases
        self._moved(self.devices.begin(key, command.gpus, phases, behaviour.runs_ms, started))
        self._take_memory(key)
        if not attached:
            self.pending.append(self._started(key))

    def _check_whole(self, need: Need, gpus: Iterable[str]) -> None:
        """No job is beside one that has its GPU for itself."""
        for gpu_id in gpus:
            alone = need.whole and self.devices.on[gpu_id]
            beside = any(held.whole for held in self.ledger[gpu_id].values())
            assert not alone and not beside, f"GPU {gpu_id} is over its capacity"

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
            end = self.clock.true_ms + 1
            if end < process.ends_at_ms:
                process.told, process.exit = True, Exit(signal=9)
                self._will_end(key, process, end)
        elif not command.force and process.stopped_at_ms is not None:
            process.asked = True
        elif not command.force:
            self._asked_to_end(key, process)

    def _asked_to_end(self, key: Key, process: Process) -> None:
        heeds_after_ms = process.behaviour.heeds_stop_after_ms
        if heeds_after_ms is None:
            return
        end = self.clock.true_ms + heeds_after_ms
        if end < process.ends_at_ms:
            process.told, process.exit = True, process.behaviour.heeds_by or Exit(signal=15)
            self._will_end(key, process, end)


def successor_of(fact: ev.Fact) -> Key | None:
    """Who has taken the place of the attempt that a fact is about."""
    return fact.taken_over_by if isinstance(fact, ev.AttemptExited) else None
