"""MPS servers of a daemon: when they are ended, when that is tried again, what they inherit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu.build import Built
from fakegpu.driver import FakeDriver
from stoker.core.commands import Mps
from stoker.executors import mps
from stoker.executors.mps import CantStart, MpsServers
from stoker.executors.mps_control import Control
from waiting import eventually

GPU = "0"
NO_LIMITS = Mps(None, None)
LIMITS = {
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "10",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=100M",
    "CUDA_MPS_CLIENT_PRIORITY": "1",
}


class Ends:
    """Controls whose end is noted, and fails as long as something uses the server."""

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.in_use = False

    def end(self, control: Control, force: bool = False) -> bool:
        self.asked.append(force)
        return False if self.in_use else _really_end(control, force)


_really_end = Control.end


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    found = Ends()
    monkeypatch.setattr(Control, "end", lambda self, force=False: found.end(self, force))
    return found


@pytest.fixture
def servers(
    tmp_path: Path, built: Built, monkeypatch: pytest.MonkeyPatch, ends: Ends
) -> Iterator[MpsServers]:
    driver = FakeDriver.create(tmp_path / "gpus", devices=1, memory_mib=8192)
    for name, value in {**driver.environment(built, 20), **LIMITS}.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "mps"
    found = MpsServers(root, "test-instance")
    yield found
    ends.in_use = False
    found.close([])
    for path in root.iterdir() if root.is_dir() else []:
        shutil.rmtree(path, ignore_errors=True)


def until_ready(servers: MpsServers, now_ms: int) -> dict[str, str]:
    def asked() -> dict[str, str] | None:
        servers.tend([GPU], now_ms)
        answer = servers.ready(GPU, NO_LIMITS, has_clients=False)
        assert not isinstance(answer, CantStart), answer
        return answer

    found = eventually(asked, "the server is there")
    assert found is not None
    return found


def until_settled(servers: MpsServers, now_ms: int) -> None:
    """Until what was begun is done, and was looked at."""

    def settled() -> bool:
        servers.tend([], now_ms)
        return all(server.task is None for server in servers._servers.values())

    eventually(settled, "no task is under way")


def test_a_server_that_was_just_used_is_not_ended_at_once(servers: MpsServers, ends: Ends) -> None:
    until_ready(servers, 1_000)
    servers.tend([], 2_000)
    servers.tend([], 2_000 + mps._LINGERS_MS - 1)
    assert ends.asked == []
    assert servers.next_wakeup_ms() == 2_000 + mps._LINGERS_MS
    servers.tend([GPU], 2_000 + mps._LINGERS_MS)
    servers.tend([], 10_000)
    servers.tend([], 10_000 + mps._LINGERS_MS - 1)
    assert ends.asked == [], "the time counts from its last use"
    servers.tend([], 10_000 + mps._LINGERS_MS)
    until_settled(servers, 10_000 + mps._LINGERS_MS)
    assert ends.asked == [False] and not servers.any()


def test_a_server_that_is_asked_for_while_it_lingers_begins_anew(
    servers: MpsServers, ends: Ends
) -> None:
    until_ready(servers, 1_000)
    servers.tend([], 2_000)
    assert isinstance(servers.ready(GPU, NO_LIMITS, has_clients=False), dict)
    servers.tend([], 2_000 + mps._LINGERS_MS)
    assert ends.asked == []


def test_a_server_that_could_not_be_ended_is_not_asked_again_at_once(
    servers: MpsServers, ends: Ends
) -> None:
    until_ready(servers, 1_000)
    ends.in_use = True
    servers.tend([], 2_000)
    ended_at = 2_000 + mps._LINGERS_MS
    servers.tend([], ended_at)
    until_settled(servers, ended_at)
    assert ends.asked == [False] and servers.any()
    again_at = ended_at + mps._END_AGAIN_MS
    assert servers.next_wakeup_ms() == again_at
    for moment in (ended_at, ended_at + 1, again_at - 1):
        until_settled(servers, moment)
    assert ends.asked == [False]
    ends.in_use = False
    servers.tend([], again_at)
    until_settled(servers, again_at)
    assert ends.asked == [False, False] and not servers.any()


def test_a_server_inherits_no_limits_from_those_who_started_the_daemon(
    servers: MpsServers,
) -> None:
    variables = until_ready(servers, 1_000)
    assert not LIMITS.keys() & variables.keys()
    (server,) = servers._servers.values()
    processes = server.control.processes()
    assert processes
    for process in processes:
        words = Path(f"/proc/{process.pid}/environ").read_bytes().decode().split("\0")
        names = {word.partition("=")[0] for word in words if word.startswith("CUDA_MPS_")}
        assert names == {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"}


def test_clients_have_the_limits_of_their_own_job(servers: MpsServers) -> None:
    until_ready(servers, 1_000)
    for limits, wanted in (
        (Mps(30, 512), {"30", "0=512M"}),
        (Mps(None, 512), {"0=512M"}),
        (Mps(30, None), {"30"}),
        (NO_LIMITS, set()),
    ):
        answer = servers.ready(GPU, limits, has_clients=True)
        assert isinstance(answer, dict)
        assert {v for k, v in answer.items() if k in LIMITS} == wanted
