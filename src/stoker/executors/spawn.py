"""Making the process of an attempt: in its own session, its output in its log, nothing inherited.

`posix_spawn` (a vfork) costs the same however large the daemon is. It has no way to say the
directory, so the daemon goes there for that moment; all its own paths are absolute.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from dataclasses import dataclass

from stoker.core.model import Launch
from stoker.executors.attempt_dir import make_folder
from stoker.executors.environment import EncodedEnv

_MOST_CACHED_PROGRAMS = 1000
_OUTPUT = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY


class CouldNotStart(Exception):
    """No process was made; the message says why."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where the attempt's output goes."""

    log: str  # ours, unless `out` is set
    out: str | None = None  # the user's
    err: str | None = None  # the user's; None: with the rest
    append: bool = False


def output_of(launch: Launch, log: str, attempt: int) -> Output:
    """The user's files, or the attempt's log.

    A file that the user names is written anew by the first attempt and gone on with by the next.
    """
    return Output(log, launch.out, launch.err, append=attempt > 1)


class Spawner:
    """Makes processes; remembers where programs are."""

    def __init__(self) -> None:
        self._home = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._no_input = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._programs: dict[tuple[str, str], str] = {}
        # What a process ignores, its children would ignore too: Python itself sees to two of
        # them, and whoever started the daemon may have done so too. Handlers are not inherited.
        self._ignored = [
            number
            for number in signal.valid_signals()
            if signal.getsignal(number) in (signal.SIG_IGN, None)
        ]

    def close(self) -> None:
        """Let the descriptors go."""
        os.close(self._home)
        os.close(self._no_input)

    def spawn(
        self, words: list[str], cwd: str, env: EncodedEnv, search: str | None, output: Output
    ) -> int:
        """The pid of the new process, which leads its own session.

        `search` is where programs are looked for: the PATH of the job.
        """
        try:
            os.chdir(cwd)
        except OSError as error:
            raise CouldNotStart(f"{cwd}: {os.strerror(error.errno or 0)}") from None
        try:
            return self._spawn_here(words, env, search, output)
        finally:
            os.fchdir(self._home)

    def _spawn_here(
        self, words: list[str], env: EncodedEnv, search: str | None, output: Output
    ) -> int:
        opened: list[int] = []
        try:
            if output.out is None:
                out = _open_log(output.log, opened)
            else:
                out = _open(output.out, output.append, opened)
            err = out if output.err is None else _open(output.err, output.append, opened)
            actions = [
                (os.POSIX_SPAWN_DUP2, self._no_input, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, err, 2),
            ]
            program = self._program(words[0], os.defpath if search is None else search)
            return self._posix_spawn(program, words, env, actions)
        finally:
            for fd in opened:
                os.close(fd)

    def _posix_spawn(
        self,
        program: str,
        words: list[str],
        env: EncodedEnv,
        actions: list[tuple[int, int, int]],
    ) -> int:
        try:
            return os.posix_spawn(
                program,
                words,
                env,
                file_actions=actions,
                setsid=True,
                setsigmask=[],
                setsigdef=self._ignored,
            )
        except OSError as error:
            self._programs.clear()
            if error.errno == errno.ENOEXEC:
                # A script without a `#!` line: what a shell would do.
                return self._posix_spawn("/bin/sh", ["/bin/sh", program, *words[1:]], env, actions)
            raise CouldNotStart(f"{words[0]}: {os.strerror(error.errno or 0)}") from None
        except ValueError as error:
            raise CouldNotStart(str(error)) from None

    def _program(self, word: str, search: str) -> str:
        if "/" in word:
            return word
        known = self._programs.get((word, search))
        if known is None:
            known = shutil.which(word, path=search)
            if known is None:
                raise CouldNotStart(f"{word}: command not found")
            if os.path.isabs(known) and len(self._programs) < _MOST_CACHED_PROGRAMS:
                self._programs[word, search] = known
        return known


def _open_log(path: str, opened: list[int]) -> int:
    """Our own log."""
    try:
        try:
            fd = os.open(path, _OUTPUT | os.O_TRUNC, 0o600)
        except FileNotFoundError:
            # The first job in its folder.
            make_folder(os.path.dirname(path))
            fd = os.open(path, _OUTPUT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise CouldNotStart(f"{path}: {os.strerror(error.errno or 0)}") from None
    opened.append(fd)
    return fd


def _open(path: str, append: bool, opened: list[int]) -> int:
    """A file that the user named."""
    try:
        fd = os.open(path, _OUTPUT if append else _OUTPUT | os.O_TRUNC, 0o666)
    except OSError as error:
        raise CouldNotStart(f"{path}: {os.strerror(error.errno or 0)}") from None
    opened.append(fd)
    return fd
