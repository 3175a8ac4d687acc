"""Warm servers and their idle copies as the tests see them: by what /proc shows."""

from __future__ import annotations

from stoker.executors.processes import Stat, stat_of
from stoker_home import processes_with


def servers_and_copies(daemon: int, *told: int) -> list[int]:
    """Those that are nobody's attempt, by age: a warm server comes before its idle copies.

    Processes that were told just now may not bear the marker of their attempts yet.
    """
    pids = set(processes_with(b"STOKER_ATTEMPT_ID=", prefix=True)) - set(told)
    stats = [stat_of(pid) for pid in pids]
    found = [stat for stat in stats if stat is not None and _waits(stat, daemon)]
    return [stat.id.pid for stat in sorted(found, key=lambda one: (one.id.start_time, one.id.pid))]


def _waits(stat: Stat, daemon: int) -> bool:
    return (
        stat.parent == daemon and stat.state not in "ZX" and b":warm_server" in _marker(stat.id.pid)
    )


def _marker(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = [one for one in file.read().split(b"\0") if one.startswith(b"STOKER_ATTEMPT")]
    except OSError:
        return b""
    return next((one for one in found if b"_ID=" in one), b"")
