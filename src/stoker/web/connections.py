"""Connections that ask nothing are not waited for: idle crowds and slow senders are let go.

A request's head must arrive within a time that no trickle of bytes extends. There is room for so
many connections; where there are more, those that have waited longest without asking make room.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

FIRST_HEAD_WITHIN_S = 5.0
NEXT_HEAD_WITHIN_S = 60.0
MOST_CONNECTIONS = 512
_SPARE_FILES = 256  # for logs, the daemon's socket and the like


class GuardedConnection(H11Protocol):
    """One connection of a browser, a script, or of somebody who means no good."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, and begin to count its time."""
        self._make_room()
        super().connection_made(transport)
        self._expect_head(FIRST_HEAD_WITHIN_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """The next request's time begins."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self._is_asking():
            self._expect_head(NEXT_HEAD_WITHIN_S)

    def _is_asking(self) -> bool:
        """Whether a whole request has come that is not yet answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self, within_s: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(within_s, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if not self._is_asking():
            self.transport.abort()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self) -> None:
        others: list[Any] = [c for c in self.connections if isinstance(c, GuardedConnection)]
        if len(others) < MOST_CONNECTIONS:
            return
        idle = [c for c in others if c._deadline is not None and not c._is_asking()]
        if idle:
            # The deadline tells how long it has waited; the first to come due is let go.
            min(idle, key=lambda c: c._deadline.when()).transport.abort()


def allow_many_files() -> None:
    """Let the process have as many files open as its connections may need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS * 2 + _SPARE_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
