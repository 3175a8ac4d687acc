"""Starting the daemon in the background, ready before its client goes on.

The keeper is started, which starts the daemon (see executors.keeper); both are out of the
terminal's reach, in a session of their own, in the root directory, and without the marks of the
job from which they may have been started.
"""

from __future__ import annotations

import fcntl
import os

from stoker import command_lines
from stoker.api.holder import holder, is_stopped, no_locks, put_down, trouble, written_pid
from stoker.api.localstate import prepare
from stoker.api.paths import Home
from stoker.errors import AlreadyRunning, Unavailable, Unreachable, from_wire

_OF_AN_ATTEMPT = (
    "STOKER_JOB_ID", "STOKER_ATTEMPT", "STOKER_GPUS", "STOKER_ATTEMPT_ID", "STOKER_METRICS",
)  # fmt: skip
READY_WITHIN_S = 60.0
_MOST_DEATHS = 3  # of daemons that are killed while they start, for which another one is started


class DiedAtStart(Unreachable):
    """It ended before it was ready, without a word."""


def start_daemon(home: Home | None = None, *, starts_nothing: bool = False) -> None:
    """Start the daemon if none runs; it answers on its socket when this returns.

    With `starts_nothing` it only looks after jobs that run already, and leaves the queue alone.
    """
    from stoker.api.claim import check

    home = home or Home.from_environment()
    try:
        prepare(home)
        check(home)
        _start_if_none_runs(home, starts_nothing)
    except Unavailable as error:
        # To clients, what is not available is a daemon that was stopped on purpose.
        raise Unreachable(error.message, error.hint) from None
    except OSError as error:
        # No room for a file, no more processes, too many open files: all of it may pass.
        raise Unreachable(
            f"the daemon can't be started: {error.strerror}", f"its log is {home.log}"
        ) from None


def _start_if_none_runs(home: Home, starts_nothing: bool) -> None:
    deaths = 0
    # Of several commands that find no daemon, one starts it and the others wait for that.
    start_lock = _start_lock(home)
    try:
        while not is_running(home):
            try:
                _start(home, starts_nothing)
                return
            except AlreadyRunning:
                # One whose starter was killed, and with it its lock, got ahead of ours.
                continue
            except DiedAtStart:
                deaths += 1
                if deaths == _MOST_DEATHS:
                    raise
    finally:
        os.close(start_lock)


def _start_lock(home: Home) -> int:
    """The lock of the one command that starts a daemon.

    One that was stopped while it has the lock, by Ctrl-Z say, would keep all others waiting: its
    file is put aside, and the lock is that of a new one. At worst two start a daemon, which have a
    lock of their own.
    """
    import time

    path = home.lock + ".start"
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        while time.monotonic() < deadline and _is_at(fd, path):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if is_stopped(written_pid(fd), b"stoker"):
                    os.unlink(path)
                time.sleep(0.02)
            except OSError as error:
                os.close(fd)
                raise no_locks(home.root, error) from None
            else:
                put_down(fd)
                return fd
        os.close(fd)
    raise Unreachable("another command is starting the daemon and does not finish", "try again")


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def is_running(home: Home) -> bool:
    """True if a daemon has the lock."""
    return holder(home) is not None and _answers(home)


def _answers(home: Home) -> bool:
    """A daemon that has the lock is about to listen, or about to end: wait for either."""
    import time

    from stoker.api.claim import check
    from stoker.api.client import Client

    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        try:
            with Client(home, autostart=False, any_version=True) as client:
                client.call("hello")
                return True
        except Unreachable:
            pass
        pid = holder(home)
        if pid is None:
            return False
        check(home)  # It may be on another machine, where it can't be reached from here.
        if is_stopped(pid):
            raise trouble(pid, home)
        time.sleep(0.02)
    raise trouble(holder(home) or 0, home)


def _start(home: Home, starts_nothing: bool) -> None:
    ready, report = os.pipe()
    try:
        try:
            pid = _spawned(home, report, starts_nothing)
        finally:
            os.close(report)
        line = b""
        while not line.endswith(b"\n"):
            chunk = os.read(ready, 4096)
            if not chunk:
                break
            line += chunk
    finally:
        os.close(ready)
    os.waitpid(pid, 0)  # It has handed over to the keeper proper.
    _understand(line.decode(errors="replace").strip(), home)


def _spawned(home: Home, report: int, starts_nothing: bool) -> int:
    """The pid of a new keeper, whose daemon says on `report` that it is ready."""
    os.set_inheritable(report, True)
    ledgers = os.path.join(home.root, "ledgers")
    command = command_lines.keeper(home.attempts, ledgers, report, starts_nothing=starts_nothing)
    env = {k: v for k, v in os.environ.items() if k not in _OF_AN_ATTEMPT}
    env["STOKER_HOME"] = home.root
    package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    others = [os.path.abspath(part) for part in env.get("PYTHONPATH", "").split(":") if part]
    env["PYTHONPATH"] = os.pathsep.join([package_root, *others])
    log = os.open(home.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    actions = [
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
    ]
    # The daemon would keep what the command was given: the lock of a cron job, the end of a pipe.
    given = {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, report}
    actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in given]
    try:
        return os.posix_spawn(command[0], command, env, file_actions=actions, setsid=True)
    finally:
        os.close(log)


def _understand(line: str, home: Home) -> None:
    if line == "ready":
        return
    code, _, rest = line.partition("\t")
    message, _, hint = rest.partition("\t")
    if message:
        raise from_wire({"code": code, "message": message, "hint": hint})
    raise DiedAtStart("the daemon could not be started", f"its log is {home.log}")
