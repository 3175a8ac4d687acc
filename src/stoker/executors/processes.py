"""Processes of this machine as /proc tells: who they are, who belongs to an attempt, signals.

A pid alone is never trusted: with its start time it names one process of this boot for good.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

# No descriptor or memory is left to look with, so that nothing is known of any process.
CANT_LOOK = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
K = TypeVar("K")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class ProcessId(NamedTuple):
    """One process, told apart from any other that ever had its pid since the machine started."""

    pid: int
    start_time: int  # clock ticks since boot, field 22 of /proc/PID/stat


@dataclass(frozen=True, slots=True)
class Stat:
    """What is needed of /proc/PID/stat."""

    id: ProcessId
    state: str
    parent: int
    group: int
    session: int


class Impossible(RuntimeError):
    """What the kernel promises of our own children did not hold: a bug, and no guess is right."""


def ticks_since_boot() -> int:
    """The present moment in the unit of start times."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // _TICK_NS


def identify_child(pid: int, ticks_before: int) -> ProcessId:
    """Our own new child by pid and start time; `ticks_before` is a moment before it was made.

    Start times count ticks of 10 ms, so mostly both ends of its making are in the same one, and
    /proc, which makes us wait until its program is loaded, need not be asked.
    """
    if ticks_since_boot() == ticks_before:
        return ProcessId(pid, ticks_before)
    stat = stat_of(pid)
    if stat is None:
        raise Impossible(f"our own child {pid} is gone, though nothing has reaped it")
    return stat.id


def stat_of(pid: int) -> Stat | None:
    """The process with that pid, if there is one; raises OSError if that can't be told now."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in CANT_LOOK:
            raise
        return None
    # The name, in parentheses, may itself contain spaces and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    start_time = int(fields[19])
    return Stat(
        ProcessId(pid, start_time),
        fields[0].decode("ascii"),
        int(fields[1]),
        int(fields[2]),
        int(fields[3]),
    )


def this_process() -> ProcessId:
    """Who we are."""
    stat = stat_of(os.getpid())
    assert stat is not None
    return stat.id


def is_alive(process: ProcessId) -> bool:
    """True if that very process exists, be it as a zombie that its parent has yet to look at.

    A zombie that was left to process 1 is gone: nothing will tell how it ended, and in a container
    without an init nothing will ever reap it.
    """
    found = stat_of(process.pid)
    if found is None or found.id != process:
        return False
    return not (found.state in "ZX" and found.parent == 1)


def all_stats() -> dict[int, Stat]:
    """Every process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            stat = stat_of(int(name))
            if stat is not None:
                found[stat.id.pid] = stat
    return found


def environ_of(pid: int) -> list[bytes]:
    """Every `NAME=value` that the process was started with; none if it is gone.

    Like `stat_of` it raises where it can't look: that a process is not there is never a guess.
    """
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in CANT_LOOK:
            raise
        return []
    try:
        chunks = []
        while chunk := os.read(fd, 1 << 16):
            chunks.append(chunk)
    except OSError:
        return []
    finally:
        os.close(fd)
    return b"".join(chunks).split(b"\0")


def has_marker(pid: int, marker: bytes) -> bool:
    """True if the process was started with that `NAME=value` in its environment."""
    return marker in environ_of(pid)


def with_descendants(keys: Mapping[int, K], stats: Mapping[int, Stat]) -> dict[int, K]:
    """To these processes, each with its key, all that they have started; the parents first.

    What has a key of its own keeps it, whatever its parents have.
    """
    children: dict[int, list[int]] = {}
    for stat in stats.values():
        children.setdefault(stat.parent, []).append(stat.id.pid)
    found = {pid: key for pid, key in keys.items() if pid in stats}
    waiting = list(found)
    for pid in waiting:
        for child in children.get(pid, ()):
            if child not in found:
                found[child] = found[pid]
                waiting.append(child)
    return found


def not_ours() -> frozenset[int]:
    """The pids of processes that are of no attempt, whatever they look like."""
    return frozenset((0, 1, os.getpid(), os.getppid()))


def members(marker: bytes, roots: Iterable[int], session: int | None) -> list[ProcessId]:
    """The living processes of an attempt.

    Those that have its marker in their environment, those in its session, and all descendants of
    any of these: a process can leave one of these sets, hardly all of them.
    """
    stats = all_stats()
    mine = set(roots)
    for stat in stats.values():
        if (session is not None and stat.session == session) or has_marker(stat.id.pid, marker):
            mine.add(stat.id.pid)
    found = with_descendants(dict.fromkeys(mine), stats).keys() - not_ours()
    return [stats[pid].id for pid in sorted(found) if stats[pid].state not in "ZX"]


def topmost(processes: Sequence[ProcessId]) -> list[ProcessId]:
    """Those of them that descend from none of the others."""
    stats = all_stats()
    pids = {process.pid for process in processes}
    return [one for one in processes if pids.isdisjoint(_ancestors(one.pid, stats))]


def _ancestors(pid: int, stats: Mapping[int, Stat]) -> set[int]:
    found: set[int] = set()
    while pid in stats and (pid := stats[pid].parent) not in found:
        found.add(pid)
    return found


def group_exists(pid: int) -> bool:
    """True if a process is left in the group that the reaped one with this pid led."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def catches(process: ProcessId, number: int) -> bool:
    """True if the process has a handler for that signal."""
    try:
        with open(f"/proc/{process.pid}/status", encoding="utf-8", errors="replace") as file:
            masks = [line.split()[1] for line in file if line.startswith("SigCgt:")]
    except OSError:
        return False
    return bool(masks) and bool(int(masks[0], 16) >> (number - 1) & 1)


def send(process: ProcessId, number: int) -> bool:
    """Signal that very process; False if it is gone."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno in CANT_LOOK:
            raise
        return False
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def children_of_this_process() -> list[int] | None:
    """The pids of all our children, zombies too; None where the kernel does not tell."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return None
