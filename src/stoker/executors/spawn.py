"""Making the process of an attempt: in its own session, its output in its log, nothing inherited.

A vfork costs the same however large the daemon is, and tells what is wrong with a program. But it
lets the daemon stand still until the program is loaded, which on a busy machine is longer than all
else that a start takes. So once it is known that there is nothing wrong with a program, it is not
waited for. `_quickspawn` does both, and lets the process write into the ledger who it is; it is C,
and not there where no compiler was. `posix_spawn`, which always waits, takes its place there.
Neither can be told the directory, so the daemon goes there for that moment; all its own paths are
absolute. In the same way it has the submitter's umask for that moment, in which it makes no file of
its own.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
from functools import partial
from typing import NamedTuple

from stoker import output_files
from stoker.core.model import Launch
from stoker.executors import file_limit
from stoker.executors.attempt_dir import make_folder
from stoker.executors.environment import ENCODING, ERRORS, EncodedEnv, variable
from stoker.executors.processes import ProcessId, identify_child
from stoker.executors.shortage import CouldNotStart, could_not

try:
    from stoker.executors import _quickspawn

    _COMPILED = True
except ImportError:
    _COMPILED = False

_MOST_CACHED_PROGRAMS = 1000
# What a kernel says, or a sandbox in its place, to a way of making processes that it does not have.
_UNKNOWN_HERE = (errno.EINVAL, errno.EPERM, errno.ENOSYS)
_OUTPUT = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY


class Made(NamedTuple):
    """A new process. If it is still on its way to its program, `outcome` tells how that went."""

    pid: int
    pidfd: int | None = None  # None: none was opened
    underway: object = None
    process: ProcessId | None = None  # with its start time, if that is known


Streams = tuple[int, int, int]
"""The descriptors of input, output and errors."""

Note = tuple[int, bytes]
"""Where a new process writes who it is, and the beginning of that line."""

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
        self._reserve = os.dup(self._no_input)
        self._programs: dict[tuple[str, str], str] = {}
        # What a process ignores, its children would ignore too: Python itself sees to two of
        # them, and what started the daemon may have done so too. Handlers are not inherited.
        self._ignored = [
            number
            for number in signal.valid_signals()
            if signal.getsignal(number) in (signal.SIG_IGN, None)
        ]

    def close(self) -> None:
        """Let the descriptors go."""
        for fd in (self._home, self._no_input, self._reserve):
            if fd >= 0:
                os.close(fd)
        self._reserve = -1

    def spawn(
        self,
        words: list[str],
        env: EncodedEnv,
        launch: Launch,
        log: str,
        attempt: int,
        note: Note | None = None,
    ) -> Made:
        """The new process, which leads its own session.

        Its output goes to the log, or to the files that the user named: what is in these stays,
        unless the job says otherwise, and the attempt is its first.
        """
        if self._reserve < 0:
            self._keep_reserve()
        with self.place(launch, log, attempt) as streams:
            return self._made(self._program(words[0], launch), words, env, streams, note)

    def known(self, made: Made, ticks_before: int) -> tuple[ProcessId, int]:
        """A new process by its start time and a pidfd; raises if it had to be ended at once.

        The process is there, so it must be watched although no descriptor may be left: one is kept
        in reserve for that. Without it no further process is made.
        """
        for _ in range(2):
            try:
                process = made.process or identify_child(made.pid, ticks_before)
                pidfd = os.pidfd_open(made.pid) if made.pidfd is None else made.pidfd
                return process, pidfd
            except OSError as error:
                failed = error
                self._give_reserve()
        # Other threads were quicker. What can't be watched is not let run.
        try:
            os.killpg(made.pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(made.pid, signal.SIGKILL)
        os.waitpid(made.pid, 0)
        if made.pidfd is not None:
            os.close(made.pidfd)
        raise could_not(failed, str(made.pid))

    def _give_reserve(self) -> None:
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _keep_reserve(self) -> None:
        try:
            self._reserve = os.dup(self._no_input)
        except OSError as error:
            raise could_not(error, "/dev/null") from None

    def place(self, launch: Launch, log: str, attempt: int) -> _Place:
        """Be in the attempt's directory, with its streams open and its umask set."""
        return _Place(self._home, self._no_input, launch, log, attempt)

    def spawn_helper(
        self,
        words: list[str],
        env: EncodedEnv,
        cwd: str,
        stdin: int,
        control: int,
        umask: int | None = None,
    ) -> int:
        """A process of the daemon's own, in its session; `control` is its descriptor 3."""
        null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        streams = (stdin, null, null, control)
        try:
            with _Within(self._home, cwd, umask):
                return self._posix_spawn(words[0], words, env, streams, setsid=False)
        except OSError as error:
            raise could_not(error, words[0], own=True) from None
        finally:
            os.close(null)

    def _made(
        self, program: str, words: list[str], env: EncodedEnv, streams: Streams, note: Note | None
    ) -> Made:
        try:
            # Looked at before it is run: if it is replaced meanwhile, it is another one next time.
            file = _file(program) if self._quick else None
            if file in self._proven:
                return self._start(program, words, env, streams, note, wait=False)
            try:
                made = self._start(program, words, env, streams, note)
                if file is not None:
                    self._remember(file)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # A script without a `#!` line: what a shell would do.
                through_shell = ["/bin/sh", program, *words[1:]]
                made = self._start("/bin/sh", through_shell, env, streams, note)
            return made
        except OSError as error:
            self._programs.clear()
            raise could_not(error, words[0], own=True) from None
        except ValueError as error:
            raise CouldNotStart(str(error)) from None

    def _start(
        self,
        program: str,
        words: list[str],
        env: EncodedEnv,
        streams: Streams,
        note: Note | None,
        *,
        wait: bool = True,
    ) -> Made:
        """A process for a program; if we wait, OSError tells what is wrong with that."""
        quick = self._quickly_made(program, words, env, streams, note, wait)
        if quick is None:
            return Made(self._posix_spawn(program, words, env, streams))
        if not wait:
            return quick
        assert quick.pidfd is not None
        wrong = outcome(quick.underway)
        if wrong:
            os.close(quick.pidfd)
            os.waitpid(quick.pid, 0)
            raise OSError(wrong, os.strerror(wrong), program)
        return Made(quick.pid, quick.pidfd)

    def _quickly_made(
        self,
        program: str,
        words: list[str],
        env: EncodedEnv,
        streams: Streams,
        note: Note | None,
        wait: bool,
    ) -> Made | None:
        """None: that can't be done here."""
        if not self._quick:
            return None
        encoded = [word.encode(ENCODING, ERRORS) for word in words]
        path, files = os.fsencode(program), file_limit.for_jobs()
        try:
            return Made(*_quickspawn.spawn(path, encoded, env, streams, files, note, wait))
        except OSError as error:
            if error.errno not in _UNKNOWN_HERE:
                raise
            self._quick = False
            return None

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
        make = partial(
            os.posix_spawn,
            program,
            words,
            dict(pair.split(b"=", 1) for pair in env),
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(streams)],
            setsid=setsid,
            setsigmask=[],
            setsigdef=self._ignored,
        )
        return file_limit.spawned(make, streams)

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


