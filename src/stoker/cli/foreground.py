"""`stoker daemon run`: a process that stands for the daemon, for systemd to watch.

The daemon itself has a life of its own, as when any other command starts it; this process starts
it, ends when it ends, and asks it to stop when it is itself asked to.

As the first process of a container it may not end so lightly, since all others would end with it. A
daemon that died is started again there, and one that was stopped is waited for until nothing
runs any more. It also reaps what is left to it, as a first process must.
"""

from __future__ import annotations

import os
import select
import signal
import time

from stoker.api.client import Client
from stoker.errors import Failed, StokerError, Unreachable
from stoker.text.terminal import say

_STOPPERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# How long a daemon that was stopped may take to be back, as it is in `stoker daemon restart`.
_RESTART_S = 3.0
_RESTART_POLL_S = 0.1
_AGAIN_S = 1.0
_AGAIN_AT_MOST_S = 60.0


def run_daemon() -> int:
    """Start the daemon, and stay until it has ended; refused if there is one already."""
    from stoker.api.launch import start_daemon

    wake_out, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    os.set_blocking(wake_out, False)
    signal.set_wakeup_fd(wake_in)
    is_first = os.getpid() == 1
    for number in (*_STOPPERS, *([signal.SIGCHLD] if is_first else [])):
        signal.signal(number, lambda number, frame: None)
    watch = Watch(wake_out, is_first)
    other = None if is_first else _daemon_pid()
    if other is not None:
        # To stand for a daemon that was started by another is to stop that one when told to stop.
        raise Failed(
            f"a daemon runs already: process {other}", "`stoker daemon stop` stops it; jobs go on"
        )
    start_daemon()
    while True:
        pid = _daemon_pid()
        if pid is not None:
            say(f"stoker: the daemon is running: process {pid}")
            if watch.until_gone(pid):
                return 0
        if os.path.exists(Client().home.socket):
            # A daemon that is stopped takes its socket away; one that dies leaves it behind.
            say("stoker: the daemon died")
            if not is_first:
                return 1
            if not watch.start_again():
                return 0
        elif is_first:
            if not watch.until_back():
                return 0
        elif not _is_back():
            return 0


def _daemon_pid() -> int | None:
    try:
        with Client(autostart=False, any_version=True) as client:
            return int(client.call("hello")["pid"])
    except Unreachable:
        return None


class Watch:
    """Waits for the daemon, for signals, and (as the first process) for all that end."""

    def __init__(self, wake: int, is_first: bool) -> None:
        self._wake = wake
        self._is_first = is_first
        self._died_at_s = -_AGAIN_AT_MOST_S
        self._again_s = _AGAIN_S

    def until_gone(self, pid: int) -> bool:
        """Wait for the daemon's end; True if it was us who asked for it."""
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        asked = False
        try:
            while True:
                if self._waits_for(process, None):
                    return asked
                if self._is_asked_to_stop():
                    asked = True
                    _ask_to_stop()
        finally:
            os.close(process)

    def start_again(self) -> bool:
        """Start a daemon in the place of one that died; False if we are asked to stop meanwhile.

        One that dies again and again is given more and more time.
        """
        from stoker.api.launch import start_daemon

        now_s = time.monotonic()
        again_soon = now_s - self._died_at_s < _AGAIN_AT_MOST_S
        self._again_s = min(self._again_s * 2, _AGAIN_AT_MOST_S) if again_soon else 0.0
        self._died_at_s = now_s
        while True:
            if self._is_asked_to_stop(self._again_s):
                return False
            try:
                start_daemon()
                return True
            except (StokerError, OSError) as error:
                say(f"stoker: {error}")
                self._again_s = min(max(self._again_s, _AGAIN_S) * 2, _AGAIN_AT_MOST_S)

    def until_back(self) -> bool:
        """The daemon was stopped: wait for the next, or until nothing else is left."""
        while not self._is_asked_to_stop(_AGAIN_S):
            if _daemon_pid() is not None:
                return True
            if not _reap():
                return False
        return False

    def _is_asked_to_stop(self, within_s: float = 0.0) -> bool:
        """True once a signal has come that asks for the end."""
        deadline_s = time.monotonic() + within_s
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            self._waits_for(-1, left_s)
            try:
                numbers = os.read(self._wake, 1000)
            except BlockingIOError:
                numbers = b""
            if any(number in _STOPPERS for number in numbers):
                return True
            if left_s == 0.0:
                return False

    def _waits_for(self, process: int, timeout_s: float | None) -> bool:
        """True if that process has ended; else a signal has come, or the time has passed."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if process >= 0:
            poll.register(process, select.POLLIN)
        ready = poll.poll(None if timeout_s is None else timeout_s * 1000)
        if self._is_first:
            _reap()
        return process >= 0 and any(fd == process for fd, _ in ready)


def _reap() -> bool:
    """Let go of the children that have ended; False if there are none at all."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _ask_to_stop() -> None:
    try:
        with Client(autostart=False, any_version=True) as client:
            client.call("shutdown", mode="leave")
    except Unreachable:
        pass


def _is_back() -> bool:
    deadline = time.monotonic() + _RESTART_S
    while time.monotonic() < deadline:
        if _daemon_pid() is not None:
            return True
        time.sleep(_RESTART_POLL_S)
    return False
