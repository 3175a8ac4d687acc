"""The watch on processes that jobs wait for: by pidfd, or by looking where there is none."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from event_loops import run_apart
from stoker.daemon import awaited_processes
from stoker.daemon.awaited_processes import AwaitedProcesses, awaited
from stoker.daemon.loop import TurnLoop
from stoker.engine import Answer, Proposal
from stoker.errors import Unavailable
from waiting import PATIENCE_S

Process = subprocess.Popen[bytes]


class OneProcess:
    """A TurnLoop whose jobs wait for one process until its end is committed."""

    def __init__(self, kept: str, failures: int) -> None:
        self.waiting: dict[str, dict[int, None]] = {kept: {1: None}}
        self.state = SimpleNamespace(dependencies=SimpleNamespace(processes=self.waiting), now_ms=5)
        self.told: list[Any] = []
        self.over = asyncio.Event()
        self._failures = failures

    def ask(self, proposal: Proposal, reply: Any) -> None:
        asyncio.get_running_loop().call_soon(self._turn, proposal, reply)

    def _turn(self, proposal: Proposal, reply: Any) -> None:
        events = proposal(cast(Any, self.state)).events
        if self._failures:
            self._failures -= 1
            reply(Answer(error=Unavailable("the disk is full")))
            return
        self.told += events
        self.waiting.clear()
        reply(Answer({}))
        self.over.set()


@pytest.fixture
def process() -> Iterator[Process]:
    with subprocess.Popen(["cat"], stdin=-1, stdout=-3) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("failures", [0, 2])
@pytest.mark.parametrize("refused", [0, errno.EPERM, errno.EMFILE])
def test_an_end_is_told_until_it_is_committed_whether_or_not_there_are_pidfds(
    process: Process, refused: int, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited_processes, "_LOOK_AGAIN_S", 0.01)
    [requirement] = awaited([str(process.pid)])
    assert requirement.process is not None
    before = len(os.listdir("/proc/self/fd"))

    def no_pidfd(pid: int, flags: int = 0) -> int:
        raise OSError(refused, os.strerror(refused))

    if refused:
        monkeypatch.setattr(os, "pidfd_open", no_pidfd)

    async def watch() -> OneProcess:
        loop = OneProcess(requirement.process or "", failures)
        watched = AwaitedProcesses(cast(TurnLoop, loop))
        watched.look()
        await asyncio.sleep(0)
        assert not loop.told
        process.kill()
        await asyncio.wait_for(loop.over.wait(), PATIENCE_S)
        watched.look()
        return loop

    loop = run_apart(watch())
    assert [event.process for event in loop.told] == [requirement.process]
    assert len(os.listdir("/proc/self/fd")) == before
