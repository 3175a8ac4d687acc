"""Executors behind one small set of proposals: real processes, a real cluster, simulated ones."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from contract.written_before import LedgerOnDisk
from slurm.cluster import Cluster
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Attempt, Cause, Exit, Job, JobState, Launch, Need, Stop, Terms
from stoker.core.takeover import AllowTakeovers
from stoker.executors.adoption import Past
from stoker.executors.attaching import Grant
from stoker.executors.keeper import ledger_path
from stoker.executors.ledger import LedgerWriter
from stoker.executors.local import LocalExecutor
from stoker.executors.mps import MpsServers
from stoker.executors.mps_clients import MpsClients
from stoker.executors.processes import stat_of
from stoker.executors.slurm.executor import SlurmExecutor
from stoker.executors.spawn import Made, Spawner, _file
from stoker.ports import Executor, SeenGpu, Takeover
from stoker.sim.faults import CrashingExecutor, Steps
from stoker.sim.takeover import CrashingTakeover
from stoker.sim.world import NEVER_MS, Behaviour, VirtualClock, World
from waiting import eventually

F = TypeVar("F", bound=ev.Fact)

LOCAL = ("patient", "quick")
"""Fixtures: real processes, which are waited for until their programs are loaded, or are not."""

ENDS_WELL = "exits with code 0"
EXITS_7 = "exits with code 7"
KILLS_ITSELF = "is ended by signal 9"
RUNS_ON = "runs until it is told to stop"
IGNORES = "ignores the request to stop"
MISSING = "can't be started"


class Bench(Protocol):
    """What the contract tests ask of an executor's surroundings."""

    @property
    def executor(self) -> Executor:
        """What is tried."""

    def has(self, job_id: int, behaviour: str) -> None:
        """From now on the job's command behaves so."""

    def order(self, *commands: cmd.Command) -> None:
        """Let the executor carry these out."""

    def until(self, kind: type[F], job_id: int) -> F:
        """The fact of that kind, once it is observed. Nothing is settled by that."""

    def started_again(self, *active: Job) -> None:
        """A new executor in the place of one that died, which adopts what was active."""


def start(job_id: int, attempt: int = 1, gpus: tuple[str, ...] = ("0",)) -> cmd.Start:
    return cmd.Start(job_id, attempt, gpus, grace_ms=300)


def active_job(
    job_id: int,
    *,
    started: bool,
    stopping: bool = False,
    attached: bool = False,
    grace_ms: int = 300,
) -> Job:
    """A job as the state has it after a restart."""
    attempt = Attempt(1, ("0",), 1_000, started_at_ms=1_001 if started else None)
    if stopping:
        attempt.stop = Stop(Cause.CANCELLED, 1_002)
    state = JobState.STOPPING if stopping else JobState.RUNNING
    terms = Terms(attached=attached, grace_ms=grace_ms)
    return Job(job_id, Need(), terms, state=state, attempt=1, active=attempt)


def words_of(behaviour: str) -> tuple[str, ...]:
    """A command that behaves so."""
    loop = "while :; do sleep 0.05; done"
    return {
        ENDS_WELL: ("true",),
        EXITS_7: ("sh", "-c", "exit 7"),
        KILLS_ITSELF: ("sh", "-c", "kill -9 $$"),
        RUNS_ON: ("sleep", "600"),
        IGNORES: ("sh", "-c", f"trap '' TERM; echo ready; {loop}"),
        MISSING: ("no-such-program-anywhere",),
    }[behaviour]


class _NotingSpawner(Spawner):
    """Notes whom it has made, once it is on disk that they are to be made."""

    def __init__(self, made: list[int], on_disk: LedgerOnDisk, *, quick: bool) -> None:
        super().__init__(quick=quick)
        self._noted = made
        self._on_disk = on_disk
        if quick:  # These can be run, be it the first time.
            programs = ("sh", "bash", "true", "sleep", "env", sys.executable)
            files = [_file(shutil.which(program) or program) for program in programs]
            self._proven.update(file for file in files if file is not None)

    def prove(self, program: str) -> None:
        """Take it that this program can be run."""
        file = _file(program)
        if self._quick and file is not None:
            self._remember(file)

    def _made(self, *words: Any) -> Made:
        self._on_disk.about_to_make(words[2])
        made = super()._made(*words)
        self._noted.append(made.pid)
        return made


