"""Making the process of an attempt: in its own session, its output in its log, nothing inherited.

`posix_spawn` (a vfork) costs the same however large the daemon is, and tells what is wrong with a
program. But it lets the daemon stand still until the program is loaded, which on a busy machine is
longer than all else that a start takes. So once it has told that there is nothing wrong with a
program, `_quickspawn` takes its place: that one is C, and not there where no compiler was.
Neither can be told the directory, so the daemon goes there for that moment; all its own paths are
absolute.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from stoker.core.model import Launch
from stoker.executors.attempt_dir import make_folder
from stoker.executors.environment import ENCODING, ERRORS, EncodedEnv, variable
from stoker.executors.processes import ProcessId

try:
    from stoker.executors import _quickspawn

    _COMPILED = True
except ImportError:
    _COMPILED = False

_MOST_CACHED_PROGRAMS = 1000
# What a kernel says, or a sandbox in its place, to a way of making processes that it does not have.
_UNKNOWN_HERE = (errno.EINVAL, errno.EPERM, errno.ENOSYS)
_OUTPUT = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY


class CouldNotStart(Exception):
    """No process was made; the message says why."""


class Made(NamedTuple):
    """A new process. If it is still on its way to its program, `outcome` tells how that went."""

    pid: int
    pidfd: int | None = None  # None: none was opened
    underway: object = None
    process: ProcessId | None = None  # with its start time, if that is known


Streams = tuple[int, int, int]
"""The descriptors of input, output and errors."""

_File = tuple[int, int, int, int]
"""A file as it was: its device, number, size, and when it was last changed."""


def outcome(underway: object) -> int | None:
    """0: the process runs its program, or has; else why it could not; None: not known yet."""
    return _quickspawn.outcome(underway)


class Spawner:
    """Makes processes; remembers where programs are, and which of them can be run."""

    def __init__(self, *, quick: bool = True) -> None:
        self._quick = quick and _COMPILED
        self._proven: set[_File] = set()
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
    ) -> Made:
        """The new process, which leads its own session.

        Its output goes to the log, or to the files that the user named: these are written anew by
        the first attempt, and gone on with by the next.
        """
        with self.place(launch, log, attempt) as streams:
            return self._made(self._program(words[0], launch), words, env, streams)

    @contextmanager
    def place(self, launch: Launch, log: str, attempt: int) -> Iterator[Streams]:
        """Be in the attempt's directory, with its streams open."""
        opened: list[int] = []
        with self._in(launch.cwd):
            try:
                if launch.out is None:
                    out = _open_log(log, opened)
                else:
                    out = _open(launch.out, attempt > 1, opened)
                err = out if launch.err is None else _open(launch.err, attempt > 1, opened)
                yield self._no_input, out, err
            finally:
                for fd in opened:
                    os.close(fd)

    @contextmanager
    def _in(self, cwd: str) -> Iterator[None]:
        try:
            os.chdir(cwd)
        except OSError as error:
            raise CouldNotStart(f"{cwd}: {os.strerror(error.errno or 0)}") from None
        try:
            yield
        finally:
            os.fchdir(self._home)

    def spawn_helper(
        self, words: list[str], env: EncodedEnv, cwd: str, stdin: int, control: int
    ) -> int:
        """A process of the daemon's own, in its session; `control` is its descriptor 3."""
        null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        streams = (stdin, null, null, control)
        try:
            with self._in(cwd):
                return self._posix_spawn(words[0], words, env, streams, setsid=False)
        except OSError as error:
            raise CouldNotStart(f"{words[0]}: {os.strerror(error.errno or 0)}") from None
        finally:
            os.close(null)

    def _made(self, program: str, words: list[str], env: EncodedEnv, streams: Streams) -> Made:
        try:
            # Looked at before it is run: if it is replaced meanwhile, it is another one next time.
            file = _file(program) if self._quick else None
            if file in self._proven:
                quick = self._quickly_made(program, words, env, streams)
                if quick is not None:
                    return quick
            try:
                pid = self._posix_spawn(program, words, env, streams)
                if file is not None:
                    self._remember(file)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # A script without a `#!` line: what a shell would do.
                through_shell = ["/bin/sh", program, *words[1:]]
                pid = self._posix_spawn("/bin/sh", through_shell, env, streams)
            return Made(pid)
        except OSError as error:
            self._programs.clear()
            raise CouldNotStart(f"{words[0]}: {os.strerror(error.errno or 0)}") from None
        except ValueError as error:
            raise CouldNotStart(str(error)) from None

    def _quickly_made(
        self, program: str, words: list[str], env: EncodedEnv, streams: Streams
    ) -> Made | None:
        encoded = [word.encode(ENCODING, ERRORS) for word in words]
        try:
            return Made(*_quickspawn.spawn(os.fsencode(program), encoded, env, streams))
        except OSError as error:
            if error.errno not in _UNKNOWN_HERE:
                raise
            self._quick = False
            return None

    def prove(self, program: str) -> None:
        """Take it that this program can be run."""
        file = _file(program)
        if self._quick and file is not None:
            self._remember(file)

    def _remember(self, file: _File) -> None:
        if len(self._proven) >= _MOST_CACHED_PROGRAMS:
            self._proven.clear()
        self._proven.add(file)

    def _posix_spawn(
        self,
        program: str,
        words: list[str],
        env: EncodedEnv,
        streams: tuple[int, ...],
        *,
        setsid: bool = True,
    ) -> int:
        return os.posix_spawn(
            program,
            words,
            dict(pair.split(b"=", 1) for pair in env),
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)],
            setsid=setsid,
            setsigmask=[],
            setsigdef=self._ignored,
        )

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


def _file(path: str) -> _File | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


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
