"""Where the demo plays: a home, two stand-in GPUs and a directory to work in, all temporary.

Law: whatever is started here is gone, and the directory deleted, when the stage is left, however
that comes about.
"""

from __future__ import annotations

import json
import os
import shlex
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
from stoker.cli.main import BROKEN_PIPE
from stoker.errors import Failed
from stoker.text.terminal import has_terminal, out, painted, say, wants_colour

Job = dict[str, Any]

_GPUS = ("0", "1")
_STAND_INS = "STOKER_STAND_IN_GPUS"
_LEAST_ROOM_MIB = 64
_PATIENCE_S = 60.0
_LOOK_AGAIN_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asks the demo to end."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


class Stage:
    """Use it as a context."""

    def __init__(self, *, pauses: bool) -> None:
        self._pauses = pauses and has_terminal()
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
                self._root = _new_directory()
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
        env = {k: v for k, v in os.environ.items() if not k.startswith("STOKER_")}
        programs = os.path.join(self._root, "bin")
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
        others = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
        self._env = {
            **env,
            "STOKER_HOME": self._home.root,
            _STAND_INS: os.path.join(self._root, "gpus"),
            "PATH": os.pathsep.join([programs, env.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join([package, *others]),
        }
        for gpu in _GPUS:
            os.makedirs(os.path.join(self._env[_STAND_INS], gpu))
        os.mkdir(self.work)
        shutil.copy(os.path.join(os.path.dirname(__file__), "train.py"), self.work)
        # Defaults of a project that is above, in /tmp say, are not for the demo.
        with open(os.path.join(self.work, "stoker.toml"), "w", encoding="ascii"):
            pass
        # A job finds `python`, also where the machine has only a `python3`, or none but this one.
        os.mkdir(programs)
        os.symlink(sys.executable, os.path.join(programs, "python"))

    # ------------------------------------------------------------------ what is shown

    def title(self, text: str) -> None:
        """The head of a scene."""
        out(f"\n{painted(text, 'bold', self._colour)}\n\n")
        self.pause(0.6)

    def tell(self, text: str) -> None:
        """What the demo itself has to say, laid out for 80 columns."""
        out(f"{text}\n")
        sys.stdout.flush()

    def show(self, command: str, *, read_s: float = 1.2) -> None:
        """Print a command as a user would type it, and run it; time to read what it said."""
        self.typed(command)
        words = shlex.split(command.replace("\\\n", " "))
        code = self._stoker(words[1:]).returncode
        if code == BROKEN_PIPE:
            raise BrokenPipeError
        if code != 0:
            raise Failed(f"`{' '.join(words)}` failed with exit code {code}", "see above")
        self.pause(read_s)

    def typed(self, command: str) -> None:
        """Print a command that is about to be run."""
        out(f"{painted('$', 'dim', self._colour)} {painted(command, 'cyan', self._colour)}\n")
        sys.stdout.flush()
        self.pause(0.4)

    def pause(self, seconds: float) -> None:
        """Time to read; in a file, and with --fast, there is none."""
        sys.stdout.flush()
        if self._pauses:
            time.sleep(seconds)

    def until(self, fact: Callable[[], bool], words: Callable[[], str]) -> None:
        """Wait until something is true; the words say on a terminal how far it is."""
        deadline = time.monotonic() + _PATIENCE_S
        shows = has_terminal()
        while not fact():
            if time.monotonic() > deadline:
                raise Failed(f"nothing more happens: {words()}", "is the machine very busy?")
            if shows:
                out(f"\r\x1b[K{painted(words(), 'dim', self._colour)}")
                sys.stdout.flush()
            time.sleep(_LOOK_AGAIN_S)
        if shows:
            out("\r\x1b[K")

    # ------------------------------------------------------------------ what is known

    def quietly(self, *words: str) -> None:
        """A command of Stoker's that is not shown."""
        done = self._stoker(list(words), stderr=subprocess.PIPE)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().removeprefix("stoker: ")
            raise Failed(said or f"`stoker {' '.join(words)}` failed")

    def answer(self, *words: str) -> dict[str, Any]:
        """What a command of Stoker's says as JSON, without being shown."""
        done = self._stoker([*words, "--json"], stdout=subprocess.PIPE)
        if done.returncode != 0:
            raise Failed(f"`stoker {' '.join(words)}` failed", "see above")
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
        marker = f"{_STAND_INS}={self._env[_STAND_INS]}".encode()
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


def _new_directory() -> str:
    try:
        root = tempfile.mkdtemp(prefix="stoker-demo-")
    except OSError as error:
        raise Failed(f"no temporary directory can be made: {error.strerror}", _ELSEWHERE) from None
    room = os.statvfs(root)
    free_mib = room.f_bavail * room.f_frsize >> 20
    if free_mib < _LEAST_ROOM_MIB:
        os.rmdir(root)
        raise Failed(
            f"{os.path.dirname(root)} has only {free_mib} MiB free, and the demo needs "
            f"{_LEAST_ROOM_MIB} MiB",
            _ELSEWHERE,
        )
    return root


_ELSEWHERE = "set TMPDIR to a directory with room"
