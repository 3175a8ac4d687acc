"""Processes of other PID namespaces: containers that share the home, or the daemon in one.

A pid means something in its own namespace only, which the claim of an attempt names with it. What
runs in a namespace below ours has a pid here too. What runs anywhere else is out of our sight: we
can't watch or signal it. Then a lock that it holds, `alive` in the attempt's directory, tells that
it is there, and its client, which reads `stop` in that directory, signals it for us.
"""

from __future__ import annotations

import fcntl
import os
from functools import cache

from stoker.executors.claims import Claimed, read_claim
from stoker.executors.processes import ProcessId, stat_of
from stoker.wholefile import write_whole


@cache
def own_namespace() -> int:
    """The PID namespace of this process, as others of this machine can compare it."""
    return os.stat("/proc/self/ns/pid").st_ino


def located(claim: Claimed) -> ProcessId | None:
    """The process by the pid that it has here; None if it has none, or is gone."""
    if claim.namespace in (None, own_namespace()):
        return claim.process
    for name in os.listdir("/proc"):
        if name.isdecimal() and _is(int(name), claim):
            return ProcessId(int(name), claim.process.start_time)
    return None


def _is(pid: int, claim: Claimed) -> bool:
    try:
        if os.stat(f"/proc/{pid}/ns/pid").st_ino != claim.namespace:
            return False
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            pids = next(line.split()[1:] for line in file if line.startswith("NSpid:"))
    except (OSError, StopIteration):
        return False
    stat = stat_of(pid)
    same_start = stat is not None and stat.id.start_time == claim.process.start_time
    return same_start and pids[-1] == str(claim.process.pid)


def terminal_session(directory: str) -> int:
    """The session of the terminal in which an attempt began; 0 if that means nothing here."""
    claim = read_claim(directory)
    if isinstance(claim, Claimed) and claim.namespace == own_namespace():
        return claim.session
    return 0


def is_alive_elsewhere(directory: str) -> bool:
    """Whether a process that can't be seen from here holds the lock of its attempt."""
    try:
        fd = os.open(f"{directory}/alive", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def ask_client_to_signal(directory: str, number: int) -> None:
    """Let the client of an attempt send this signal to all of its processes."""
    write_whole(f"{directory}/stop", f"{number}\n".encode())
