"""MPS servers as they are needed: one a GPU, there before its first job and gone after its last.

Law: nothing here waits. What takes time (see `mps_control`) is done by threads; `fileno` becomes
readable when one of them is through, and what asked asks again.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from stoker.core.commands import Mps
from stoker.executors.environment import MPS_MARKER
from stoker.executors.mps_control import Control, ControlFailed
from stoker.executors.processes import ProcessId, is_alive
from stoker.executors.shortage import Shortage, shortage

log = logging.getLogger("stoker.daemon")

# Jobs often follow one another: a server is not ended in the moment between two of them.
_LINGERS_MS = 1_000
_END_AGAIN_MS = 5_000
_CLOSES_WITHIN_S = 15.0


class Task:
    """Something that a thread does; `done` when it is through, however that went."""

    def __init__(self, work: Callable[[], object], wake: Callable[[], None]) -> None:
        self.result: object = None
        self.error = ""
        self.short: Shortage | None = None  # what was missing, if it failed for that
        self.done = False
        self._work, self._wake = work, wake
        self._thread = threading.Thread(target=self._run, name="mps", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # There is no room for a thread, as for a process.
            self.error, self.short = str(error), shortage(errno.EAGAIN, "")
            self.done = True
            wake()

    def join(self, timeout_s: float) -> None:
        """Wait until it is through."""
        if not self.done:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self.result = self._work()
        except ControlFailed as failure:
            self.error, self.short = str(failure), failure.short
        except Exception as error:
            log.exception("MPS")
            self.error = str(error) or type(error).__name__
        self.done = True
        self._wake()


class Stage(Enum):
    """Where a server stands."""

    FOUND = "found"  # an earlier daemon had it; perhaps it is still there
    STARTING = "starting"
    READY = "ready"
    ENDING = "ending"


@dataclass(slots=True)
class Server:
    """The control daemon of a GPU."""

    control: Control
    stage: Stage
    task: Task | None = None
    process: ProcessId | None = None
    failed: bool = False
    why: str = ""  # it could not be started
    short: Shortage | None = None  # for want of this
    unused_since_ms: int | None = None
    end_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class CantStart:
    """There will be no server; `short` says what is missing for it, if anything is."""

    why: str
    short: Shortage | None = None


class MpsServers:
    """All servers of one daemon."""

    def __init__(self, root: Path, instance: str) -> None:
        self._root = root
        self._instance = instance
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._open = True
        self._servers: dict[str, Server] = {}
        self._now_ms = 0
        for control in Control.found_in(root):
            key = control.gpu or control.directory.name
            self._servers[key] = Server(control, Stage.FOUND)

    def fileno(self) -> int:
        """Readable when a task is through."""
        return self._event

    def any(self) -> bool:
        """True if there is a server to be looked after."""
        return bool(self._servers)

    def heard(self) -> None:
        """Tasks that are through were looked at."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)

    def _wake(self) -> None:
        if self._open:
            with suppress(OSError):  # It was closed just now.
                os.eventfd_write(self._event, 1)

    def _task(self, work: Callable[[], object]) -> Task:
        return Task(work, self._wake)

    # ------------------------------------------------------------------ for jobs that start

    def ready(self, gpu: str, mps: Mps, has_clients: bool) -> dict[str, str] | CantStart | None:
        """What the environment of a job on this GPU has to say; the server is started if need be.

        None: it can't be started yet, and is asked for again when `fileno` is readable.
        `has_clients`: attempts of ours use the server now. One that has failed is replaced as soon
        as they do not.
        """
        server = self._servers.get(gpu)
        if server is None:
            control = Control.of(self._root, gpu, self._instance)
            server = self._servers[gpu] = Server(control, Stage.FOUND)
        server.unused_since_ms = None
        if server.why:
            return CantStart(server.why, server.short)
        if server.stage is Stage.FOUND:
            server.stage, server.task = Stage.STARTING, self._task(server.control.start)
        if server.stage is not Stage.READY:
            return None
        self._look_at(server)
        if server.failed:
            if not has_clients:
                self._end(server, force=True)
            return None
        return _variables(server.control, mps)

    def _look_at(self, server: Server) -> None:
        try:
            gone = server.process is not None and not is_alive(server.process)
        except OSError:
            gone = False  # Too many files are open to look.
        if not server.failed and (gone or server.control.has_failed()):
            server.failed = True
            log.warning("the MPS server of GPU %s has failed", server.control.gpu)

    # ------------------------------------------------------------------ for jobs that run

    def end_clients(self, gpu: str, pids: Iterable[int]) -> Task:
        """End the GPU work of these processes; they may be signalled when that is done."""
        control, wanted = self._control(gpu), list(pids)
        return self._task(lambda: control.terminate_clients(wanted))

    def examine(self, gpu: str) -> Task:
        """Find out whether the server has failed: the result is a bool."""
        control = self._control(gpu)

        def examined() -> bool:
            if control.has_failed():
                return True
            try:
                return control.is_in_fault() or control.has_failed()
            except ControlFailed:
                return not control.processes()  # It is gone, and took its clients with it.

        return self._task(examined)

    def note_failure(self, gpu: str) -> None:
        """A server is known to have failed: it is to be replaced before a job uses it."""
        server = self._servers.get(gpu)
        if server is not None and server.stage is Stage.READY:
            server.failed = True

    def _control(self, gpu: str) -> Control:
        server = self._servers.get(gpu)
        return Control.of(self._root, gpu, self._instance) if server is None else server.control

    # ------------------------------------------------------------------ their life

    def tend(self, used: Iterable[str], now_ms: int) -> None:
        """After each turn: take in what tasks have done, and end what no job uses any more."""
        self._now_ms = now_ms
        wanted = set(used)
        for gpu, server in list(self._servers.items()):
            if server.task is not None and server.task.done:
                self._task_is_done(gpu, server)
            elif server.why:
                del self._servers[gpu]  # What waited for it was told; the next tries again.
            elif gpu in wanted:
                server.unused_since_ms = None
            elif server.stage in (Stage.FOUND, Stage.READY):
                if server.unused_since_ms is None:
                    server.unused_since_ms = now_ms
                if now_ms >= self._end_at_ms(server):
                    self._end(server, force=False)

    def _end_at_ms(self, server: Server) -> int:
        assert server.unused_since_ms is not None
        # One that an earlier daemon left without jobs has lingered long enough.
        lingers_ms = _LINGERS_MS if server.stage is Stage.READY else 0
        return max(server.unused_since_ms + lingers_ms, server.end_after_ms)

    def _end(self, server: Server, force: bool) -> None:
        server.stage = Stage.ENDING
        server.task = self._task(lambda: server.control.end(force))

    def _task_is_done(self, gpu: str, server: Server) -> None:
        task, server.task = server.task, None
        assert task is not None
        self._wake()  # What waits for it is to ask again.
        if server.stage is Stage.STARTING:
            if task.error:
                server.why, server.short = task.error, task.short
                log.warning("no MPS on GPU %s: %s", gpu, task.error)
            else:
                server.stage = Stage.READY
                server.process = task.result if isinstance(task.result, ProcessId) else None
        elif server.stage is Stage.ENDING:
            if task.result is True:
                del self._servers[gpu]
            else:
                # Something that a job has left behind on purpose still uses it.
                server.stage = Stage.READY
                server.end_after_ms = self._now_ms + _END_AGAIN_MS

    def next_wakeup_ms(self) -> int | None:
        """When a server may be due to be ended."""
        if not self._servers:
            return None
        moments = [
            self._end_at_ms(server)
            for server in self._servers.values()
            if server.unused_since_ms is not None and server.task is None
        ]
        return min(moments, default=None)

    def close(self, used: Iterable[str]) -> None:
        """The daemon ends: so do the servers that no job uses. The others go on."""
        wanted = set(used)
        deadline = time.monotonic() + _CLOSES_WITHIN_S
        for gpu, server in self._servers.items():
            if gpu in wanted:
                continue
            if server.task is not None:
                server.task.join(max(0.0, deadline - time.monotonic()))
            if server.stage is not Stage.ENDING:
                self._end(server, force=False)
        for gpu, server in self._servers.items():
            if gpu not in wanted and server.task is not None:
                server.task.join(max(0.0, deadline - time.monotonic()))
        self._open = False
        os.close(self._event)


def _variables(control: Control, mps: Mps) -> dict[str, str]:
    """What a client's environment has to say."""
    variables = {
        "CUDA_MPS_PIPE_DIRECTORY": control.pipe,
        "CUDA_MPS_LOG_DIRECTORY": control.log,
        MPS_MARKER: "1",
    }
    if control.gpu.isdecimal():
        # A GPU that the server knows by number is the only one it has, and so its clients' first.
        variables["CUDA_VISIBLE_DEVICES"] = "0"
    if mps.thread_percentage is not None:
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(mps.thread_percentage)
    if mps.limit_mib is not None:
        variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={mps.limit_mib}M"
    return variables
