"""The world outside the engine: processes on GPUs, which go on whatever happens to the engine.

It keeps a ledger of its own of which process is on which GPU, and objects at once if two that
can't share are put on one GPU, or if an attempt is started twice. Some processes never end by
themselves, and some ignore a request to stop, so that a stop that is lost is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.fit import fits_beside, reservation
from stoker.core.model import Exit, Gpu, Job, Need, Reservation
from stoker.ports import Reading, SeenGpu, Sighting

NEVER_MS = 10**15


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a simulated command does when it is run."""

    runs_ms: int
    exit: Exit
    heeds_stop_after_ms: int | None = 10  # None: only SIGKILL ends it
    can_start: bool = True


@dataclass(slots=True)
class Process:
    """A running attempt."""

    behaviour: Behaviour
    started_at_ms: int
    ends_at_ms: int
    exit: Exit
    warned: int = 0


@dataclass(slots=True)
class VirtualClock:
    """Time that moves only when it is told to."""

    now_ms: int = 1_000_000
    shifted_ms: int = 0

    def read(self) -> Reading:
        """See ports.Clock."""
        shifted, self.shifted_ms = self.shifted_ms, 0
        return Reading(self.now_ms, shifted)

    def set_wall(self, by_ms: int) -> None:
        """Somebody set the wall clock."""
        self.now_ms += by_ms
        self.shifted_ms += by_ms


class World:
    """Processes that survive any crash of the engine; `faults` makes the ports of it."""

    def __init__(self, gpus: Sequence[SeenGpu], cpus: int, clock: VirtualClock, seed: int) -> None:
        self.clock = clock
        self.behaviours: dict[int, list[Behaviour]] = {}  # by job, one an attempt, last repeats
        self.needs: dict[int, Need] = {}
        self.processes: dict[tuple[int, int], Process] = {}
        self.runs: dict[tuple[int, int], int] = {}  # how often each attempt was started
        self.ledger: dict[str, dict[tuple[int, int], Reservation]] = {g.id: {} for g in gpus}
        self._gpus = {g.id: Gpu(g.id, g.memory_mib) for g in gpus}
        self.sighting = Sighting(cpus, tuple(gpus))
        self._facts: list[ev.Fact] = []
        self._random = Random(seed)

    # ------------------------------------------------------------------ the world goes on

    def advance_to(self, moment_ms: int) -> None:
        """Let time pass; processes whose time has come end."""
        self.clock.now_ms = max(self.clock.now_ms, moment_ms)
        for key in [k for k, p in self.processes.items() if p.ends_at_ms <= self.clock.now_ms]:
            process = self.processes.pop(key)
            for held in self.ledger.values():
                held.pop(key, None)
            self._facts.append(ev.AttemptExited(self.clock.now_ms, *key, process.exit))

    def set_wall(self, by_ms: int) -> None:
        """Set the wall clock: processes don't notice, so in its terms their ends move along."""
        self.clock.set_wall(by_ms)
        for process in self.processes.values():
            process.started_at_ms += by_ms
            if process.ends_at_ms < NEVER_MS:
                process.ends_at_ms += by_ms

    def next_end_ms(self) -> int | None:
        """When the next process ends by itself."""
        ends = [p.ends_at_ms for p in self.processes.values() if p.ends_at_ms < NEVER_MS]
        return min(ends, default=None)

    def power_cut(self) -> None:
        """Everything dies, and nobody is left to tell."""
        self.processes.clear()
        self._facts.clear()
        for held in self.ledger.values():
            held.clear()

    # ------------------------------------------------------------------ what an executor does

    def adopt(self, active: Iterable[Job]) -> None:
        """See ports.Executor: what the state thinks is alive and is not has vanished."""
        told = {(fact.job_id, fact.attempt) for fact in self._facts}
        for job in active:
            attempt = job.active
            assert attempt is not None
            key = (job.id, attempt.number)
            known = key in self.processes or key in told
            if key in self.processes and attempt.started_at_ms is None:
                self._facts.append(ev.AttemptStarted(self.clock.now_ms, *key, pid=None))
            elif not known and self.runs.get(key):
                self._facts.append(ev.AttemptVanished(self.clock.now_ms, *key, why="power cut"))

    def carry_out(self, command: cmd.Command) -> None:
        """Do one thing."""
        match command:
            case cmd.Start() | cmd.StartAttached():
                self._start(command)
            case cmd.Terminate():
                self._terminate(command)
            case cmd.Warn(job_id=job_id, attempt=attempt):
                process = self.processes.get((job_id, attempt))
                if process is not None:
                    process.warned += 1
                    self._facts.append(ev.WarningSent(self.clock.now_ms, job_id, attempt))

    def _start(self, command: cmd.Start | cmd.StartAttached) -> None:
        key = (command.job_id, command.attempt)
        if self.runs.get(key) or any((f.job_id, f.attempt) == key for f in self._facts):
            return
        behaviours = self.behaviours[command.job_id]
        behaviour = behaviours[min(command.attempt, len(behaviours)) - 1]
        now_ms = self.clock.now_ms
        if not behaviour.can_start:
            self._facts.append(ev.AttemptNotStarted(now_ms, *key, why="no such command"))
            return
        assert not any(job_id == command.job_id for job_id, _ in self.processes), "run twice"
        self.runs[key] = self.runs.get(key, 0) + 1
        need = self.needs[command.job_id]
        assert len(command.gpus) == need.gpus, f"job {command.job_id} got {command.gpus}"
        for gpu_id in command.gpus:
            gpu, held = self._gpus[gpu_id], self.ledger[gpu_id]
            mine = reservation(need, gpu)
            assert fits_beside(mine, held.values(), gpu), f"GPU {gpu_id} is over its capacity"
            held[key] = mine
        ends = NEVER_MS if behaviour.runs_ms >= NEVER_MS else now_ms + behaviour.runs_ms
        self.processes[key] = Process(behaviour, now_ms, ends, behaviour.exit)
        self._facts.append(ev.AttemptStarted(now_ms, *key, pid=1000 + command.job_id))

    def _terminate(self, command: cmd.Terminate) -> None:
        key = (command.job_id, command.attempt)
        now_ms = self.clock.now_ms
        process = self.processes.get(key)
        if process is None:
            if not self.runs.get(key) and not any(
                (fact.job_id, fact.attempt) == key for fact in self._facts
            ):
                self._facts.append(ev.AttemptNotStarted(now_ms, *key, why="stopped first"))
            return
        if command.force:
            process.ends_at_ms, process.exit = now_ms + 1, Exit(signal=9)
        elif process.behaviour.heeds_stop_after_ms is not None:
            end = now_ms + process.behaviour.heeds_stop_after_ms
            if end < process.ends_at_ms:
                process.ends_at_ms, process.exit = end, Exit(signal=15)

    def facts(self) -> list[ev.Fact]:
        """All facts that are not settled, in any order that keeps each attempt's own."""
        by_attempt: dict[tuple[int, int], list[ev.Fact]] = {}
        for fact in self._facts:
            by_attempt.setdefault((fact.job_id, fact.attempt), []).append(fact)
        keys = list(by_attempt)
        self._random.shuffle(keys)
        return [fact for key in keys for fact in by_attempt[key]]

    def settled(self, facts: Sequence[ev.Fact]) -> None:
        """See ports.Executor."""
        done = {id(fact) for fact in facts}
        self._facts = [fact for fact in self._facts if id(fact) not in done]
