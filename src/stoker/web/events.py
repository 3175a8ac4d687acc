"""The feed for tabs: one watch on the daemon, however many look on.

A tab that reads slowly misses steps, never the outcome: what it has not been told yet is put
together. No tab costs nothing: the watch ends with the last tab.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from stoker.errors import StokerError
from stoker.web.link import Link

log = logging.getLogger("stoker.web")

EVERY_MS = 400
MOST_NAMED = 500
MOST_ACTIVE = 1_000
KEEP_ALIVE_S = 15.0
TRY_AGAIN_S = 1.0
LINGER_S = 5.0
MOST_TABS = 200  # so that there is room for other requests


class Tab:
    """One that looks on, and what it has not been told yet."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.pending: dict[str, Any] = {}

    def tell(self, line: dict[str, Any]) -> None:
        """Put a line together with what is still to be told."""
        named = dict.fromkeys(self.pending.get("changed", ()))
        named.update(dict.fromkeys(line.get("changed", ())))
        many = line.get("many", False) or self.pending.get("many", False)
        self.pending |= line
        self.pending["changed"] = list(named)[:MOST_NAMED]
        self.pending["many"] = many or len(named) > MOST_NAMED
        self.news.set()

    def take(self) -> dict[str, Any]:
        """What is to be told now."""
        line, self.pending = self.pending, {}
        self.news.clear()
        return line


class Feed:
    """Passes the daemon's changes on to all tabs, with the jobs that run."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._tabs: set[Tab] = set()
        self._task: asyncio.Task[None] | None = None
        self._now: dict[str, Any] = {}  # the whole picture, for a tab that comes
        self.changes = 0  # counts what has been heard, so that caches know when they are old

    @property
    def is_live(self) -> bool:
        """Whether changes are being heard."""
        return self._task is not None and bool(self._now)

    @property
    def has_room(self) -> bool:
        """Whether one more tab may listen."""
        return len(self._tabs) < MOST_TABS

    async def events(self) -> AsyncIterator[bytes]:
        """Server-sent events for one tab, for as long as it listens."""
        tab = Tab()
        self._tabs.add(tab)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        if self._now:
            tab.tell({**self._now, "changed": [], "many": True})
        try:
            yield b"retry: 1000\n\n"
            while True:
                try:
                    await asyncio.wait_for(tab.news.wait(), KEEP_ALIVE_S)
                except TimeoutError:
                    yield b": still there\n\n"
                    continue
                yield b"data: " + msgspec.json.encode(tab.take()) + b"\n\n"
        finally:
            self._tabs.discard(tab)

    async def _watch(self) -> None:
        """Hear of changes until no tab has listened for a while; a lost daemon is tried again."""
        while self._tabs:
            try:
                async with self._link.watching(EVERY_MS) as lines:
                    await self._pass_on(lines)
            except StokerError as error:
                self._tell_all({"lost": error.message})
                await asyncio.sleep(TRY_AGAIN_S)
            except Exception:
                log.exception("the feed of changes broke")
                await asyncio.sleep(TRY_AGAIN_S)
            finally:
                self._now = {}

    async def _pass_on(self, lines: AsyncIterator[dict[str, Any]]) -> None:
        alone_since: float | None = None
        loop = asyncio.get_running_loop()
        iterator = aiter(lines)
        coming = asyncio.ensure_future(anext(iterator))
        try:
            while True:
                done, _ = await asyncio.wait([coming], timeout=LINGER_S)
                if self._tabs:
                    alone_since = None
                elif alone_since is None:
                    alone_since = loop.time()
                elif loop.time() - alone_since >= LINGER_S:
                    return
                if not done:
                    continue
                line = coming.result()
                coming = asyncio.ensure_future(anext(iterator))
                if line.get("event") != "changed":
                    continue
                del line["event"]
                if line["changed"] or line["many"] or "active" not in self._now:
                    line["active"] = await self._active()
                self.changes += 1
                self._now |= {key: line[key] for key in line if key not in ("changed", "many")}
                line["lost"] = None
                self._tell_all(line)
        finally:
            coming.cancel()

    async def _active(self) -> list[dict[str, Any]]:
        """The jobs that run: every tab shows them, so they are asked for once."""
        wanted = {"states": ["running", "stopping"], "limit": MOST_ACTIVE}
        jobs: list[dict[str, Any]] = (await self._link.call("browse", **wanted))["jobs"]
        return jobs

    def _tell_all(self, line: dict[str, Any]) -> None:
        for tab in self._tabs:
            tab.tell(line)