class LocalBench:
    """Real processes, children of this one; put together as the daemon does it."""

    def __init__(self, root: Path, *, quick: bool = False) -> None:
        """`quick`: no start waits until a program is loaded, not even the first of each."""
        self.root = root
        self.quick = quick
        self.instance = uuid4().hex  # By it, tests that run at the same time are told apart.
        self.attempts, self.ledgers = root / "attempts", root / "ledgers"
        for directory in (self.attempts, self.ledgers):
            directory.mkdir(mode=0o700)
        self.launches: dict[int, Launch] = {}
        self.grants: list[Grant] = []
        self.now_ms = 1_000_000
        self.made: list[int] = []  # the pids of all processes
        self.executor = self._make()

    def _make(self) -> LocalExecutor:
        # The parent of this process stands for the keeper.
        keeper = stat_of(os.getppid())
        assert keeper is not None
        self.past = Past(self.attempts, self.ledgers)
        path = ledger_path(self.ledgers, keeper.id)
        self.ledger = LedgerWriter(path, keeper.id)
        self.on_disk = LedgerOnDisk(path)
        spawner = _NotingSpawner(self.made, self.on_disk, quick=self.quick)
        self.on_disk.executor = LocalExecutor(
            self.attempts,
            self.past,
            self.ledger,
            self.instance,
            self.grants.append,
            MpsClients(MpsServers(self.root / "mps", self.instance)),
            spawner,
        )
        return self.on_disk.executor

    def has(self, job_id: int, behaviour: str) -> None:
        self.runs(job_id, *words_of(behaviour))

    def runs(self, job_id: int, *argv: str, **fields: object) -> None:
        """The job's command in full."""
        env = {"PATH": os.environ["PATH"], "STOKER_HOME": str(self.root)}
        defaults = {"argv": argv, "cwd": str(self.root), "env": env}
        self.launches[job_id] = Launch(**(defaults | fields))  # type: ignore[arg-type]

    @property
    def takeover(self) -> Takeover:
        return self.executor.takeover

    def order(self, *commands: cmd.Command, takeovers: AllowTakeovers | None = None) -> None:
        self.takeover.allow(takeovers, self.launches.__getitem__)
        self.executor.carry_out(commands, self.launches.__getitem__, self.now_ms)

    def observe(self) -> list[ev.Fact]:
        self.now_ms += 20
        return self.executor.observe(self.now_ms)

    def until(self, kind: type[F], job_id: int) -> F:
        def there() -> F | None:
            for fact in self.observe():
                if isinstance(fact, kind) and fact.job_id == job_id:
                    return fact
            return None

        found = eventually(there, f"{kind.__name__} of job {job_id}")
        assert found is not None
        return found

    def directory(self, job_id: int, attempt: int = 1) -> Path:
        return self.attempts / "0000" / f"{job_id}.{attempt}"

    def log(self, job_id: int) -> str:
        try:
            return (self.attempts / "0000" / f"{job_id}.1.log").read_text()
        except FileNotFoundError:
            return ""

    def started_again(self, *active: Job, standbys: Sequence[Job] = ()) -> None:
        self.close()
        self.executor = self._make()
        self.executor.takeover.adopt(standbys, self.now_ms)
        self.executor.adopt(active, self.now_ms)

    def close(self) -> None:
        self.executor.close()
        self.ledger.close()
        self.on_disk.close()


