"""What the handlers of requests share: the way to the daemon, kept answers, links to files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from stoker.errors import NotFound, StokerError
from stoker.web.deltas import Told
from stoker.web.events import Feed
from stoker.web.link import Link

CACHED_S = 1.0
TICKET_LASTS_S = 60.0
_MOST_TICKETS = 200

Answer = dict[str, Any]


@dataclass(slots=True)
class Services:
    """What the handlers share."""

    link: Link
    feed: Feed
    told: Told = field(default_factory=Told)
    _cache: dict[Hashable, tuple[float, int, asyncio.Task[Answer]]] = field(default_factory=dict)
    _tickets: dict[str, tuple[float, str, str]] = field(default_factory=dict)

    async def shared(
        self, key: Hashable, make: Callable[[], Awaitable[Answer]], s: float = CACHED_S
    ) -> Answer:
        """An answer that all who ask for the same at the same time share.

        It is as new as the feed: what was heard since makes it old. Without a listener to the
        feed, nothing says that it is old, so it is not kept.
        """
        now = time.monotonic()
        version = self.feed.changes
        known = self._cache.get(key)
        if known is not None and known[0] > now and (s > CACHED_S or known[1] == version):
            return await asyncio.shield(known[2])
        task = asyncio.ensure_future(make())
        if self.feed.is_live:
            if len(self._cache) > 100:
                self._cache.clear()
            self._cache[key] = (now + s, version, task)
        try:
            return await asyncio.shield(task)
        except StokerError:
            self._cache.pop(key, None)
            raise

    def changed(self) -> None:
        """A request was made: its sender wants to see the result."""
        self._cache.clear()

    def new_ticket(self, path: str, name: str) -> str:
        """A link by which one file can be downloaded, for a short while."""
        import secrets

        now = time.monotonic()
        self._tickets = {t: v for t, v in self._tickets.items() if v[0] > now}
        while len(self._tickets) >= _MOST_TICKETS:
            self._tickets.pop(next(iter(self._tickets)))
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = (now + TICKET_LASTS_S, path, name)
        return ticket

    def file_of(self, ticket: str) -> tuple[str, str]:
        """The path and the name that a ticket stands for."""
        until, path, name = self._tickets.get(ticket, (0.0, "", ""))
        if until <= time.monotonic():
            raise NotFound("this link is no longer good", "ask for the download again")
        return path, name
