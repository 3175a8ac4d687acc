"""Attempts as jobs of a Slurm cluster, behind the same port as local processes.

Law: no method here waits for the cluster or for a shared file system; a thread does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Job, Launch
from stoker.executors.slurm.calls import client_environment
from stoker.executors.slurm.cases import Adopted, Key, Standing
from stoker.executors.slurm.check import Check, checks
from stoker.executors.slurm.files import Files
from stoker.executors.slurm.options import ClusterConfig
from stoker.executors.slurm.worker import Worker

NAME = "slurm"
_MAY_WAIT_MS = 50
_ENDINGS = (
    ev.AttemptExited,
    ev.AttemptCutShort,
    ev.AttemptEvicted,
    ev.AttemptVanished,
    ev.AttemptNotStarted,
)


class SlurmExecutor:
    """See ports.Executor. `fileno` becomes readable when there is something to observe."""

    def __init__(
        self,
        attempts: Path,
        instance: str,
        clock: Callable[[], int],
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._attempts = attempts
        self._instance = instance
        self._clock = clock
        self._env = dict(os.environ if env is None else env)
        self._config = ClusterConfig()
        self._files = Files(attempts, None)
        self._worker: Worker | None = None
        self._ordered: set[Key] = set()  # what the thread was told, so that it is told once
        self._stopped: dict[Key, bool] = {}  # whether by force
        self._facts: dict[tuple[Key, type[ev.Fact]], ev.Fact] = {}
        self._lock = threading.Lock()
        self._now_ms = 0
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def fileno(self) -> int:
        """For the loop: readable when the thread has told something."""
        return self._read

    def configure(self, config: ClusterConfig, shared: Path | None) -> None:
        """Take what the user has set, for all jobs from now on."""
        self._config = config
        self._files = Files(self._attempts, shared)
        if self._worker is not None:
            files = self._files
            self._worker.post(lambda worker: worker.use(config, files))

    def close(self) -> None:
        """Watch nothing any more; what is at the cluster goes on."""
        if self._worker is not None:
            self._worker.end()
        os.close(self._read)
        os.close(self._write)

    def standing(self, job_id: int, attempt: int) -> Standing | None:
        """What the cluster last said of an attempt."""
        return None if self._worker is None else self._worker.standings.get((job_id, attempt))

    def check(self, config: ClusterConfig, shared: Path | None) -> list[Check]:
        """Try the cluster. This waits for its answers, so call it from another thread."""
        directory = str(self._attempts.parent if shared is None else shared)
        return list(checks(client_environment(self._env), config, directory))

    # ------------------------------------------------------------------ the port

    def adopt(self, active: Iterable[Job], now_ms: int) -> None:
        """See ports.Executor."""
        self._now_ms = now_ms
        adopted = [
            Adopted(
                (job.id, job.active.number),
                job.active.place,
                job.active.started_at_ms is not None,
                job.active.stop is not None,
            )
            for job in active
            if job.active is not None
        ]
        # An earlier daemon may have left something at the cluster although nothing is active.
        if adopted or self._files.batches():
            self._thread().post(lambda worker: worker.adopt(adopted))

    def carry_out(
        self, commands: Sequence[cmd.Command], launch_of: Callable[[int], Launch], now_ms: int
    ) -> None:
        """See ports.Executor."""
        self._now_ms = now_ms
        for command in commands:
            match command:
                case cmd.HandOver(job_id=job_id, attempt=attempt):
                    self._hand_over(command, (job_id, attempt), launch_of)
                case cmd.Terminate(job_id=job_id, attempt=attempt, force=force):
                    self._terminate((job_id, attempt), force)

    def _hand_over(self, order: cmd.HandOver, key: Key, launch_of: Callable[[int], Launch]) -> None:
        if key in self._ordered or self._is_over(key):
            return
        self._ordered.add(key)
        launch = launch_of(order.job_id)
        self._thread().post(lambda worker: worker.order(order, launch))

    def _terminate(self, key: Key, force: bool) -> None:
        told = self._stopped.get(key)
        if self._is_over(key) or told or (told is False and not force):
            return
        self._stopped[key] = force
        self._thread().post(lambda worker: worker.stop(key, force))

    def _is_over(self, key: Key) -> bool:
        return any((key, kind) in self._facts for kind in _ENDINGS)

    def observe(self, now_ms: int) -> list[ev.Fact]:
        """See ports.Executor."""
        self._now_ms = now_ms
        if self._worker is None:
            return []
        with suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass
        with self._lock:
            return list(self._facts.values())

    def acknowledged(self, facts: Sequence[ev.Fact]) -> None:
        """See ports.Executor."""
        ended: list[Key] = []
        with self._lock:
            for fact in facts:
                key = (fact.job_id, fact.attempt)
                if self._facts.get((key, type(fact))) is fact:
                    del self._facts[key, type(fact)]
                    if isinstance(fact, _ENDINGS):
                        self._ordered.discard(key)
                        self._stopped.pop(key, None)
                        ended.append(key)
        if ended:
            self._thread().post(lambda worker: worker.forget(ended))

    def next_wakeup_ms(self) -> int | None:
        """See ports.Executor. That the cluster has taken or started something can wait a moment."""
        if self._worker is None:
            return None
        with self._lock:
            kinds = {kind for _, kind in self._facts}
        if not kinds:
            return None
        lazy = kinds <= {ev.AttemptAccepted, ev.AttemptStarted}
        return self._now_ms + (_MAY_WAIT_MS if lazy else 0)

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        """See ports.Executor: processes of the cluster are on other machines."""
        return {}

    # ------------------------------------------------------------------ the thread

    def _thread(self) -> Worker:
        if self._worker is None:
            lock_path = str(self._attempts.parent / "slurm.lock")
            self._worker = Worker(
                self._files, self._instance, lock_path, self._clock, self._told, self._env
            )
            self._worker.config = self._config
            self._worker.start()
        return self._worker

    def _told(self, facts: list[ev.Fact]) -> None:
        """Called by the thread."""
        with self._lock:
            for fact in facts:
                self._facts.setdefault(((fact.job_id, fact.attempt), type(fact)), fact)
        with suppress(BlockingIOError):
            os.write(self._write, b"x")
