"""Starting the daemon in the background, ready before anybody goes on.

The keeper is started, which starts the daemon (see executors.keeper); both are out of the
terminal's reach, in a session of their own, in the root directory, and without the marks of the
job from which they may have been started.
"""

from __future__ import annotations

import fcntl
import os
import sys

from stoker.api.paths import Home, make_private
from stoker.errors import AlreadyRunning, Unreachable, from_wire

_OF_AN_ATTEMPT = ("STOKER_JOB_ID", "STOKER_ATTEMPT", "STOKER_GPUS", "STOKER_ATTEMPT_ID")
READY_WITHIN_S = 60.0


def start_daemon(home: Home | None = None) -> None:
    """Start the daemon if none runs; it answers on its socket when this returns."""
    home = home or Home.from_environment()
    make_private(home.root)
    # Of several commands that find no daemon, one starts it and the others wait for that.
    start_lock = os.open(home.lock + ".start", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(start_lock, fcntl.LOCK_EX)
        while not is_running(home):
            try:
                _start(home)
                return
            except AlreadyRunning:
                # One whose starter was killed, and with it its lock, got ahead of ours.
                continue
    finally:
        os.close(start_lock)


def is_running(home: Home) -> bool:
    """True if a daemon has the lock."""
    try:
        fd = os.open(home.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _answers(home)
    finally:
        os.close(fd)
    return False


def _answers(home: Home) -> bool:
    """A daemon that has the lock is about to listen, or about to end: wait for either."""
    import time

    from stoker.api.client import Client

    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        try:
            with Client(home, autostart=False) as client:
                client.call("hello")
                return True
        except Unreachable:
            pass
        fd = os.open(home.lock, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            time.sleep(0.02)
        finally:
            os.close(fd)
    raise Unreachable("a daemon runs, but does not answer", f"its log is {home.log}")


def _start(home: Home) -> None:
    ready, report = os.pipe()
    os.set_inheritable(report, True)
    log = os.open(home.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    # -P: a file of the user's in this directory must not stand in for a module of ours.
    python = [sys.executable, "-P", "-m"]
    command = [
        *python, "stoker.executors.keeper", home.attempts, os.path.join(home.root, "ledgers"),
        *python, "stoker.daemon.main", str(report),
    ]  # fmt: skip
    env = {k: v for k, v in os.environ.items() if k not in _OF_AN_ATTEMPT}
    env["STOKER_HOME"] = home.root
    package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    others = [os.path.abspath(part) for part in env.get("PYTHONPATH", "").split(":") if part]
    env["PYTHONPATH"] = os.pathsep.join([package_root, *others])
    actions = [
        (os.POSIX_SPAWN_DUP2, nothing, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
    ]
    try:
        pid = os.posix_spawn(command[0], command, env, file_actions=actions, setsid=True)
    finally:
        for fd in (report, log, nothing):
            os.close(fd)
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(ready, 4096)
        if not chunk:
            break
        line += chunk
    os.close(ready)
    os.waitpid(pid, 0)  # It has handed over to the keeper proper.
    _understand(line.decode(errors="replace").strip(), home)


def _understand(line: str, home: Home) -> None:
    if line == "ready":
        return
    code, _, rest = line.partition("\t")
    message, _, hint = rest.partition("\t")
    if message:
        raise from_wire({"code": code, "message": message, "hint": hint})
    raise Unreachable("the daemon could not be started", f"its log is {home.log}")
