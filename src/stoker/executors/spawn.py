"""Making the process of an attempt: in its own session, its output in its log, nothing inherited.

`posix_spawn` (a vfork) costs the same however large the daemon is. It has no way to say the
directory, so the daemon goes there for that moment; all its own paths are absolute.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal

from stoker.core.model import Launch
from stoker.executors.attempt_dir import make_folder
from stoker.executors.environment import EncodedEnv, variable

_MOST_CACHED_PROGRAMS = 1000
_OUTPUT = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY


class CouldNotStart(Exception):
    """No process was made; the message says why."""


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
        self, words: list[str], env: EncodedEnv, launch: Launch, log: str, attempt: int
    ) -> int:
        """The pid of the new process, which leads its own session.

        Its output goes to the log, or to the files that the user named: these are written anew by
        the first attempt, and gone on with by the next.
        """
        try:
            os.chdir(launch.cwd)
        except OSError as error:
            raise CouldNotStart(f"{launch.cwd}: {os.strerror(error.errno or 0)}") from None
        opened: list[int] = []
        try:
            if launch.out is None:
                out = _open_log(log, opened)
            else:
                out = _open(launch.out, attempt > 1, opened)
            err = out if launch.err is None else _open(launch.err, attempt > 1, opened)
            actions = [
                (os.POSIX_SPAWN_DUP2, self._no_input, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, err, 2),
            ]
            return self._posix_spawn(self._program(words[0], launch), words, env, actions)
        finally:
            for fd in opened:
                os.close(fd)
            os.fchdir(self._home)

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

    def _program(self, word: str, launch: Launch) -> str:
        if "/" in word:
            return word
        search = variable(launch, "PATH")
        if search is None:
            search = os.defpath
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
