"""Processes of other PID namespaces: containers that share the home, or the daemon in one.

A pid means something in its own namespace only, which the acceptance of an attempt names with it.
What runs in a namespace below ours has a pid here too. What runs anywhere else is out of our sight:
we can't watch or signal it. Then a lock that it holds, `alive` in the attempt's directory, tells
that it is there, and its client, which reads `stop` in that directory, signals it for us.
"""

from __future__ import annotations

import os
from functools import cache

from stoker.executors.acceptances import Accepted, read_acceptance
from stoker.executors.processes import ProcessId, stat_of
from stoker.wholefile import write_whole


@cache
def own_namespace() -> int:
    """The PID namespace of this process, as others of this machine can compare it."""
    return os.stat("/proc/self/ns/pid").st_ino


def located(acceptance: Accepted) -> ProcessId | None:
    """The process by the pid that it has here; None if it has none, or is gone."""
    if acceptance.namespace in (None, own_namespace()):
        return acceptance.process
    for name in os.listdir("/proc"):
        if name.isdecimal() and _is(int(name), acceptance):
            return ProcessId(int(name), acceptance.process.start_time)
    return None


def _is(pid: int, acceptance: Accepted) -> bool:
    try:
        if os.stat(f"/proc/{pid}/ns/pid").st_ino != acceptance.namespace:
            return False
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            pids = next(line.split()[1:] for line in file if line.startswith("NSpid:"))
    except (OSError, StopIteration):
        return False
    stat = stat_of(pid)
    same_start = stat is not None and stat.id.start_time == acceptance.process.start_time
    return same_start and pids[-1] == str(acceptance.process.pid)


def terminal_session(directory: str) -> int:
    """The session of the terminal in which an attempt began; 0 if that means nothing here."""
    acceptance = read_acceptance(directory)
    if isinstance(acceptance, Accepted) and acceptance.namespace == own_namespace():
        return acceptance.session
    return 0


def alive_lock(directory: str) -> str:
    """The file that a process which can't be seen from here has locked as long as it lives."""
    return f"{directory}/alive"


def ask_client_to_signal(directory: str, number: int) -> None:
    """Let the client of an attempt send this signal to all of its processes."""
    write_whole(f"{directory}/stop", f"{number}\n".encode())
