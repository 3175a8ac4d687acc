"""A cgroup for each attempt that runs a while: what it starts can't leave that without a right to.

Only version 2, and only below the daemon's own cgroup, where its user may make some; else there
are none (`NoCgroups`). To enter one takes longer than a short job does, so an attempt gets its own
only when it has run for a second.

A process is taken from the daemon's own cgroup, or from an attempt's, and from no other: limits may
hang on one that its terminal or the job itself has put it into.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from stoker.executors.environment import MARKER, marker
from stoker.executors.processes import (
    CANT_LOOK,
    ProcessId,
    Stat,
    all_stats,
    environ_of,
    not_ours,
    stat_of,
    with_descendants,
)

if TYPE_CHECKING:  # The keeper, which is to stay small, needs this module too.
    from stoker.executors.ledger import Key
    from stoker.executors.running import Running

_PREFIX = "stoker-"
_AFTER_MS = 1_000
_TOGETHER_MS = 500  # All whose time comes within that share one look at the processes.
_AT_ONCE = 100  # The loop has other things to do, too.
_LOOKS = 2  # A process may be made between a look and the entry of its parent.
_REMOVE_AGAIN_MS = 1_000
_REMOVE_LATER_MS = 60_000


class NoCgroups:
    """Where none can be made: nothing is done."""

    def expect(self, key: Key, now_ms: int) -> None:
        """An attempt has begun, or was adopted; it enters its cgroup if it still runs later."""

    def next_wakeup_ms(self, running: Container[Key]) -> int | None:
        """When there is something to do."""
        return None

    def see_to(self, running: Mapping[Key, Running], now_ms: int) -> None:
        """Do what is due: entries, and removals that did not succeed at first."""

    def members(self, key: Key) -> list[ProcessId]:
        """The living processes in the attempt's cgroup, and in those below it."""
        return []

    def over(self, key: Key, now_ms: int) -> None:
        """The attempt has ended; its cgroup goes when it is empty."""

    def adopted(self, running: Container[Key], now_ms: int) -> None:
        """Those are the attempts that go on after an earlier daemon; the others are over."""


class Cgroups(NoCgroups):
    """Those of one daemon."""

    def __init__(self, root: str, own: str, instance: str) -> None:
        """`root` is where the directory of cgroup `/` is, or would be; `own` is our own cgroup."""
        self._root = root
        self._own = own
        self._instance = instance
        self._ours = f"{own.rstrip('/')}/{_PREFIX}{instance}"
        self._directories: dict[Key, str] = {}
        self._due: list[tuple[int, Key]] = []
        _make(self._directory(self._ours))
        for name in os.listdir(self._directory(self._ours)):
            key = _key_of(name)
            if key is not None:
                path = self._directory(f"{self._ours}/{name}")
                if not _remove(path):
                    self._directories[key] = path
        _remove_if_empty(self._directory(self._ours))

    def expect(self, key: Key, now_ms: int) -> None:
        """See NoCgroups."""
        moment = (now_ms + _AFTER_MS) // _TOGETHER_MS + 1
        heapq.heappush(self._due, (moment * _TOGETHER_MS, key))

    def next_wakeup_ms(self, running: Container[Key]) -> int | None:
        """See NoCgroups."""
        due = self._due
        while due and due[0][1] not in running and due[0][1] not in self._directories:
            heapq.heappop(due)
        return due[0][0] if due else None

    def see_to(self, running: Mapping[Key, Running], now_ms: int) -> None:
        """See NoCgroups."""
        enter: list[Running] = []
        while self._due and self._due[0][0] <= now_ms and len(enter) < _AT_ONCE:
            key = heapq.heappop(self._due)[1]
            attempt = running.get(key)
            if attempt is None:
                self._try_to_remove(key, now_ms + _REMOVE_LATER_MS)
            elif key not in self._directories and not attempt.main_gone:
                enter.append(attempt)
        if enter:
            with suppress(OSError):  # They go on without.
                for _ in range(_LOOKS):
                    self._enter(enter)

    def members(self, key: Key) -> list[ProcessId]:
        """See NoCgroups."""
        directory = self._directories.get(key)
        if directory is None:
            return []
        stats = [stat_of(pid) for pid in sorted(_pids_below(directory) - not_ours())]
        return [stat.id for stat in stats if stat is not None and stat.state not in "ZX"]

    def over(self, key: Key, now_ms: int) -> None:
        """See NoCgroups."""
        self._try_to_remove(key, now_ms + _REMOVE_AGAIN_MS)

    def adopted(self, running: Container[Key], now_ms: int) -> None:
        """See NoCgroups."""
        for key in [key for key in self._directories if key not in running]:
            self.over(key, now_ms)

    def _try_to_remove(self, key: Key, again_ms: int) -> None:
        directory = self._directories.get(key)
        if directory is None:
            return
        if _remove(directory):
            del self._directories[key]
            _remove_if_empty(os.path.dirname(directory))
        else:
            heapq.heappush(self._due, (again_ms, key))

    def _enter(self, attempts: Sequence[Running]) -> None:
        for key, found in _belongings(attempts, self._instance).items():
            path = f"{self._ours}/{key[0]}.{key[1]}"
            for stat in found:
                with suppress(OSError):
                    self._take(stat, key, path)

    def _take(self, stat: Stat, key: Key, path: str) -> None:
        at = cgroup_of(stat.id.pid)
        if at.endswith(path.removeprefix(self._own.rstrip("/"))):
            # It may be there through a daemon that was in another cgroup than we are.
            self._directories.setdefault(key, self._directory(at))
            return
        if at != self._own and not at.startswith(f"{self._ours}/"):
            return
        if key not in self._directories:
            _make(self._directory(self._ours))
            _make(self._directory(path))
            self._directories[key] = self._directory(path)
        _put(stat.id.pid, self._directories[key])
        now = stat_of(stat.id.pid)
        if now is not None and (now.id != stat.id or now.parent != stat.parent):
            # Another has its pid by now; or it has left its parents behind, as a keeper does
            # that was started by the job (see `leave`).
            _put(stat.id.pid, self._directory(at))

    def _directory(self, path: str) -> str:
        return self._root + path


