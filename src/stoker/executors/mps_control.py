"""What is said to `nvidia-cuda-mps-control`, and where one control daemon has its files.

One a GPU, in a directory of its own: `pipe` (its sockets), `log`, and `gpu` (whose it is). Every
call here may take seconds: no turn makes one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from stoker.executors.environment import MPS_MARKER
from stoker.executors.processes import ProcessId, Stat, all_stats, has_marker, send
from stoker.executors.shortage import Shortage, shortage

PROGRAM = "nvidia-cuda-mps-control"
# The longest name that a control daemon gives a socket in its pipe directory, and the kernel's
# limit for the whole path.
_LONGEST_SOCKET = "/control_privileged"
_MOST_PATH_BYTES = 107

_ANSWERS_WITHIN_S = 5.0
_STARTS_WITHIN_S = 15.0
_CLIENTS_LEAVE_WITHIN_S = 2.0
_FORCED_AFTER_S = 5
_ENDS_WITHIN_S = 5.0
_LOOK_AGAIN_S = 0.05
_MOST_LOG_BYTES = 1024 * 1024

# As the control daemon and its servers put it in their logs when a server fails.
_FAULT = re.compile(rb"\bFAULT\b|\bServer \d+ exited with status (?!0\b)|\b[Ff]atal\b")
_LOGS = ("control.log", "server.log")


class ControlFailed(Exception):
    """The control daemon could not be started or reached; the message says why."""

    def __init__(self, why: str, short: Shortage | None = None) -> None:
        super().__init__(why)
        self.short = short  # what was missing, if anything was


def _failed(error: OSError) -> ControlFailed:
    path = str(error.filename or PROGRAM)
    return ControlFailed(f"{path}: {error.strerror}", shortage(error.errno, path))


def find_control() -> str | None:
    """The program, if it is on the PATH."""
    return shutil.which(PROGRAM)


def _found_control() -> str:
    program = find_control()
    if program is None:
        raise ControlFailed(f"{PROGRAM}: command not found")
    return program


@dataclass(frozen=True, slots=True)
class Control:
    """The control daemon of one GPU, there or not."""

    gpu: str
    directory: Path
    instance: str

    @classmethod
    def of(cls, root: Path, gpu: str, instance: str) -> Control:
        """That of a GPU; its directory has a short name, whatever the GPU is called."""
        return cls(gpu, root / hashlib.sha256(gpu.encode()).hexdigest()[:8], instance)

    @classmethod
    def found_in(cls, root: Path) -> list[Control]:
        """All that earlier daemons have left in a directory."""
        found = []
        for path in sorted(root.iterdir()) if root.is_dir() else []:
            try:
                gpu, instance = (path / "gpu").read_text(encoding="utf-8").split()
            except (OSError, ValueError):
                gpu, instance = "", ""
            found.append(cls(gpu, path, instance))
        return found

    @property
    def pipe(self) -> str:
        """Where its sockets are: elsewhere, if the path would be too long for the kernel."""
        return os.path.realpath(self.directory / "pipe")

    @property
    def log(self) -> str:
        """Where its logs are."""
        return str(self.directory / "log")

    # ------------------------------------------------------------------ its life

    def start(self) -> ProcessId | None:
        """Have it there: the one that runs already, or a new one. Its process, if that is found."""
        if not self.answers():
            try:
                self._start()
            except ControlFailed:
                self.end(force=True)
                raise
        stats = self._stats()
        pids = {stat.id.pid for stat in stats}
        return next((stat.id for stat in stats if stat.parent not in pids), None)

    def _start(self) -> None:
        program = _found_control()
        try:
            self._make_directories()
            words = self.directory / "start.txt"
            # A file and not a pipe: a daemon that keeps it open must not keep us waiting.
            with open(words, "w+b") as output:
                done = subprocess.run(
                    [program, "-d"],
                    env=self._environment(),
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=_STARTS_WITHIN_S,
                    check=False,
                )
            said = words.read_text(encoding="utf-8", errors="replace").strip()
        except subprocess.TimeoutExpired:
            raise ControlFailed(f"{PROGRAM} -d takes too long") from None
        except OSError as error:
            raise _failed(error) from None
        if done.returncode != 0 and not self.answers():
            last = said.splitlines()[-1] if said else f"exit code {done.returncode}"
            raise ControlFailed(f"{PROGRAM}: {_printable(last)}")
        if not _eventually(self.answers, _STARTS_WITHIN_S):
            raise ControlFailed(f"{PROGRAM} does not answer")

    def end(self, force: bool = False) -> bool:
        """Have it gone, with all that it has on disk; False if programs still use it.

        With `force` these lose their server.
        """
        if self.answers():
            if not force and not _eventually(self._has_no_clients, _CLIENTS_LEAVE_WITHIN_S):
                return False
            with contextlib.suppress(ControlFailed):
                self.ask([f"quit -t {_FORCED_AFTER_S}"], _FORCED_AFTER_S + _ANSWERS_WITHIN_S)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if _eventually(lambda: not self.processes(), _ENDS_WITHIN_S):
                break
            for process in self.processes():
                send(process, number)
        pipe = self.pipe
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.rmtree(pipe, ignore_errors=True)
        return True

    def _make_directories(self) -> None:
        shutil.rmtree(self.log, ignore_errors=True)
        for path in (self.directory.parent, self.directory, self.log):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        (self.directory / "gpu").write_text(f"{self.gpu}\n{self.instance}\n", encoding="utf-8")
        pipe = self.directory / "pipe"
        if os.path.isdir(pipe):
            return
        if _has_room_for_sockets(str(pipe)):
            pipe.mkdir(0o700)
            return
        pipe.unlink(missing_ok=True)
        elsewhere = tempfile.gettempdir()
        if not _has_room_for_sockets(f"{elsewhere}/stoker-mps-12345678"):
            elsewhere = "/tmp"
        pipe.symlink_to(tempfile.mkdtemp(prefix="stoker-mps-", dir=elsewhere))

    def _environment(self) -> dict[str, str]:
        # What a client may have of a GPU is said for each, and not by what started the daemon.
        ours = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_MPS_")}
        return {
            **ours,
            "CUDA_MPS_PIPE_DIRECTORY": self.pipe,
            "CUDA_MPS_LOG_DIRECTORY": self.log,
            "CUDA_VISIBLE_DEVICES": self.gpu,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            MPS_MARKER: self.instance,
        }

    def processes(self) -> list[ProcessId]:
        """The daemon and its server, by the marks in their environment."""
        return [stat.id for stat in self._stats()]

    def _stats(self) -> list[Stat]:
        marks = (
            f"{MPS_MARKER}={self.instance}".encode(),
            b"CUDA_MPS_PIPE_DIRECTORY=" + os.fsencode(self.pipe),
        )
        return [
            stat
            for stat in all_stats().values()
            if stat.state not in "ZX" and all(has_marker(stat.id.pid, mark) for mark in marks)
        ]

    # ------------------------------------------------------------------ questions and orders

    def ask(self, commands: Iterable[str], timeout_s: float = _ANSWERS_WITHIN_S) -> list[str]:
        """The lines that it answers to some commands."""
        try:
            done = subprocess.run(
                [_found_control()],
                # Without the mark: this is no part of what is to be ended.
                env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": self.pipe},
                cwd="/",
                input="".join(f"{command}\n" for command in commands).encode(),
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ControlFailed(f"{PROGRAM} does not answer") from None
        except OSError as error:
            raise _failed(error) from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise ControlFailed(_printable(said[-1]) if said else f"{PROGRAM} failed")
        return done.stdout.decode(errors="replace").splitlines()

    def answers(self) -> bool:
        """True if it is there."""
        if not os.path.isdir(self.pipe):
            return False
        try:
            self.servers()
        except ControlFailed:
            return False
        return True

    def servers(self) -> list[int]:
        """The pids of its servers: one, after its first client has come."""
        return _numbers(self.ask(["get_server_list"]))

    def _has_no_clients(self) -> bool:
        try:
            return not any(self._clients(server) for server in self.servers())
        except ControlFailed:
            return True

    def _clients(self, server: int) -> list[int]:
        return _numbers(self.ask([f"get_client_list {server}"]))

    def terminate_clients(self, pids: Iterable[int]) -> None:
        """End the GPU work of those of these processes that have any, so that they may be killed.

        A client that is killed in the middle of its work takes its neighbours with it.
        """
        wanted = set(pids)
        orders = [
            f"terminate_client {server} {client}"
            for server in self.servers()
            for client in self._clients(server)
            if client in wanted
        ]
        if orders:
            self.ask(orders)

    def is_in_fault(self) -> bool:
        """True if a server of its says that it has failed."""
        return any(
            "FAULT" in line
            for server in self.servers()
            for line in self.ask([f"get_server_status {server}"])
        )

    # ------------------------------------------------------------------ its logs

    def has_failed(self) -> bool:
        """True if its logs tell that a server of its has failed; it is replaced after that."""
        return any(_FAULT.search(_tail(f"{self.log}/{name}")) for name in _LOGS)


def _has_room_for_sockets(directory: str) -> bool:
    return len(os.fsencode(directory)) + len(_LONGEST_SOCKET) <= _MOST_PATH_BYTES


def _tail(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_LOG_BYTES))
            return file.read(_MOST_LOG_BYTES)
    except OSError:
        return b""


def _numbers(lines: Iterable[str]) -> list[int]:
    return [int(line) for line in lines if line.strip().isdecimal()]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def _eventually(holds: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True
