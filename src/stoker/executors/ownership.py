"""Whose is a process that a driver names? Told by the process tree and the marker, not by its pid.

What was found out is kept for as long as the process lives, and a little longer: a reading may
name one that has just ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from stoker.executors.environment import MARKER, MPS_MARKER
from stoker.executors.processes import ProcessId, Stat, environ_of, stat_of
from stoker.ports import OURS, VANISHED

_DEEPEST = 100
_REMEMBERED = 10_000


class Ownership:
    """Answers for one daemon."""

    def __init__(self, instance: str) -> None:
        self._job_prefix = f"{MARKER}={instance}:".encode()
        self._mps = f"{MPS_MARKER}={instance}".encode()
        self._known: dict[int, tuple[ProcessId, int]] = {}

    def owners(self, pids: Iterable[int], roots: Mapping[int, int]) -> dict[int, int]:
        """See ports.Executor. `roots` has the job of each attempt's main process."""
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        found = {}
        for pid in pids:
            try:
                owner = self._owner(pid, roots)
            except OSError:
                owner = OURS if pid in self._known else VANISHED  # There is no looking now.
            if owner is not None:
                found[pid] = owner
        return found

    def forget(self, job_id: int) -> None:
        """What a job had is not ours any more, though it goes on: it was adopted."""
        for pid in [pid for pid, (_, owner) in self._known.items() if owner == job_id]:
            del self._known[pid]

    def _owner(self, pid: int, roots: Mapping[int, int]) -> int | None:
        stat = stat_of(pid)
        known = self._known.get(pid)
        if stat is None:
            return OURS if known is not None else VANISHED
        # One that is of no job may become a job's: see `warm_servers`.
        if known is not None and known[0] == stat.id and known[1] != OURS:
            return known[1]
        owner = self._by_tree(stat, roots)
        if owner is None:
            owner = self._by_marker(pid)
        if owner is None:
            self._known.pop(pid, None)
        else:
            self._known[pid] = (stat.id, owner)
        return owner

    def _by_tree(self, stat: Stat, roots: Mapping[int, int]) -> int | None:
        at: Stat | None = stat
        for _ in range(_DEEPEST):
            if at is None:
                return None
            if at.id.pid in roots:
                return roots[at.id.pid]
            if at.session in roots:
                return roots[at.session]
            if at.parent <= 1 or at.parent == os.getpid():
                return None
            at = stat_of(at.parent)
        return None

    def _by_marker(self, pid: int) -> int | None:
        for word in environ_of(pid):
            if word.startswith(self._job_prefix):
                job_id = word[len(self._job_prefix) :].partition(b".")[0]
                return int(job_id) if job_id.isdigit() else OURS  # a warm server's
            if word == self._mps:
                return OURS
        return None
