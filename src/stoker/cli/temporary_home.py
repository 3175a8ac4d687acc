"""A home of Stoker's own, with a daemon and a directory to work in, all of it temporary.

Law: whatever is started here is gone, and the directory deleted, when the home is left, however
that comes about.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.errors import Failed
from stoker.text.terminal import has_terminal, out, painted, say, wants_colour

Job = dict[str, Any]

_HOME = "STOKER_HOME"
_LEAST_ROOM_MIB = 64
_PATIENCE_S = 60.0
_LOOK_AGAIN_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asks for an early end."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


class TemporaryHome:
    """Use it as a context."""

    def __init__(self, purpose: str) -> None:
        """`purpose` is a word for what it is used for; the directory has it in its name."""
        self._purpose = purpose
        self._colour = wants_colour()
        self._root = ""
        self._env: dict[str, str] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                signal.signal(number, _interrupt)
        try:
            # A directory that was made, and of which we do not know yet, would be left behind.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            try:
                self._root = _new_directory(self._purpose)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._furnish()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._leave()
        except Interrupted:  # before it took no more signals; there is at most one
            self._leave()
            raise

    @property
    def work(self) -> str:
        """The directory in which commands are typed."""
        return os.path.join(self._root, "work")

    @property
    def _home(self) -> Home:
        return Home(os.path.join(self._root, "home"))

    def _furnish(self) -> None:
        """Make what is in the directory; what a subclass needs beside that, it adds."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("STOKER_")}
        package = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
        others = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
        self._env = {
            **env,
            _HOME: self._home.root,
            "PYTHONPATH": os.pathsep.join([package, *others]),
        }
        os.mkdir(self.work)
        # Defaults of a project that is above, in /tmp say, are not for what is done here.
        with open(os.path.join(self.work, "stoker.toml"), "w", encoding="ascii"):
            pass

    def until(self, fact: Callable[[], bool], words: Callable[[], str]) -> None:
        """Wait until something is true; the words say on a terminal how far it is."""
        if not self.within(_PATIENCE_S, fact, words):
            raise Failed(f"nothing more happens: {words()}", "is the machine very busy?")

    def within(self, seconds: float, fact: Callable[[], bool], words: Callable[[], str]) -> bool:
        """The same, and whether it came true in time."""
        deadline = time.monotonic() + seconds
        shows = has_terminal()
        while not (came_true := fact()) and time.monotonic() < deadline:
            if shows:
                out(f"\r\x1b[K{painted(words(), 'dim', self._colour)}")
                sys.stdout.flush()
            time.sleep(_LOOK_AGAIN_S)
        if shows:
            out("\r\x1b[K")
        return came_true

    # ------------------------------------------------------------------ what is known

    def quietly(self, *words: str) -> None:
        """A command of Stoker's that is not shown."""
        done = self._stoker(list(words), stderr=subprocess.PIPE)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().removeprefix("stoker: ")
            raise Failed(said or f"`stoker {' '.join(words)}` failed")

    def answer(self, verb: str, *words: str) -> dict[str, Any]:
        """What a command of Stoker's says as JSON, without being shown."""
        done = self._stoker([verb, "--json", *words], stdout=subprocess.PIPE)
        if done.returncode != 0:
            raise Failed(f"`stoker {' '.join((verb, *words))}` failed", "see above")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """One request to the daemon."""
        with Client(self._home, autostart=False) as client:
            return client.call(op, **fields)

    def jobs(self) -> list[Job]:
        """All jobs, in the order of their ids."""
        jobs: list[Job] = self.call("list", all=True)["jobs"]
        return sorted(jobs, key=lambda job: int(job["id"]))

    def _stoker(
        self, words: list[str], *, stdout: int | None = None, stderr: int | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-P", "-m", "stoker", *words]
        return subprocess.run(
            command, env=self._env, cwd=self.work, stdin=subprocess.DEVNULL, stdout=stdout,
            stderr=stderr,
        )  # fmt: skip

    # ------------------------------------------------------------------ the end

    def _leave(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if not self._root:
            return
        if os.path.exists(self._home.root):
            # A daemon that is only just starting is waited for, so that it is stopped too; and one
            # that was killed left jobs behind, which the next one ends.
            for verb in (["start"], ["stop", "--kill"]):
                self._stoker(["daemon", *verb], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _PATIENCE_S
        while (left := self._processes()) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(_LOOK_AGAIN_S)
        shutil.rmtree(self._root, ignore_errors=True)
        if os.path.exists(self._root):
            say(f"stoker: {self._root} could not be deleted; delete it yourself")

    def _processes(self) -> list[int]:
        """Every process that was started here: nothing else has this in its environment."""
        marker = f"{_HOME}={self._home.root}".encode()
        found = []
        for name in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if marker in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue
        return found


def _interrupt(number: int, _: FrameType | None) -> None:
    """Turn a signal into an end in good order, which no second one disturbs."""
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


def _new_directory(purpose: str) -> str:
    try:
        root = tempfile.mkdtemp(prefix=f"stoker-{purpose}-")
    except OSError as error:
        raise Failed(f"no temporary directory can be made: {error.strerror}", _ELSEWHERE) from None
    room = os.statvfs(root)
    free_mib = room.f_bavail * room.f_frsize >> 20
    if free_mib < _LEAST_ROOM_MIB:
        os.rmdir(root)
        raise Failed(
            f"{os.path.dirname(root)} has only {free_mib} MiB free, and the {purpose} needs "
            f"{_LEAST_ROOM_MIB} MiB",
            _ELSEWHERE,
        )
    return root


_ELSEWHERE = "set TMPDIR to a directory with room"
