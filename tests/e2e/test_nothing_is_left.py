"""After a thousand jobs and as many clients the daemon is as it was: files, memory and timers."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from own_loop import no_other_loop
from stoker.api.paths import Home, make_private
from stoker.daemon.main import Daemon
from waiting import PATIENCE_S

JOBS = 1_000
CLIENTS = 100
# Caches that were not full before, and what happens to be on its way.
SLACK = 300


class Client:
    """A client in the daemon's own loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, home: Home) -> Client:
        return cls(*await asyncio.open_unix_connection(home.socket, limit=1 << 26))

    def send(self, op: str, **fields: Any) -> None:
        self._writer.write(json.dumps({"op": op, **fields}).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S * 2):
            line: dict[str, Any] = json.loads(await self._reader.readline())
        assert line["ok"], line
        return line

    async def call(self, op: str, **fields: Any) -> dict[str, Any]:
        self.send(op, **fields)
        return await self.hear()

    async def leave(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class Census:
    """What there is in this process."""

    def __init__(self) -> None:
        gc.collect()
        objects = gc.get_objects()
        self.things = len(objects)
        self.kinds = Counter(
            f"{type(one).__module__}.{type(one).__qualname__}"
            for one in objects
            if type(one).__module__.startswith(("stoker.", "asyncio."))
        )
        loop: Any = asyncio.get_running_loop()
        self.timers = sum(not handle.cancelled() for handle in loop._scheduled)
        self.files = len(os.listdir("/proc/self/fd"))
        del objects


async def busy_hour(home: Home, one: Client, jobs: int, clients: int) -> None:
    """Jobs that succeed, fail and can't start; clients that follow, watch, wait, ask, and leave.

    One client stays and waits for one thing after the other.
    """
    followers = [await Client.of(home) for _ in range(clients)]
    for number, client in enumerate(followers):
        await client.call("follow", group=f"g{number % 7}")
        if number % 2:
            await client.call("watch", every_ms=60_000)
    commands = (["true"], ["false"], ["/no/such/program"], ["true"])
    order = {"cwd": "/", "env": {"PATH": os.environ["PATH"]}, "user": "tester"}
    for first in range(0, jobs, 50):
        wanted = [
            {"argv": commands[n % 4], "gpus": 0, "cpus": 1, "group": f"g{n % 7}"}
            for n in range(first, first + 50)
        ]
        ids = (await one.call("submit", jobs=wanted, **order))["ids"]
        # Some leave before there is an answer.
        for _ in range(clients // 10):
            leaving = await Client.of(home)
            leaving.send("wait", select={"ids": [str(i) for i in ids]})
            await leaving.leave()
        await one.call("wait", select={"ids": [str(i) for i in ids]})
    for _ in range(jobs):
        await one.call("wait", select={"ids": ["1"]})
    for client in followers:
        await client.leave()
    other = await Client.of(home)
    await other.call("hello")
    await other.leave()
    for _ in range(10):
        await asyncio.sleep(0)  # Those that left are seen to have.


def test_after_a_thousand_jobs_and_their_clients_all_is_as_before(tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    make_private(home.root)
    before_all = Path.cwd()

    async def measured() -> tuple[Census, Census]:
        daemon = Daemon(home, "", 4_096)
        ready = asyncio.Event()
        runs = asyncio.get_running_loop().create_task(daemon.run(ready.set))
        try:
            await ready.wait()
            one = await Client.of(home)
            await busy_hour(home, one, 400, CLIENTS)  # The ring of latest events is full.
            before = Census()
            await busy_hour(home, one, JOBS, CLIENTS)
            after = Census()
            await one.leave()
            return before, after
        finally:
            daemon.shut_down("leave")
            await runs
            daemon.close()

    try:
        with no_other_loop():
            before, after = asyncio.run(measured())
    finally:
        os.chdir(before_all)
        gc.unfreeze()
        gc.set_threshold(700, 10, 10)
    # The ring keeps as many events as before, of whichever kinds. A loop forgets a timer that was
    # called off some time later; those that count are in `timers`.
    told = ("stoker.core.events.", "asyncio.events.TimerHandle")
    grown = {
        kind: n - before.kinds[kind] for kind, n in after.kinds.items() if not kind.startswith(told)
    }
    assert {kind: n for kind, n in grown.items() if n > 5} == {}
    assert after.things - before.things < SLACK
