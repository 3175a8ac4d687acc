"""Who is let in by the daemon, and who may stay."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from pathlib import Path
from typing import Any, cast

from event_loops import run_apart
from stoker.api.messages import Wait
from stoker.daemon.door import _MOST_BRIEF, Door, most_to_stay
from stoker.daemon.main import listen
from stoker.daemon.requests.dispatch import Dispatcher
from stoker.daemon.server import Connection

MOST = 3


class Host:
    """A dispatcher that lets those wait who want to, and answers the others."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()

    def handle(self, request: Any, connection: Connection) -> None:
        if not isinstance(request, Wait):
            connection.answer(here=len(self.connections))


def through(listener: socket.socket, host: Host) -> Door:
    dispatcher = cast(Dispatcher, host)
    return Door(listener, MOST, lambda may_stay: Connection(dispatcher, may_stay))


async def asks(path: str, op: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(path)
    request = {"op": op} | ({"select": {"ids": ["1"]}} if op == "wait" else {})
    writer.write(json.dumps(request).encode() + b"\n")
    return reader, writer


async def answer(path: str, op: str) -> dict[str, Any]:
    reader, writer = await asks(path, op)
    async with asyncio.timeout(30):
        line: dict[str, Any] = json.loads(await reader.readline())
    writer.close()
    await writer.wait_closed()
    return line


async def as_many_as_may(path: str, host: Host) -> None:
    waiting = [await asks(path, "wait") for _ in range(MOST)]
    while len(host.connections) < MOST:
        await asyncio.sleep(0)
    refused = await answer(path, "wait")
    assert refused["error"]["code"] == "too_many_clients"
    for _ in range(100):
        assert (await answer(path, "hello"))["ok"]
    _, writer = waiting.pop()
    writer.close()
    await writer.wait_closed()
    while len(host.connections) > MOST - 1:
        await asyncio.sleep(0)
    waiting.append(await asks(path, "wait"))
    while len(host.connections) < MOST:
        await asyncio.sleep(0)
    assert (await answer(path, "wait"))["error"]["code"] == "too_many_clients"
    for _, writer in waiting:
        writer.close()
        await writer.wait_closed()


def test_one_that_wants_to_stay_where_there_is_no_room_is_told_so_and_questions_are_answered(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        path, host = str(tmp_path / "socket"), Host()
        door = through(listen(path), host)
        try:
            async with asyncio.timeout(60):
                await as_many_as_may(path, host)
        finally:
            door.close()

    run_apart(run())


def test_those_for_whom_there_is_no_descriptor_wait_outside_until_others_leave(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        path, host = str(tmp_path / "socket"), Host()
        door = through(listen(path), host)
        most = MOST + _MOST_BRIEF
        try:
            async with asyncio.timeout(60):
                inside = [await asyncio.open_unix_connection(path) for _ in range(most)]
                while len(host.connections) < most:
                    await asyncio.sleep(0)
                late = [await asks(path, "hello") for _ in range(3)]
                for _ in range(100):  # Turns of the loop, in which they could come in.
                    await asyncio.sleep(0)
                assert len(host.connections) == most
                for _, writer in inside:
                    writer.close()
                for reader, writer in late:
                    assert json.loads(await reader.readline())["ok"]
                    writer.close()
        finally:
            door.close()

    run_apart(run())


class Starved:
    """A listener for whose clients the kernel has no descriptor, so many times."""

    def __init__(self, listener: socket.socket, times: int) -> None:
        self._listener = listener
        self.times = times
        self.fileno, self.close = listener.fileno, listener.close

    def accept(self) -> tuple[socket.socket, Any]:
        if self.times:
            self.times -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()


def test_a_client_comes_in_once_the_kernel_has_a_descriptor_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        path = str(tmp_path / "socket")
        starved = Starved(listen(path), times=2)
        door = through(cast(socket.socket, starved), Host())
        try:
            assert (await answer(path, "hello"))["ok"] and not starved.times
        finally:
            door.close()

    run_apart(run())


def test_a_quarter_of_all_files_is_left_for_jobs() -> None:
    assert most_to_stay(1024) == 704
    assert most_to_stay(64) > 0
    assert most_to_stay(1 << 20) > 700_000