def cgroups(instance: str) -> NoCgroups:
    """Those of a daemon that starts, if it can make any."""
    try:
        own = cgroup_of(os.getpid())
        return Cgroups(_root(), own, instance)
    except OSError:
        return NoCgroups()


def leave() -> None:
    """Go from the cgroup of an attempt to the one above all of Stoker's, if we are in one.

    A daemon that was started by a job is not that job's.
    """
    with suppress(OSError):
        above = _above_attempts(cgroup_of(os.getpid()))
        if above is not None:
            _put(os.getpid(), _root() + above)


def cgroup_of(pid: int) -> str:
    """The path of the cgroup that a process is in, as /proc tells it; OSError if it has none."""
    with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            if line.startswith("0::"):
                return line[3:].rstrip("\n")
    raise FileNotFoundError("there are no cgroups of version 2")


def _root() -> str:
    """The directory which a path of /proc, with its leading slash, is appended to."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields, _, kind = line.partition(" - ")
            mounted, at = fields.split()[3:5]
            # If only a part of them is mounted, paths are not what they seem.
            if kind.startswith("cgroup2 ") and mounted == "/":
                return at
    raise FileNotFoundError("cgroups of version 2 are not mounted")


def _above_attempts(path: str) -> str | None:
    """The part of the path before the first cgroup of an attempt, if there is one."""
    names = path.split("/")
    for number, (outer, inner) in enumerate(pairwise(names)):
        if outer.startswith(_PREFIX) and _key_of(inner) is not None:
            return "/".join(names[:number]) or "/"
    return None


def _key_of(name: str) -> Key | None:
    job_id, _, attempt = name.partition(".")
    if job_id.isdecimal() and attempt.isdecimal():
        return int(job_id), int(attempt)
    return None


def _belongings(attempts: Sequence[Running], instance: str) -> dict[Key, list[Stat]]:
    """The living processes of each attempt, the parents first: its marker, session, descendants."""
    stats = all_stats()
    oldest = min(attempt.process.start_time for attempt in attempts)
    keys: dict[int, Key] = {}
    sessions: dict[int, Key] = {}
    markers: dict[bytes, Key] = {}
    for attempt in attempts:
        main, key = attempt.process, attempt.key
        if main.pid in stats and stats[main.pid].id == main:
            keys[main.pid] = key
            markers[f"{MARKER}={marker(instance, *key)}".encode()] = key
            if attempt.own_session:
                sessions[main.pid] = key
    for pid, stat in stats.items():
        if pid in keys or stat.id.start_time < oldest:
            continue
        whose = sessions.get(stat.session)
        if whose is None:
            whose = next((markers[item] for item in environ_of(pid) if item in markers), None)
        if whose is not None:
            keys[pid] = whose
    found: dict[Key, list[Stat]] = {}
    for pid, key in with_descendants(keys, stats).items():
        if pid not in not_ours() and stats[pid].state not in "ZX":
            found.setdefault(key, []).append(stats[pid])
    return found


def _pids_below(directory: str) -> set[int]:
    """The processes of a cgroup and of all below it; raises OSError if that can't be told now."""
    pids: set[int] = set()
    for at, _, _ in os.walk(directory, onerror=_raise_if_it_can_not_look):
        try:
            with open(f"{at}/cgroup.procs", encoding="ascii") as file:
                pids.update(int(line) for line in file)
        except OSError as error:
            _raise_if_it_can_not_look(error)
    return pids


def _raise_if_it_can_not_look(error: OSError) -> None:
    if error.errno in CANT_LOOK:
        raise error


def _make(directory: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(directory)


def _put(pid: int, directory: str) -> None:
    with open(f"{directory}/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(pid))


def _remove(directory: str) -> bool:
    """Remove a cgroup with all that a job has made in it; False if a process is in one of them."""
    _remove_if_empty(directory)
    for at, _, _ in os.walk(directory, topdown=False):
        _remove_if_empty(at)
    return not os.path.exists(directory)


def _remove_if_empty(directory: str) -> None:
    with suppress(OSError):
        os.rmdir(directory)
