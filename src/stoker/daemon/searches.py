"""Searches that learn: what is kept of them, and a process for each that is under way.

The searcher is a process of its own (stoker.search.main), so that no sampler works in the loop that
starts jobs, and Optuna is never imported here. It is a client of the daemon like any other, and may
be killed at any moment. One that ends unasked is started again, with increasing delay.

A search that is to end (`over` in its progress says why) asks for no more points. It has ended when
its searcher has been told of all that were queued, so that what is kept as the best stays right.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from stoker import command_lines
from stoker.api.paths import Home
from stoker.daemon import companions
from stoker.store.sqlite import SearchRow, SqliteStore

log = logging.getLogger("stoker.daemon")

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 60.0
_LAST_PAUSE_S = 3.0  # If a search is to end and its searcher can't work, it is given up then.
_GOOD_AFTER_S = 60.0  # One that ran so long begins with short pauses again.


@dataclass(slots=True, eq=False)
class _Child:
    name: str
    pidfd: int
    line: socket.socket  # It ends when this is closed.
    started_at_s: float
    again: bool = False  # another is wanted when it has ended


class SearcherProcesses:
    """At most one for each search."""

    def __init__(self, store: SqliteStore, home: str) -> None:
        self._store, self._home = store, home
        self._children: dict[str, _Child] = {}
        self._pauses_s: dict[str, float] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._troubles: dict[str, str] = {}  # why a searcher ended that should not have
        self._waiting: dict[str, list[Callable[[], None]]] = {}  # for the end of a search
        self._closed = False

    def begin(self) -> None:
        """An earlier daemon may have had some under way, or been killed as points were retried."""
        self.retried(self._store.searches_again())
        for row in self._store.searches():
            if row.state == "running":
                self._start(row.name)

    def close(self) -> None:
        """The daemon ends, and so do they, when they hear that."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for child in self._children.values():
            child.line.close()

    def kept(self, name: str | None = None) -> list[dict[str, Any]]:
        """What is kept of all searches, or of the one of that name."""
        return [
            {"name": row.name, "spec": json.loads(row.spec), "state": row.state,
             "progress": json.loads(row.progress)}
            for row in self._store.searches(name)
        ]  # fmt: skip

    def brief(self, name: str) -> dict[str, Any] | None:
        """How far the search of that name is; None if there is none."""
        return next(iter(self.briefs(name)), None)

    def briefs(self, name: str | None) -> list[dict[str, Any]]:
        """How far all searches are, or the one of that name."""
        return [
            {"name": one["name"], "state": one["state"], "progress": one["progress"],
             "objectives": one["spec"].get("objectives", []),
             "trouble": self._troubles.get(one["name"], "")}
            for one in self.kept(name)
        ]  # fmt: skip

    def when_over(self, name: str, then: Callable[[], None]) -> Callable[[], None] | None:
        """Have it called when the search ends; what to call to wait no more. None: none goes on."""
        if not self._is_wanted(name):
            return None
        others = self._waiting.setdefault(name, [])
        others.append(then)
        return lambda: others.remove(then) if then in others else None

    def start(self, name: str, spec: Mapping[str, Any], *, anew: bool = False) -> None:
        """Begin a search, or go on by another spec: what it has learned is in its study."""
        known = [] if anew else self._store.searches(name)
        progress = json.loads(known[0].progress) | {"over": ""} if known else {}
        self._store.keep_search(SearchRow(name, json.dumps(spec), "running", json.dumps(progress)))
        self._pauses_s.pop(name, None)
        child = self._children.get(name)
        if child is None:
            self._start(name)
        else:
            self._replace(child)

    def retried(self, names: Collection[str | None]) -> None:
        """Points of these have a new chance: what came of them before does not count any more.

        One that has ended chooses no points, but its study is told of what comes of these.
        """
        for row in self._store.searches() if names else ():
            if row.name not in names:
                continue
            if row.state != "running":
                self._store.keep_search(row._replace(state="running"))
                self._pauses_s.pop(row.name, None)
            child = self._children.get(row.name)
            if child is None:
                self._start(row.name)
            else:
                self._replace(child)  # The next one looks at all of them.

    def told(self, name: str, progress: Mapping[str, Any], *, ended: bool) -> None:
        """Keep what a searcher says; why a search is to end stays as it was first said."""
        for row in self._store.searches(name):
            if row.state == "running":
                state = "ended" if ended else "running"
                said = json.dumps({**progress, "over": _over(row) or progress.get("over", "")})
                self._store.keep_search(row._replace(state=state, progress=said))
                self._troubles.pop(name, None)
                if ended:
                    self._is_over(name)

    def end(self, names: list[str] | None, why: str) -> list[str]:
        """Have these searches, or all, ask for no more points; which were under way."""
        ended = []
        for row in self._store.searches():
            if row.state != "running" or (names is not None and row.name not in names):
                continue
            if not _over(row):
                progress = json.dumps(json.loads(row.progress) | {"over": why})
                self._store.keep_search(row._replace(progress=progress))
                child = self._children.get(row.name)
                if child is not None:  # It may be about to ask: the next one won't.
                    self._replace(child)
            ended.append(row.name)
        return ended

    def _replace(self, child: _Child) -> None:
        child.again = True
        child.line.close()

    def _is_over(self, name: str) -> None:
        self._troubles.pop(name, None)
        self._store.outbox.has_news = True  # Its group may have ended with it.
        for then in self._waiting.pop(name, []):
            asyncio.get_running_loop().call_soon(then)

    # ------------------------------------------------------------------ the processes

    def _start(self, name: str) -> None:
        self._timers.pop(name, None)
        if self._closed or name in self._children or not self._is_wanted(name):
            return
        try:
            child = self._made(name)
        except OSError as error:
            log.warning("the search %s can't go on now: %s", name, error)
            self._troubles[name] = f"its searcher can't be started: {error.strerror}"
            self._start_later(name)
            return
        self._children[name] = child
        asyncio.get_running_loop().add_reader(child.pidfd, self._ended, child)

    def _made(self, name: str) -> _Child:
        command = command_lines.searcher(self._home, name)
        pidfd, line = companions.start_with_socket(command, self._home)
        return _Child(name, pidfd, line, asyncio.get_running_loop().time())

    def _ended(self, child: _Child) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(child.pidfd)
        how = os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
        os.close(child.pidfd)
        child.line.close()
        del self._children[child.name]
        if child.again:
            self._start(child.name)
        elif self._is_wanted(child.name):
            if how is not None:
                self._troubles[child.name] = _trouble(how.si_code, how.si_status, self._home)
            if loop.time() - child.started_at_s > _GOOD_AFTER_S:
                self._pauses_s.pop(child.name, None)
            self._start_later(child.name)

    def _start_later(self, name: str) -> None:
        pause_s = self._pauses_s.get(name, _FIRST_PAUSE_S)
        [row] = self._store.searches(name)
        if pause_s > _LAST_PAUSE_S and _over(row):
            self._store.keep_search(row._replace(state="ended"))
            self._is_over(name)
            return
        self._pauses_s[name] = min(pause_s * 2, _LONGEST_PAUSE_S)
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(pause_s, self._start, name)

    def _is_wanted(self, name: str) -> bool:
        return any(row.state == "running" for row in self._store.searches(name))


def _over(row: SearchRow) -> str:
    """Why a search asks for no more points; nothing if it does."""
    over: str = json.loads(row.progress).get("over", "")
    return over


def _trouble(code: int, status: int, home: str) -> str:
    """What became of a searcher that should go on, in words."""
    how = f"exit code {status}" if code == os.CLD_EXITED else f"signal {status}"
    return f"its searcher ended ({how}) and is started again; {Home(home).log} may say why"
