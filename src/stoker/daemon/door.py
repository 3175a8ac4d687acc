"""Where clients come in: no more of them than there are descriptors for.

Some descriptors are kept for the processes of jobs. The others are for clients that stay (`wait`,
`follow`, `watch`). When these are taken, a client may still ask something and hear the answer; one
that wants to stay is told that there is no room for it. So a question is answered at once however
many wait for something.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from stoker.daemon.server import Connection

log = logging.getLogger("stoker.daemon")

_FOR_OURSELVES = 32  # database, ledger, log, page, drivers
_MOST_BRIEF = 32
_FEWEST = 8
_AT_A_TIME = 64
_AGAIN_S = 0.25  # after the kernel had no descriptor to give


def most_to_stay(files: int) -> int:
    """How many clients may stay where so many files may be open: a quarter is for jobs."""
    return max(_FEWEST, files - files // 4 - _FOR_OURSELVES - _MOST_BRIEF)


class Door:
    """Lets clients in, as far as there is room."""

    def __init__(
        self, listener: socket.socket, most: int, connection: Callable[[bool], Connection]
    ) -> None:
        """`connection` makes one, which may stay (True) or only ask (False)."""
        self._listener = listener
        self._most = most
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._inside = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False
        self._again: asyncio.TimerHandle | None = None
        self._open()

    def close(self) -> None:
        """Let no more clients in."""
        self._shut()
        if self._again is not None:
            self._again.cancel()
        self._listener.close()

    def move_to(self, listener: socket.socket) -> None:
        """Let clients in through another socket; those who are inside stay."""
        self._shut()
        self._listener.close()
        self._listener = listener
        if self._again is None:
            self._open()

    def _open(self) -> None:
        self._again = None
        if not self._is_open:
            self._is_open = True
            self._loop.add_reader(self._listener.fileno(), self._client_came)

    def _shut(self) -> None:
        """Clients that come now wait outside."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._listener.fileno())

    def _client_came(self) -> None:
        for _ in range(_AT_A_TIME):
            if self._inside >= self._most + _MOST_BRIEF:
                self._shut()
                return
            try:
                peer, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no client can come in: %s", error.strerror)
                self._shut()
                self._again = self._loop.call_later(_AGAIN_S, self._open)
                return
            peer.setblocking(False)
            self._inside += 1
            task = self._loop.create_task(self._let_in(peer, self._inside <= self._most))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _let_in(self, peer: socket.socket, may_stay: bool) -> None:
        connection = self._connection(may_stay)
        connection.on_close.append(self._has_left)
        try:
            await self._loop.connect_accepted_socket(lambda: connection, peer)
        except OSError as error:
            log.warning("a client could not come in: %s", error.strerror)
            peer.close()
            self._has_left()

    def _has_left(self) -> None:
        self._inside -= 1
        if self._again is None and self._listener.fileno() >= 0:
            self._open()
