"""The way to the daemon: a few connections for requests, and one feed of changes for all tabs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from stoker.api.paths import Home, socket_address
from stoker.errors import StokerError, Unavailable, Unreachable, from_wire

MOST_CONNECTIONS = 4
ANSWER_WITHIN_S = 60.0
_LONGEST_LINE = 256 * 1024 * 1024

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """Requests to the daemon, a few at a time."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._idle: list[Stream] = []
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)

    async def call(self, op: str, /, **fields: Any) -> dict[str, Any]:
        """One request and its answer; what the daemon reports as an error is raised."""
        line = msgspec.json.encode({"op": op, **fields}) + b"\n"
        async with self._room:
            try:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    return await self._exchange(line)
            except TimeoutError:
                raise Unavailable(
                    "the daemon has not answered in time", "look whether the request was taken"
                ) from None

    async def _exchange(self, line: bytes) -> dict[str, Any]:
        stream = self._idle.pop() if self._idle else await connected(self.home)
        reader, writer = stream
        try:
            writer.write(line)
            await writer.drain()
            answer = await reader.readline()
        except BaseException as error:
            writer.close()
            if isinstance(error, OSError):
                raise _gone() from None
            raise
        if not answer.endswith(b"\n"):
            writer.close()
            raise _gone()
        self._idle.append(stream)
        return understood(answer)

    @asynccontextmanager
    async def watching(self, every_ms: int) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The feed of changes, on a connection of its own, as long as it is wanted."""
        reader, writer = await connected(self.home)
        try:
            writer.write(msgspec.json.encode({"op": "watch", "every_ms": every_ms}) + b"\n")
            yield _lines(reader)
        finally:
            writer.close()


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    while True:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise _gone()
        yield understood(line)


async def connected(home: Home) -> Stream:
    """A connection to the daemon; it is never started for this."""
    directory = -1
    try:
        address, directory = socket_address(home.socket)
        return await asyncio.open_unix_connection(address, limit=_LONGEST_LINE)
    except OSError:
        raise _gone() from None
    finally:
        if directory >= 0:
            os.close(directory)


def understood(line: bytes) -> dict[str, Any]:
    """A line of the daemon's; an error that it reports is raised."""
    answer: dict[str, Any] = msgspec.json.decode(line)
    if not answer.pop("ok", False):
        raise from_wire(answer.get("error") or {})
    return answer


def _gone() -> StokerError:
    return Unreachable("the daemon is not there", "`stoker daemon start` starts it")
