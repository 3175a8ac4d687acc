"""`stoker daemon run`: a process that stands for the daemon, for systemd to watch.

The daemon itself has a life of its own, as when any other command starts it; this process starts
it, ends when it ends, and asks it to stop when it is itself asked to.
"""

from __future__ import annotations

import os
import select
import signal
import time

from stoker.api.client import Client
from stoker.cli.terminal import say
from stoker.errors import Unreachable

_STOPPERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# How long a daemon that was stopped may take to be back, as it is in `stoker daemon restart`.
_RESTART_S = 3.0
_RESTART_POLL_S = 0.1


def run_daemon() -> int:
    """Start the daemon or find it, and stay until it has ended."""
    from stoker.api.launch import start_daemon

    wake_out, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in)
    for number in _STOPPERS:
        signal.signal(number, lambda number, frame: None)
    start_daemon()
    while True:
        pid = _daemon_pid()
        if pid is not None:
            say(f"stoker: the daemon runs: process {pid}")
            if _stay(pid, wake_out):
                return 0
        if os.path.exists(Client().home.socket):
            # A daemon that is stopped takes its socket away; one that dies leaves it behind.
            say("stoker: the daemon died")
            return 1
        if not _is_back():
            return 0


def _daemon_pid() -> int | None:
    try:
        with Client(autostart=False) as client:
            return int(client.call("hello")["pid"])
    except Unreachable:
        return None


def _stay(pid: int, wake: int) -> bool:
    """Wait for the daemon's end; True if it was us who asked for it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(wake, select.POLLIN)
    asked = False
    try:
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if process in ready:
                return asked
            os.read(wake, 100)
            asked = True
            try:
                with Client(autostart=False) as client:
                    client.call("shutdown", mode="leave")
            except Unreachable:
                pass
    finally:
        os.close(process)


def _is_back() -> bool:
    deadline = time.monotonic() + _RESTART_S
    while time.monotonic() < deadline:
        if _daemon_pid() is not None:
            return True
        time.sleep(_RESTART_POLL_S)
    return False
