"""Who makes room when there are too many connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from stoker.api.messages import PageSettings
from stoker.api.paths import Home
from stoker.api.tokens import Access, Grant
from stoker.web.connections import GuardedConnection, end_what_was_revoked, guarded
from stoker.web.guard import Visitor
from stoker.web.main import place_of
from stoker.web.refusals import Refusals

SOMEBODY = Visitor(Grant("a", "token", "a", "x", False, 0), False)


class Transport(asyncio.Transport):
    """As asyncio's own: one that is ended is closing at once, and lost a little later."""

    ended = False

    def abort(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.ended


@dataclass
class Cycle:
    response_complete: bool = False
    more_body: bool = False


@dataclass
class Door:
    """A server with room for so many connections."""

    most: int
    loop: asyncio.AbstractEventLoop
    refusals: Refusals = field(default_factory=Refusals)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.config = uvicorn.Config(lambda: None, loop="none", lifespan="off")
        self.config.load()
        self.state = uvicorn.server.ServerState()
        self.kind = guarded(self.refusals, self.most)

    def timers(self) -> int:
        scheduled: list[asyncio.TimerHandle] = getattr(self.loop, "_scheduled")  # noqa: B009
        return sum(not timer.cancelled() for timer in scheduled)

    def comes(self) -> GuardedConnection:
        found = self.kind(
            config=self.config, server_state=self.state, app_state={}, _loop=self.loop
        )
        found.connection_made(Transport())
        self.now_s += 1
        found._since_s = self.now_s
        return found


def asking(connection: GuardedConnection, visitor: Visitor | None, **cycle: bool) -> None:
    made: Any = Cycle(**cycle)
    scope: Any = {} if visitor is None else {"visitor": visitor}
    connection.cycle, connection.scope = made, scope


def is_out(connection: GuardedConnection) -> bool:
    return connection.transport.is_closing()


@contextmanager
def door(most: int) -> Iterator[Door]:
    with asyncio.Runner() as runner:
        yield Door(most, runner.get_loop())


def test_strangers_make_room_before_those_who_were_let_in() -> None:
    with door(5) as server:
        served, sending, idle, stranger, fresh = (server.comes() for _ in range(5))
        asking(served, SOMEBODY)
        asking(sending, SOMEBODY, more_body=True)
        asking(idle, SOMEBODY, response_complete=True)
        idle._was_let_in = True
        asking(stranger, None, more_body=True)
        order = []
        for _ in range(4):
            asking(server.comes(), SOMEBODY)
            order.append([is_out(c) for c in (stranger, fresh, idle, sending, served)])
        assert order == [[True] * n + [False] * (5 - n) for n in (1, 2, 3, 4)]
        refused = server.comes()
        assert is_out(refused) and not is_out(served)
        assert server.refusals.counts == {"there is no room for another connection": 1}


def test_many_that_come_at_once_make_as_many_go() -> None:
    with door(10) as server:
        old = [server.comes() for _ in range(10)]
        new = [server.comes() for _ in range(10)]
        assert all(map(is_out, old)) and not any(map(is_out, new))
        assert sum(not c.transport.is_closing() for c in server.state.connections) == 10


def test_connections_that_are_gone_leave_no_timer_and_no_trace() -> None:
    with door(2_000) as server:
        for number in range(1_000):
            connection = server.comes()
            if number % 2:
                connection.data_received(b"GET /enter HTTP/1.1\r\nHost: x\r\n")
            connection.connection_lost(None)
        assert not server.state.connections
        assert server.timers() == 0
        server.comes()
        assert server.timers() == 1


def test_what_was_revoked_is_cut_off_and_nothing_else(tmp_path: Path) -> None:
    access = Access(Home(str(tmp_path)))
    _, staying = access.new_token("staying", read_only=False, lasts_ms=None)
    _, going = access.new_token("going", read_only=False, lasts_ms=None)
    with door(9) as server:
        kept, cut, done, stranger = (server.comes() for _ in range(4))
        asking(kept, Visitor(staying, False))
        asking(cut, Visitor(going, False))
        asking(done, Visitor(going, False), response_complete=True)
        asking(stranger, Visitor(None, False))
        end_what_was_revoked(server.state.connections, access)
        assert not any(map(is_out, (kept, cut, done, stranger)))
        access.revoke(["going"])
        end_what_was_revoked(server.state.connections, access)
        assert [is_out(c) for c in (kept, cut, done, stranger)] == [False, True, False, False]
        Path(access.path).write_text("spoiled", encoding="utf-8")
        end_what_was_revoked(server.state.connections, access)
        assert is_out(kept), "a file that can't be read lets nobody in"


def test_the_body_of_an_answer_does_not_wait_for_the_browser_to_acknowledge_its_head() -> None:
    with place_of(PageSettings(port=0), None, patient=False).listener as listener:
        with socket.create_connection(listener.getsockname()[:2]):
            accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
