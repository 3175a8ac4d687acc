"""Who is who among the processes of a home: daemon, keeper, page, clients, jobs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from stoker_home import is_running, parent_of

_MODULES = {
    b"stoker.executors.keeper": "keeper",
    b"stoker.daemon.main": "daemon",
    b"stoker.web.main": "page",
}


@dataclass(slots=True)
class Seen:
    """One look at the processes."""

    by_role: dict[str, list[int]] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)  # of daemons: their keepers

    def of(self, role: str) -> list[int]:
        """The pids of one role; `other` are clients, jobs and what belongs to them."""
        return self.by_role.get(role, [])


def look(home: str) -> Seen:
    """Every living process that was started with this home."""
    seen = Seen()
    mark = f"STOKER_HOME={home}".encode()
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        pid = int(name)
        try:
            if mark not in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                continue
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if is_running(pid):
            # The keeper's words name the daemon as well.
            role = next((role for word, role in _MODULES.items() if word in words), "other")
            seen.by_role.setdefault(role, []).append(pid)
    _set_apart_daemons(seen)
    return seen


def _set_apart_daemons(seen: Seen) -> None:
    """A child of a daemon that has not loaded its program yet looks just like it."""
    found = seen.of("daemon")
    for pid in found:
        try:
            seen.parents[pid] = parent_of(pid)
        except OSError:
            seen.parents[pid] = 0
    seen.by_role["daemon"] = [pid for pid in found if seen.parents[pid] not in found]
    for pid in set(found) - set(seen.of("daemon")):
        seen.by_role.setdefault("other", []).append(pid)
        del seen.parents[pid]
