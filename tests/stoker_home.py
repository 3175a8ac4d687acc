"""A real Stoker instance in a directory of its own: daemon, command line, jobs and their end.

Law: whatever is started here is gone when `clean_up` returns.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.api.client import Client
from stoker.api.launch import start_daemon
from stoker.api.paths import Home
from stoker.errors import StokerError
from waiting import PATIENCE_S, eventually

SRC = str(Path(__file__).parents[1] / "src")
FINAL = frozenset({"succeeded", "stopped", "failed", "cancelled", "skipped", "lost"})


@dataclass(frozen=True)
class Ran:
    """What came of a command line."""

    code: int
    out: str
    err: str


class StokerHome:
    """One state directory and everything that runs because of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Home(str(root / "home"))
        self.first_id = 1  # that of the job which is submitted first
        self.work = root / "work"
        self.work.mkdir(exist_ok=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",
            "STOKER_HOME": self.home.root,
            "PYTHONPATH": SRC,
            # An interrupted run must not leave compiled files of the sources in odd places.
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    # ------------------------------------------------------------------ the command line

    def command(self, *words: str) -> list[str]:
        """The words that run a command line as a process of its own."""
        return [sys.executable, "-m", "stoker", *words]

    def popen(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """A command line that goes on beside the test."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process: subprocess.Popen[bytes] = subprocess.Popen(
            self.command(*words), env=self.env, cwd=self.work, **options
        )
        return process

    def cli(
        self,
        *words: str,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        stdin: bytes = b"",
    ) -> Ran:
        """Run a command line to its end."""
        done = subprocess.run(
            self.command(*words),
            env=self.env | (env or {}),
            cwd=cwd or self.work,
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S * 2,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def stoker(self, *words: str) -> str:
        """Run a command line that must succeed; what it printed on stdout."""
        ran = self.cli(*words)
        assert ran.code == 0, f"{words}: {ran}"
        return ran.out

    def add(self, *words: str) -> int:
        """Queue a job by the command line; its id."""
        return int(self.stoker("add", *words))

    # ------------------------------------------------------------------ the api

    def client(self) -> Client:
        """A connection that never starts a daemon."""
        return Client(self.home, autostart=False)

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """One order over the socket."""
        with self.client() as client:
            return client.call(op, **fields)

    def submit(self, *argv: str, **fields: Any) -> int:
        """Queue one job without the cost of a command line; its id."""
        return self.submit_all([{"argv": list(argv), **fields}])[0]

    def submit_all(self, jobs: Sequence[dict[str, Any]], **fields: Any) -> list[int]:
        """Queue jobs, all in one submission."""
        order = {"jobs": list(jobs), "cwd": str(self.work), "env": self.env, "user": "tester"}
        ids: list[int] = self.call("submit", **(order | fields))["ids"]
        return ids

    def nth(self, number: int) -> int:
        """The id of the job that was submitted as the nth."""
        return self.first_id + number - 1

    def job(self, job_id: int) -> dict[str, Any]:
        """All that the daemon shows of a job, with its attempts."""
        jobs: list[dict[str, Any]] = self.call("show", select={"ids": [str(job_id)]})["jobs"]
        return jobs[0]

    def jobs(self) -> dict[int, dict[str, Any]]:
        """All jobs by id."""
        return {job["id"]: job for job in self.call("list", all=True)["jobs"]}

    def until_final(self, *job_ids: int) -> list[dict[str, Any]]:
        """The jobs once all of them have ended."""
        with self.client() as client:
            client.send("wait", select={"ids": [str(job_id) for job_id in job_ids]})
            client.receive(PATIENCE_S * 2)
        return [self.job(job_id) for job_id in job_ids]

    def until_state(self, job_id: int, *states: str) -> dict[str, Any]:
        """The job once it is in one of these states."""

        def there() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if job["state"] in states else None

        found = eventually(there, f"job {job_id} is one of {states}")
        assert found is not None
        return found

    def until_pid(self, job_id: int) -> int:
        """The pid of the job's main process, once the daemon has committed that it runs."""
        found: int = eventually(lambda: self.job(job_id)["pid"], f"job {job_id} has a pid")
        return found

    # ------------------------------------------------------------------ the daemon

    def start(self, gpus: str = "") -> int:
        """Start the daemon and declare GPUs; its pid."""
        start_daemon(self.home)
        if gpus:
            self.call("config_set", name="gpus", value=gpus)
        return self.daemon_pid()

    def daemon_pid(self) -> int:
        """The daemon's process."""
        return int(self.call("hello")["pid"])

    def is_reachable(self) -> bool:
        """Whether a daemon answers."""
        try:
            self.call("hello")
        except StokerError:
            return False
        return True

    def daemons(self) -> list[int]:
        """Every daemon of this home, those that are only just starting too."""
        found = []
        for pid in self.processes():
            words = command_line_of(pid)
            if b"stoker.daemon.main" in words and b"stoker.executors.keeper" not in words:
                found.append(pid)
        # A child of a daemon that has not loaded its program yet looks just like it, be its parent
        # alive or not; but it leads a session of its own.
        return [
            pid
            for pid in found
            if is_running(pid) and parent_of(pid) not in found and not leads_session(pid)
        ]

    def keeper_pid(self) -> int:
        """The daemon's parent."""
        return parent_of(self.daemon_pid())

    def kill_daemon(self) -> None:
        """As by `kill -9`; returns when it is gone, and its children have another parent."""
        kill_and_wait(self.daemon_pid())

    def power_cut(self) -> None:
        """Daemon, keeper and jobs die at once: whoever is left could still write something."""
        daemon = self.daemon_pid()
        keeper = parent_of(daemon)
        for pid in (daemon, keeper):
            os.kill(pid, signal.SIGSTOP)
        jobs = [pid for pid in self.processes() if pid not in (daemon, keeper)]
        for pid in (keeper, daemon, *jobs):
            _send(pid, signal.SIGKILL)
        eventually(lambda: not self.processes(), "everything is dead")

    def log_text(self) -> str:
        """The daemon's own log."""
        try:
            return Path(self.home.log).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def log_of(self, job_id: int) -> str:
        """What a job has printed."""
        return Path(self.job(job_id)["log"]).read_text(encoding="utf-8", errors="replace")

    # ------------------------------------------------------------------ the end

    def processes(self) -> list[int]:
        """Every living process that knows of this home by its environment."""
        return processes_with(f"STOKER_HOME={self.home.root}".encode())

    def clean_up(self) -> None:
        """End everything."""
        try:
            self.call("shutdown", mode="leave")
        except (StokerError, OSError):
            pass

        def all_gone() -> bool:
            for pid in self.processes():
                _send(pid, signal.SIGKILL)
            return not self.processes()

        eventually(all_gone, "no process is left")


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def processes_with(variable: bytes, *, prefix: bool = False) -> list[int]:
    """The living processes, but this one, that were started with `NAME=value`."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            environ = Path("/proc", name, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(item.startswith(variable) if prefix else item == variable for item in environ):
            found.append(int(name))
    return found


def processes_below(directory: Path) -> list[int]:
    """The living processes that have a directory below this one as theirs."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if Path(os.readlink(f"/proc/{name}/cwd")).is_relative_to(directory):
                found.append(int(name))
    return found


def command_line_of(pid: int) -> list[bytes]:
    """The words that a process was started with; none if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def parent_of(pid: int) -> int:
    """The parent's pid."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(text[text.rindex(")") + 2 :].split()[1])


def leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def is_running(pid: int) -> bool:
    """True if there is such a process and it is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text[text.rindex(")") + 2] not in "ZX"


def kill_and_wait(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process, and return when it has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(fd, number)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(PATIENCE_S * 1000), f"process {pid} did not end"
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


def lines_of(path: Path) -> list[str]:
    """The whole lines of a file; none if it is not there yet."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return text[: text.rfind("\n") + 1].splitlines()


def pid_in(path: Path) -> int:
    """The pid that a process wrote to a file."""
    return int(eventually(lambda: lines_of(path), f"{path} has a pid")[0])


def all_gone(pids: Iterable[int]) -> bool:
    """True if none of these processes runs."""
    return not any(is_running(pid) for pid in pids)
