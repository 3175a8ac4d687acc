"""Attempts of which all processes are stopped for a while (SIGSTOP), and go on later (SIGCONT).

A process that has yet to be stopped may start another. So the processes are looked at until none
of them runs: those that are stopped start nothing. Parents are stopped before their children and
continued after them: a shell that does job control, or `timeout`, would take it for a request of
its user's if it ever saw a child stopped.

A cgroup would be frozen in one go. But most attempts of users have none, a frozen process hears
SIGTERM only when it is thawed, and in `ps` it looks as if it ran. So its list of processes is used
(also those that have left all else are stopped), and its freezer is not.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from stoker.core import events as ev
from stoker.executors.ledger import Key
from stoker.executors.processes import ProcessId, all_stats, send, with_descendants
from stoker.executors.running import Attempts, Running
from stoker.executors.stopping import Stopping

_LOOK_AGAIN_MS = 20
_LOOK_SELDOM_MS = 1_000
_STOPPED = "TtZX"


class Suspending:
    """Stops and continues all processes of attempts, and tells when that is done."""

    def __init__(self, attempts: Attempts, stopping: Stopping) -> None:
        self._attempts = attempts
        self._stopping = stopping
        # Of those that are being suspended: which suspension it is, and since when.
        self._nth: dict[Key, int] = {}
        self._since_ms: dict[Key, int] = {}
        self.again_ms: dict[Key, int] = {}  # when to look whether all their processes have stopped

    def suspend(self, running: Running, nth: int) -> None:
        """Stop all of its processes. The order may come again while that is under way."""
        key, now_ms = running.key, self._attempts.now_ms
        if self._nth.get(key) != nth:
            self._nth[key], self._since_ms[key], self.again_ms[key] = nth, now_ms, now_ms
            self._look(running)

    def look_again(self) -> None:
        """At those that had processes that ran."""
        now_ms = self._attempts.now_ms
        for key in [key for key, moment_ms in self.again_ms.items() if moment_ms <= now_ms]:
            running = self._attempts.running.get(key)
            if running is None:
                self._forget(key)
            else:
                self._look(running)

    def go_on(self, running: Running, nth: int) -> None:
        """Continue all of its processes, also those that were stopped by hand."""
        self._forget(running.key)
        for process in reversed(self._parents_first(running)):
            send(process, signal.SIGCONT)
        self._attempts.tell(ev.AttemptContinued(self._attempts.now_ms, *running.key, nth))

    def _look(self, running: Running) -> None:
        key, now_ms = running.key, self._attempts.now_ms
        waited_ms = now_ms - self._since_ms[key]
        # One that waits for a disk or a driver stops when that has answered.
        self.again_ms[key] = now_ms + min(_LOOK_SELDOM_MS, max(_LOOK_AGAIN_MS, waited_ms))
        if running.loading is not None:
            return  # It is on its way to its program, and shares our memory until then.
        try:
            going_on = self._parents_first(running, but=_STOPPED)
            for process in going_on:
                send(process, signal.SIGSTOP)
        except OSError:
            return  # Too many files are open to look.
        if not going_on:
            nth = self._nth[key]
            self._forget(key)
            self._attempts.tell(ev.AttemptSuspended(now_ms, *key, nth))

    def _forget(self, key: Key) -> None:
        for told in (self._nth, self._since_ms, self.again_ms):
            told.pop(key, None)

    def _parents_first(self, running: Running, but: str = "ZX") -> Sequence[ProcessId]:
        """All of its processes, but for those in one of these states."""
        # What was stopped before its processes are looked for has started none since then. So the
        # states are those of a moment before.
        states = {stat.id: stat.state for stat in all_stats().values()}
        found = self._stopping.all_processes(running)
        stats = all_stats()
        pids = {process.pid for process in found}
        tops = [pid for pid in sorted(pids) if pid in stats and stats[pid].parent not in pids]
        below = with_descendants(dict.fromkeys(tops), stats)
        places = {pid: place for place, pid in enumerate(below)}
        wanted = [one for one in found if states.get(one, "R") not in but]
        return sorted(wanted, key=lambda one: places.get(one.pid, -1))
