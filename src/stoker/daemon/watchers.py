"""Clients that watch everything: they hear what has changed, a few times a second at most.

However much happens, a line costs what its bounded content costs, and a client that does not read
is waited for with the changes put together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from stoker.core.change import Change
from stoker.core.shortage import LowDisk
from stoker.daemon import show
from stoker.daemon.loop import TurnLoop
from stoker.daemon.server import Connection
from stoker.store.sqlite import SqliteStore

MOST_NAMED = 500
_LOOK_AGAIN_S = 1.0  # What was measured on a GPU changes without a turn.

Gpus = Callable[[], list[dict[str, Any]]]


@dataclass(slots=True, eq=False)
class _Watcher:
    connection: Connection
    every_s: float
    changed: dict[int, None] = field(default_factory=dict)
    many: bool = False
    stale: bool = True
    gpus: list[dict[str, Any]] | None = None  # as it was told them last
    low_disk: LowDisk | None = None  # as it was told
    timer: asyncio.TimerHandle | None = None
    told_at_s: float = float("-inf")


@dataclass(slots=True)
class Watchers:
    """Who watches, and what each has not been told yet."""

    turn_loop: TurnLoop
    store: SqliteStore
    gpus: Gpus
    version: int = 0
    _watchers: list[_Watcher] = field(default_factory=list)
    _looking: asyncio.TimerHandle | None = None

    def watch(self, every_ms: int, connection: Connection) -> None:
        """Tell this client from now on."""
        watcher = _Watcher(connection, every_ms / 1000)
        self._watchers.append(watcher)
        connection.on_close.append(lambda: self._forget(watcher))
        connection.take_more()
        self._tell(watcher)
        self._look_again()

    def note(self) -> None:
        """After a turn: remember what it has changed."""
        change = self.turn_loop.engine.committed
        if not change:
            return
        self.version += 1
        for watcher in self._watchers:
            _add(watcher, change)
            watcher.stale = True
            self._tell_soon(watcher)

    def _forget(self, watcher: _Watcher) -> None:
        self._watchers.remove(watcher)
        if watcher.timer is not None:
            watcher.timer.cancel()
        if not self._watchers and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _tell_soon(self, watcher: _Watcher) -> None:
        if watcher.timer is None:
            loop = asyncio.get_running_loop()
            delay_s = max(0.0, watcher.told_at_s + watcher.every_s - loop.time())
            watcher.timer = loop.call_later(delay_s, self._tell, watcher)

    def _look_again(self) -> None:
        """What was measured is compared now and then, as long as a client watches."""
        low_disk = self.turn_loop.state.low_disk
        for watcher in self._watchers:
            of_gpus = watcher.gpus is not None and watcher.gpus != self.gpus()
            if of_gpus or watcher.low_disk != low_disk:
                watcher.stale = True
                self._tell_soon(watcher)
        loop = asyncio.get_running_loop()
        if self._looking is not None:
            self._looking.cancel()
        self._looking = loop.call_later(_LOOK_AGAIN_S, self._look_again)

    def _tell(self, watcher: _Watcher) -> None:
        watcher.timer = None
        watcher.told_at_s = asyncio.get_running_loop().time()
        if not watcher.stale:
            return
        if watcher.connection.unread_bytes:
            self._tell_soon(watcher)  # What it has not read yet comes first.
            return
        line: dict[str, Any] = {
            "event": "changed",
            "version": self.version,
            "changed": list(watcher.changed),
            "many": watcher.many,
            "at_ms": self.turn_loop.now_ms(),
            **show.queue(self.turn_loop.state, self.store.finished),
        }
        watcher.low_disk = self.turn_loop.state.low_disk
        gpus = self.gpus()
        if gpus != watcher.gpus:
            line["gpus"] = watcher.gpus = gpus
        watcher.changed.clear()
        watcher.many = watcher.stale = False
        watcher.connection.tell(**line)


def _add(watcher: _Watcher, change: Change) -> None:
    """Name the jobs that a change is about, as far as there is room."""
    for some in (
        [event.job_id for event in change.submitted[: MOST_NAMED + 1]],
        chain.from_iterable(many.ids for many in change.submitted_together),
        change.touched,
        [ended.job.id for ended in change.ended[: MOST_NAMED + 1]],
        change.removed,
    ):
        for job_id in some:
            if len(watcher.changed) >= MOST_NAMED and job_id not in watcher.changed:
                watcher.many = True
                return
            watcher.changed[job_id] = None
