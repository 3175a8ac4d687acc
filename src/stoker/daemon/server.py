"""The socket: JSON lines from the owner of the daemon alone.

A connection is served one request at a time, in order. What can't be understood is answered with
what was wrong, and the connection goes on; only a line without end closes it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, cast

import msgspec

from stoker.api.messages import MAX_MESSAGE_BYTES, AnyRequest, Attach, Follow, Wait, Watch
from stoker.api.skew import HINT, NOT_UNDERSTOOD, is_skew
from stoker.errors import Failed, StokerError, TooManyClients, Unavailable, UsageError

if TYPE_CHECKING:
    from stoker.daemon.requests.dispatch import Dispatcher

log = logging.getLogger("stoker.daemon")

_MOST_WAITING_REQUESTS = 64
_BRIEF_S = 5.0  # how long one that may not stay may be silent
_STAYING = (Wait, Follow, Watch, Attach)
_TOO_MANY_CLIENTS = TooManyClients(
    "the daemon has no room for another client that waits, follows or watches",
    "it has room again when others have gone; a higher limit of open files (ulimit -n) gives more",
)
_decoder = msgspec.json.Decoder(AnyRequest)
_encoder = msgspec.json.Encoder()


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, dispatcher: Dispatcher, may_stay: bool = True) -> None:
        """One that may not stay can only ask something, and is then to go."""
        self._dispatcher = dispatcher
        self._may_stay = may_stay
        self._let_go: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._requests: deque[bytes] = deque()
        self._busy = False
        self._follows = False
        self.on_close: list[Any] = []  # called with no arguments when the client is gone

    # ------------------------------------------------------------------ asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse all users but the owner."""
        self._transport = cast(asyncio.Transport, transport)
        self._dispatcher.connections.add(self)
        peer: socket.socket = transport.get_extra_info("socket")
        if peer_uid(peer) != os.geteuid():
            log.warning("refused a connection from user id %d", peer_uid(peer))
            self.fail(Failed("this daemon belongs to another user", ""))
            self._transport.close()
        if not self._may_stay:
            self._go_soon()

    def _go_soon(self) -> None:
        """Make room for others, once nothing is under way."""
        if self._let_go is not None and not self._busy:
            self.close()
            return
        self._let_go = asyncio.get_running_loop().call_later(_BRIEF_S, self._go_soon)

    def data_received(self, data: bytes) -> None:
        """Collect whole lines."""
        if self._transport is None or self._transport.is_closing():
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._chunks.append(line)
            self._requests.append(b"".join(self._chunks))
            self._chunks.clear()
            self._size = 0
        if rest:
            self._chunks.append(rest)
            self._size += len(rest)
            if self._size > MAX_MESSAGE_BYTES:
                self.fail(UsageError("the message is too long", "send fewer jobs at a time"))
                self._transport.close()
                return
        if len(self._requests) > _MOST_WAITING_REQUESTS:
            self._transport.pause_reading()
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those who followed something for this client."""
        self._transport = None
        self._dispatcher.connections.discard(self)
        self._requests.clear()
        if self._let_go is not None:
            self._let_go.cancel()
            self._let_go = None
        for action in self.on_close:
            action()

    # ------------------------------------------------------------------ requests and answers

    def _next(self) -> None:
        while self._requests and not self._busy and self._transport is not None:
            line = self._requests.popleft()
            if len(self._requests) <= _MOST_WAITING_REQUESTS // 2:
                self._transport.resume_reading()
            if not line.strip():
                continue
            self._busy = True
            try:
                request = _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                hint = HINT if is_skew(str(error)) else ""
                self.fail(UsageError(f"{NOT_UNDERSTOOD}{error}", hint))
                continue
            if not self._may_stay and isinstance(request, _STAYING):
                self.fail(_TOO_MANY_CLIENTS)
                self.close()
                return
            self._dispatcher.handle(request, self)

    def answer(self, **fields: Any) -> None:
        """The answer to the request in hand; the next one's turn comes."""
        self.tell(**fields)
        self._done()

    def fail(self, error: StokerError) -> None:
        """The request in hand can't be granted."""
        details = {"code": error.code, "message": error.message, "hint": error.hint}
        if error.option:
            details["option"] = error.option
        self._write({"ok": False, "error": details})
        self._done()

    def tell(self, **fields: Any) -> None:
        """A line that is not the end of the matter."""
        self._write({"ok": True, **fields})

    def tell_all(self, lines: list[dict[str, Any]]) -> None:
        """Several such lines, which arrive together."""
        if self._transport is not None and not self._transport.is_closing():
            encoded = [_encoder.encode({"ok": True, **fields}) for fields in lines]
            self._transport.write(b"\n".join((*encoded, b"")))

    def take_more(self) -> None:
        """Let further requests come while this one goes on."""
        self._follows = True
        self._done()

    def _done(self) -> None:
        self._busy = False
        asyncio.get_running_loop().call_soon(self._next)

    def say_goodbye(self) -> None:
        """The daemon ends on purpose: tell a client that still waits for something."""
        if self._busy or self._follows:
            hint = "`stoker daemon start` starts it again"
            self.fail(Unavailable("the daemon was stopped", hint))

    def close(self) -> None:
        """Take no more requests; answers on their way still arrive."""
        self._requests.clear()
        if self._transport is not None:
            self._transport.close()

    @property
    def unread_bytes(self) -> int:
        """How much of what was said is still on its way to a client that reads slowly."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def closed(self) -> bool:
        """True if the client is gone."""
        return self._transport is None or self._transport.is_closing()

    def _write(self, message: dict[str, Any]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_encoder.encode(message) + b"\n")


def peer_uid(peer: socket.socket) -> int:
    """The user at the other end, as the kernel knows it."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)
