"""A Stoker of a benchmark's own: a home, its daemon, and what the kernel knows of that."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from side_by_side import BIN
from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.text.ids import ranges

NO_OP: dict[str, Any] = {"argv": ["sh", "-c", "true"], "gpus": 1}
_AT_ONCE = 100_000  # jobs in one submission
PATIENCE_S = 1800.0


class Instance:
    """One home; `with` it, so that its daemon ends."""

    def __init__(self, scratch: Path, *, gpus: str = "", env: dict[str, str] | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="home-", dir=scratch)) / "stoker"
        self.home = Home(str(self.root))
        self.env = {**os.environ, "STOKER_HOME": str(self.root), "SHELL": "/bin/sh", **(env or {})}
        self._gpus = gpus

    def __enter__(self) -> Instance:
        self.start()
        if self._gpus:
            self.call("config_set", name="gpus", value=self._gpus)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the daemon."""
        self.run("daemon", "start")

    def stop(self) -> None:
        """End the daemon, and what it runs."""
        subprocess.run(
            self.words("daemon", "stop", "--kill"),
            env=self.env,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """As by `kill -9`; returns when it is gone."""
        pid = self.pid()
        fd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            while os.path.exists(f"/proc/{pid}") and not _is_zombie(pid):
                time.sleep(0.001)
        finally:
            os.close(fd)

    # ------------------------------------------------------------------ orders

    def words(self, *words: str) -> list[str]:
        """The words of a command line."""
        return [str(BIN / "stoker"), *words]

    def run(self, *words: str, text: str | None = None) -> None:
        """A command line that must succeed."""
        subprocess.run(
            self.words(*words),
            env=self.env,
            input=text,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL if text is None else None,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """One order over the socket."""
        with Client(self.home, autostart=False) as client:
            return client.call(op, **fields)

    def submit(self, jobs: Sequence[dict[str, Any]]) -> list[int]:
        """Queue jobs."""
        ids: list[int] = []
        env = {"PATH": self.env["PATH"], "HOME": "/", "LANG": "C.UTF-8"}
        for at in range(0, len(jobs), _AT_ONCE):
            some = jobs[at : at + _AT_ONCE]
            ids += self.call("submit", jobs=some, cwd="/", env=env, user="bench")["ids"]
        return ids

    def run_all(self, ids: Sequence[int]) -> float:
        """Let the queue go on; the seconds until all of these have ended well."""
        spans = ranges(list(ids))
        with Client(self.home, autostart=False) as client, Client(self.home) as waiting:
            client.connect()
            waiting.connect()
            began = time.perf_counter()
            waiting.send("wait", select={"ids": spans})
            client.call("resume")
            jobs: list[dict[str, Any]] = waiting.receive(PATIENCE_S)["jobs"]
            took = time.perf_counter() - began
        assert len(jobs) == len(ids), f"{len(jobs)} jobs were reported"
        assert all(job["state"] == "succeeded" for job in jobs), "not every job succeeded"
        return took

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        counts: dict[str, int] = self.call("status", limit=1)["counts"]
        return counts

    # ------------------------------------------------------------------ the daemon

    def pid(self) -> int:
        """The daemon's process."""
        return int(self.call("hello")["pid"])

    def turns(self, since: int = 0) -> dict[str, float]:
        """How many turns there were, and how long those took that came after the first so many."""
        count = int(self.call("hello")["turns"]["count"])
        turns: dict[str, float] = self.call("hello", latest=max(1, count - since))["turns"]
        return turns


@contextmanager
def paused(instance: Instance, jobs: Sequence[dict[str, Any]]) -> Iterator[list[int]]:
    """Jobs that are queued, and not started yet."""
    instance.call("pause")
    yield instance.submit(jobs)


def gpu_list(slots: int) -> str:
    """So many declared GPUs."""
    return ",".join(str(number) for number in range(slots))


def cpu_s(pid: int) -> float:
    """The processor time that a process has had, of all its threads, to the microsecond."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            text = Path(f"/proc/{pid}/task/{task}/schedstat").read_text(encoding="ascii")
        except FileNotFoundError:
            continue  # A thread that has just ended.
        total += int(text.split()[0])
    return total / 1e9


def resident_bytes(pid: int) -> int:
    """The memory that a process has now."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory")


def _is_zombie(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return text[text.rindex(")") + 2] in "ZX"