class SlurmBench:
    """Jobs of a real cluster; an order to start becomes one to hand over."""

    def __init__(self, root: Path, cluster: Cluster) -> None:
        self.root = root
        self._env = {"PATH": os.environ["PATH"], "SLURM_CONF": str(cluster.conf)}
        self._instance = uuid4().hex
        self._attempts = root / "attempts"
        self._attempts.mkdir(mode=0o700)
        self.launches: dict[int, Launch] = {}
        self.now_ms = 1_000_000
        self.executor = self._make()

    def _make(self) -> SlurmExecutor:
        return SlurmExecutor(self._attempts, self._instance, lambda: self.now_ms, self._env)

    def has(self, job_id: int, behaviour: str) -> None:
        argv = words_of(behaviour)
        env = {"PATH": os.environ["PATH"]}
        self.launches[job_id] = Launch(argv, cwd=str(self.root), env=env)

    def log(self, job_id: int) -> str:
        try:
            return (self._attempts / "0000" / f"{job_id}.1" / "log").read_text()
        except FileNotFoundError:
            return ""

    def order(self, *commands: cmd.Command) -> None:
        orders = [_handed_over(command) for command in commands]
        self.executor.carry_out(orders, self.launches.__getitem__, self.now_ms)

    def until(self, kind: type[F], job_id: int) -> F:
        def there() -> F | None:
            for fact in self.executor.observe(self.now_ms):
                if isinstance(fact, kind) and fact.job_id == job_id:
                    return fact
            return None

        found = eventually(there, f"{kind.__name__} of job {job_id}")
        assert found is not None
        return found

    def started_again(self, *active: Job) -> None:
        self.executor.close()
        self.executor = self._make()
        for job in active:
            job.terms = replace(job.terms, executor="slurm")
        self.executor.adopt(active, self.now_ms)

    def close(self) -> None:
        self.executor.close()


def _handed_over(command: cmd.Command) -> cmd.Command:
    if not isinstance(command, cmd.Start):
        return command
    terms = Terms(grace_ms=command.grace_ms, executor="slurm")
    key = (command.job_id, command.attempt)
    return cmd.HandOver(*key, "slurm", Need(0), terms, 0, None, ())


class SimBench:
    """The simulated world behind the same port."""

    def __init__(self) -> None:
        self.clock = VirtualClock(true_ms=1)
        gpus = [SeenGpu(str(index)) for index in range(4)]
        self.world = World(gpus, 4, self.clock, seed=1)
        self._begin()

    def _begin(self) -> None:
        self.takeover = CrashingTakeover(self.world, Steps())
        self.executor = CrashingExecutor(self.world, Steps(), self.takeover.fill_places)

    def has(self, job_id: int, behaviour: str) -> None:
        self.world.needs[job_id] = Need()
        forever = Behaviour(NEVER_MS, Exit(code=0))
        self.world.behaviours[job_id] = (
            {
                ENDS_WELL: Behaviour(50, Exit(code=0)),
                EXITS_7: Behaviour(50, Exit(code=7)),
                KILLS_ITSELF: Behaviour(50, Exit(signal=9)),
                RUNS_ON: forever,
                IGNORES: Behaviour(NEVER_MS, Exit(code=0), heeds_stop_after_ms=None),
                MISSING: Behaviour(0, Exit(code=0), cannot_start=Cause.NOT_STARTED),
            }[behaviour],
        )

    def order(self, *commands: cmd.Command, takeovers: AllowTakeovers | None = None) -> None:
        launch: Callable[[int], Launch] = lambda job_id: Launch(("true",))  # noqa: E731
        self.takeover.allow(takeovers, launch)
        self.executor.carry_out(commands, launch, self.clock.now_ms)

    def until(self, kind: type[F], job_id: int) -> F:
        for _ in range(200):
            for fact in self.executor.observe(self.clock.now_ms):
                if isinstance(fact, kind) and fact.job_id == job_id:
                    return fact
            self.world.advance_to(self.clock.true_ms + 10)
        raise AssertionError(f"no {kind.__name__} of job {job_id}")

    def started_again(self, *active: Job, standbys: Sequence[Job] = ()) -> None:
        self._begin()
        self.takeover.adopt(standbys, self.clock.now_ms)
        self.executor.adopt(active, self.clock.now_ms)