class _Within:
    """In a directory, and with a umask if there is one, for a moment.

    Each job enters one, and a class costs a third of what a generator does.
    """

    __slots__ = ("_cwd", "_home", "_ours", "_umask")

    def __init__(self, home: int, cwd: str, umask: int | None) -> None:
        self._home = home  # the directory to return to
        self._cwd = cwd
        self._umask = umask
        self._ours: int | None = None

    def __enter__(self) -> None:
        try:
            os.chdir(self._cwd)
        except OSError as error:
            raise could_not(error, self._cwd, own=True) from None
        if self._umask is not None:
            self._ours = os.umask(self._umask)

    def __exit__(self, *_: object) -> None:
        if self._ours is not None:
            os.umask(self._ours)
        os.fchdir(self._home)


class _Place:
    """The surroundings in which the process of an attempt is made: see `Spawner.place`."""

    __slots__ = ("_attempt", "_launch", "_log", "_no_input", "_opened", "_within")

    def __init__(self, home: int, no_input: int, launch: Launch, log: str, attempt: int) -> None:
        self._within = _Within(home, launch.cwd, launch.umask)
        self._no_input = no_input
        self._launch = launch
        self._log = log
        self._attempt = attempt
        self._opened: list[int] = []

    def __enter__(self) -> Streams:
        launch, attempt = self._launch, self._attempt
        try:
            out = -1 if launch.out is not None else _open_log(self._log, self._opened)
            self._within.__enter__()
        except BaseException:
            self._close()
            raise
        try:
            if launch.out is not None:
                out = _open(launch.out, launch.appends(attempt), self._opened)
            err = out
            if launch.err is not None:
                err = _open(launch.err, launch.appends(attempt), self._opened)
        except BaseException:
            self.__exit__()
            raise
        return self._no_input, out, err

    def __exit__(self, *_: object) -> None:
        self._within.__exit__()
        self._close()

    def _close(self) -> None:
        for fd in self._opened:
            os.close(fd)


def with_files(launch: Launch, job_id: int, attempt: int) -> Launch:
    """The launch with the output files of this attempt, whose directories are made if need be."""
    named = named_files(launch, job_id, attempt)
    if named.out is not None and named.out != launch.out:
        _make_directory(os.path.dirname(named.out), launch.umask)
    if named.err is not None and named.err != launch.err:
        _make_directory(os.path.dirname(named.err), launch.umask)
    return named


def named_files(launch: Launch, job_id: int, attempt: int) -> Launch:
    """The launch with the output files of this attempt."""
    out, err = (
        path and output_files.filled(path, job_id, launch.name, attempt)
        for path in (launch.out, launch.err)
    )
    return launch._replace(out=out, err=err)


def _make_directory(path: str, umask: int | None) -> None:
    ours = None if umask is None else os.umask(umask)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise could_not(error, path, own=True) from None
    finally:
        if ours is not None:
            os.umask(ours)


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
        raise could_not(error, path) from None
    opened.append(fd)
    return fd


def _open(path: str, append: bool, opened: list[int]) -> int:
    """A file that the user named. It may be a pipe by now, which would block the daemon."""
    flags = _OUTPUT | os.O_NONBLOCK
    try:
        fd = os.open(path, flags if append else flags | os.O_TRUNC, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise CouldNotStart(f"{path} is a pipe or socket") from None
        raise could_not(error, path, own=True) from None
    opened.append(fd)
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise CouldNotStart(f"{path} is neither a file nor a terminal")
    os.set_blocking(fd, True)
    return fd
