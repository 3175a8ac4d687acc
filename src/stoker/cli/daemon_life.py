"""Asking whether there is a daemon, and ending it; for the verbs that do so."""

from __future__ import annotations

import os

from stoker.api.client import Client
from stoker.api.holder import NotAnswering, holder
from stoker.cli.options import Json
from stoker.errors import Unreachable
from stoker.text.terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_DRAIN_POLL_MS = 1000
_LOCK_POLL_S = 0.02


def hello_of_daemon() -> Json | None:
    """What the daemon says of itself; None if there is none. It is never started for this."""
    try:
        with Client(autostart=False, any_version=True) as client:
            return client.call("hello")
    except NotAnswering:
        raise
    except Unreachable:
        return None


def jobs_continue(count: int) -> str:
    """In words: so many jobs were left running."""
    return "1 job continues" if count == 1 else f"{count} jobs continue"


def stop_daemon(mode: str) -> int:
    """Tell the daemon to stop and wait until it is gone; how many jobs it left running."""
    try:
        with Client(autostart=False, any_version=True) as client:
            client.connect()
            has_gone = _watched(client)
            left = _running(client) if mode == "leave" else 0
            client.call("shutdown", mode=mode)
            told = -1
            while not has_gone(_DRAIN_POLL_MS):
                told = _tell_drain(client, told) if mode == "drain" else told
        return left
    except KeyboardInterrupt:
        if mode == "drain":
            say("stoker: the daemon keeps draining; it stops after its last job")
        raise


def _watched(client: Client) -> Callable[[int], bool]:
    """Waits up to so many ms for the daemon at the other end to go; whether it has."""
    import select
    import time

    pid = client.peer_pid()
    if pid:
        poll = select.poll()
        try:
            poll.register(os.pidfd_open(pid), select.POLLIN)  # It is open until this command ends.
        except ProcessLookupError:
            return lambda ms: True
        return lambda ms: bool(poll.poll(ms))
    # It is in another PID namespace, where its pid means nothing to us. Its lock crosses that.
    lock = holder(client.home)

    def has_gone(ms: int) -> bool:
        deadline = time.monotonic() + ms / 1000
        while lock is not None and holder(client.home) == lock:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOCK_POLL_S)
        return True

    return has_gone


def _running(client: Client) -> int:
    counts = client.call("status", limit=1)["counts"]
    return sum(int(counts.get(state, 0)) for state in ("submitted", "running", "stopping"))


def _tell_drain(client: Client, told: int) -> int:
    try:
        running = _running(client)
    except Unreachable:
        return told  # It is going.
    if running != told:
        say(f"draining: {running} " + ("job still runs" if running == 1 else "jobs still run"))
    return running
