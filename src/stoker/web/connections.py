"""Connections that prove nothing are not waited for: idle clients and slow senders are let go.

A client that has not shown a secret has a time for the head of a request and a time for the rest,
which no trickle of bytes extends. There is room for so many connections; beyond that, those
make room that were never let in, then those that ask nothing, then those whose request is still
on its way. A request that was let in is never given up for a new connection.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from stoker.api.tokens import Access, Grant
from stoker.errors import StokerError
from stoker.web.guard import Visitor
from stoker.web.refusals import Refusals

FIRST_HEAD_WITHIN_S = 5.0
NEXT_HEAD_WITHIN_S = 60.0
STRANGER_WITHIN_S = 10.0  # from a stranger's head to the end of the answer
MOST_CONNECTIONS = 512
BACKLOG = 1024  # asyncio accepts as many before it looks at any of them
_RESERVED_FILES = 256  # for logs, the daemon's socket and the like

# Who makes room first.
_STRANGER, _IDLE, _SENDING, _SERVED = range(4)


class GuardedConnection(H11Protocol):
    """One connection of a browser, a script, or of an attacker."""

    refusals: Refusals  # of the server; see `guarded`
    most_connections: int
    _deadline: asyncio.TimerHandle | None = None
    _since_s: float = 0.0
    _was_let_in = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, and begin to count its time."""
        has_room = self._make_room()
        super().connection_made(transport)
        if not has_room:
            self.refusals.count("there is no room for another connection")
            transport.abort()
            return
        self._expect(FIRST_HEAD_WITHIN_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """A head that has come gives its sender some time for the rest."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and not self.transport.is_closing():
            self._expect(STRANGER_WITHIN_S)

    def send_400_response(self, msg: str) -> None:
        """Bytes that are no HTTP end the connection, and the request in whose midst they came."""
        self.refusals.count("it is no HTTP")
        if self._is_asking():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.abort()
                return
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """The next request's time begins."""
        self._was_let_in = self._was_let_in or self.grant is not None
        super().on_response_complete()
        if not self.transport.is_closing() and not self._is_asking():
            self._expect(NEXT_HEAD_WITHIN_S)

    @property
    def grant(self) -> Grant | None:
        """What lets the present request in, as far as the guard has said."""
        scope: Any = self.scope  # It is the very one in which the guard puts its visitor.
        visitor: Visitor | None = scope.get("visitor") if scope is not None else None
        return visitor.grant if visitor is not None else None

    @property
    def is_served(self) -> bool:
        """Whether a client that was let in waits for an answer, or reads one."""
        return self._standing() == _SERVED

    def _standing(self) -> int:
        if not self._is_asking():
            return _IDLE if self._was_let_in else _STRANGER
        if self.grant is None:
            return _STRANGER
        return _SENDING if self.cycle.more_body else _SERVED

    def _is_asking(self) -> bool:
        """Whether a head has come whose request is not yet answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _expect(self, within_s: float) -> None:
        self._cancel_deadline()
        self._since_s = self.loop.time()
        self._deadline = self.loop.call_later(within_s, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if self._is_asking() and self.grant is not None:
            return  # The guard has a time for bodies; an answer may take as long as it takes.
        self.transport.abort()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self) -> bool:
        others = [c for c in _guarded(self.connections) if not c.transport.is_closing()]
        if len(others) < self.most_connections:
            return True
        ranked = [(c._standing(), c._since_s, n) for n, c in enumerate(others)]
        standing, _, first = min(ranked)
        if standing == _SERVED:
            return False
        others[first].transport.abort()
        return True


def _guarded(connections: Iterable[Any]) -> list[GuardedConnection]:
    return [c for c in connections if isinstance(c, GuardedConnection)]


def guarded(refusals: Refusals, most_connections: int) -> type[GuardedConnection]:
    """The connections of one server."""

    class Connection(GuardedConnection):
        pass

    Connection.refusals = refusals
    Connection.most_connections = most_connections
    return Connection


def end_what_was_revoked(connections: Iterable[Any], access: Access) -> None:
    """Cut off answers, feeds above all, to those whose right has ended since they asked."""
    served = [c for c in _guarded(connections) if c.is_served]
    if not served:
        return
    try:
        good = {grant.id for grant in access.grants()}
    except (StokerError, OSError):
        good = set()
    for connection in served:
        grant = connection.grant
        if grant is not None and grant.id not in good:
            connection.transport.abort()


def room_for_connections() -> tuple[int, int]:
    """How many connections may be there, and how many more may be accepted in one go.

    The process may open as many files as that takes, as far as it is allowed to. Were there too
    few, asyncio would complain of each connection that it can't accept, and accept none.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + BACKLOG + _RESERVED_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    room = max(32, wanted - _RESERVED_FILES)
    most = min(MOST_CONNECTIONS, room // 2)
    return most, min(BACKLOG, room - most)
