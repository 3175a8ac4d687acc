"""A process with all of its descendants, as /proc shows them, and signals to them.

A pid alone is never trusted: before a signal is sent, the process is held by a descriptor and its
start time is compared, so that a pid that another process has got since is left alone.
"""

from __future__ import annotations

import os
import signal


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its pid, its name for good."""
    stat = _stat(pid)
    return None if stat is None else stat[2]


def _stat(pid: int) -> tuple[bytes, int, int] | None:
    """The state, parent and start time of a process, fields 3, 4 and 22 of its stat."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The program's name, field 2, is in parentheses and may have spaces and parentheses in it.
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0], int(fields[1]), int(fields[19])


def tree(root: int) -> list[tuple[int, int]]:
    """A process and its descendants that live, as (pid, start time), the process itself first."""
    children: dict[int, list[int]] = {}
    started: dict[int, int] = {}
    for name in os.listdir("/proc"):
        stat = _stat(int(name)) if name.isdigit() else None
        if stat is not None:
            children.setdefault(stat[1], []).append(int(name))
            if stat[0] not in (b"Z", b"X"):
                started[int(name)] = stat[2]
    found, queue = [], [root]
    while queue:
        pid = queue.pop(0)
        if pid in started:
            found.append((pid, started[pid]))
        queue += children.get(pid, [])
    return found


def anything_catches(root: int, number: int) -> bool:
    """True if a process or one of its descendants has a handler for that signal."""
    return any(_catches(pid, number) for pid, _ in tree(root))


def _catches(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            masks = [line.split()[1] for line in file if line.startswith(b"SigCgt:")]
    except OSError:
        return False
    return bool(masks) and bool(int(masks[0], 16) >> (number - 1) & 1)


def signal_tree(root: int, number: int) -> None:
    """Send a signal to a process and its descendants."""
    for pid, started in tree(root):
        _signal_one(pid, started, number)


def kill_tree(root: int) -> None:
    """Kill a process and its descendants, those that are born meanwhile included.

    The root, our own child, is killed last: while it lives no process is orphaned by its death and
    lost from sight. It is stopped first, so that it can't make new ones.
    """
    signal_tree(root, signal.SIGSTOP)
    for _ in range(10):
        descendants = [process for process in tree(root) if process[0] != root]
        for pid, started in descendants:
            _signal_one(pid, started, signal.SIGKILL)
        if not descendants:
            break
    signal_tree(root, signal.SIGKILL)


def _signal_one(pid: int, started: int, number: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if start_time(pid) == started:
            signal.pidfd_send_signal(fd, number)
    except OSError:
        pass
    finally:
        os.close(fd)
