"""The stand-in for nvidia-cuda-mps-control, and workloads as its clients."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu.build import Built
from fakegpu.driver import FakeDriver
from waiting import eventually


class Mps:
    """One control daemon, for the first device of a machine."""

    def __init__(self, directory: Path, built: Built) -> None:
        self.driver = FakeDriver.create(directory / "gpus", devices=2, memory_mib=8192)
        self.built = built
        self.logs = directory / "logs"
        self.env = {
            **self.driver.environment(built, speed=50),
            "CUDA_MPS_PIPE_DIRECTORY": str(directory / "pipes"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.logs),
            "CUDA_VISIBLE_DEVICES": self.driver.uuid(0),
        }
        self.started: list[subprocess.Popen[str]] = []

    def control(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.built.mps_control), *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def ask(self, command: str) -> list[str]:
        done = subprocess.run(
            [str(self.built.mps_control)],
            env=self.env,
            input=f"{command}\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def server(self) -> str:
        (pid,) = self.ask("get_server_list")
        return pid

    def train(self, words: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(self.built.train), *words.split()],
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def client(self, words: str = "") -> subprocess.Popen[str]:
        """One that is in the middle of its work, and stays there."""
        process = self.train(f"--peak 500M --seconds 100000 {words}")
        eventually(
            lambda: any(a.pid == process.pid and a.use_percent for a in self.driver.allocations()),
            "it works",
        )
        return process

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
        self.ask("quit -t 0")


@pytest.fixture
def mps(tmp_path: Path, built: Built) -> Iterator[Mps]:
    mps = Mps(tmp_path, built)
    started = mps.control("-d")
    assert started.returncode == 0, started.stderr
    try:
        yield mps
    finally:
        mps.end()


def test_a_server_starts_with_its_first_client_and_is_on_the_gpu_itself(mps: Mps) -> None:
    assert mps.ask("get_server_list") == []
    client = mps.client()
    server = mps.server()
    assert mps.ask(f"get_server_status {server}") == ["ACTIVE"]
    assert mps.ask(f"get_client_list {server}") == [str(client.pid)]
    on_gpu = {a.pid: (a.device, a.mps) for a in mps.driver.allocations()}
    assert on_gpu == {int(server): (0, False), client.pid: (0, True)}


def test_a_client_that_ends_by_itself_disturbs_nobody(mps: Mps) -> None:
    neighbour = mps.client()
    brief = mps.train("--peak 300M --seconds 1")
    out, _ = brief.communicate()
    assert json.loads(out)["mps"] is True
    assert brief.returncode == 0
    assert mps.ask(f"get_server_status {mps.server()}") == ["ACTIVE"]
    assert neighbour.poll() is None


def test_a_busy_client_that_is_killed_takes_its_neighbours_down(mps: Mps) -> None:
    neighbour, victim = mps.client(), mps.client()
    server = mps.server()
    victim.kill()
    victim.wait()
    _, err = neighbour.communicate()
    assert neighbour.returncode == 1
    assert "unspecified launch failure" in err
    log = (mps.logs / "control.log").read_text()
    assert "from ACTIVE to FAULT" in log
    eventually(lambda: mps.ask(f"get_server_status {server}") == ["ACTIVE"], "it recovers")
    assert mps.train("--peak 300M --seconds 1").wait() == 0


def test_a_server_in_fault_takes_nobody_until_its_clients_are_gone(mps: Mps) -> None:
    neighbour, victim = mps.client(), mps.client()
    server = mps.server()
    neighbour.send_signal(signal.SIGSTOP)
    victim.kill()
    victim.wait()
    eventually(lambda: mps.ask(f"get_server_status {server}") == ["FAULT"], "it is in FAULT")
    refused = mps.train("--peak 300M")
    _, err = refused.communicate()
    assert refused.returncode == 1
    assert "the MPS server is not ready" in err
    neighbour.kill()
    neighbour.wait()
    eventually(lambda: mps.ask(f"get_server_status {server}") == ["ACTIVE"], "it recovers")


def test_a_client_that_was_terminated_first_may_be_killed(mps: Mps) -> None:
    neighbour, victim = mps.client(), mps.client("--stubborn")
    server = mps.server()
    assert mps.ask(f"terminate_client {server} {victim.pid}") == []
    eventually(
        lambda: victim.pid not in {a.pid for a in mps.driver.allocations()}, "it has nothing left"
    )
    victim.kill()
    victim.wait()
    eventually(lambda: mps.ask(f"get_client_list {server}") == [str(neighbour.pid)], "it is gone")
    assert mps.ask(f"get_server_status {server}") == ["ACTIVE"]
    assert neighbour.poll() is None


def test_the_pinned_limit_is_a_client_s_memory(mps: Mps) -> None:
    limit = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G"}
    over = mps.train("--peak 1500M --seconds 1", **limit)
    _, err = over.communicate()
    assert over.returncode == 1
    assert "CUDA out of memory" in err
    assert mps.train("--peak 900M --seconds 1", **limit).wait() == 0


def test_a_share_of_the_threads_bounds_the_use(mps: Mps) -> None:
    assert mps.ask("set_default_active_thread_percentage 50") == ["50.0"]
    assert mps.ask("get_default_active_thread_percentage") == ["50.0"]
    process = mps.train("--peak 300M --use 100% --seconds 5")
    report = json.loads(process.communicate()[0])
    assert report["devices"][0]["most_use_percent"] == 50
    assert report["seconds"] >= 9.9
    assert mps.ask("set_default_active_thread_percentage 150") == ["Invalid percentage 150"]


def test_quitting_ends_daemon_and_server(tmp_path: Path, built: Built) -> None:
    mps = Mps(tmp_path, built)
    assert mps.control("-d").returncode == 0
    assert mps.control("-d").returncode == 1, "there is one a pipe directory"
    mps.ask(f"start_server -uid {os.getuid()}")
    server = mps.server()
    assert mps.ask("quit") == []
    assert not Path(f"/proc/{server}").exists()
    assert mps.control().returncode == 0, "no command was asked"
    unanswered = subprocess.run(
        [str(built.mps_control)], env=mps.env, input=b"get_server_list\n", capture_output=True
    )
    assert unanswered.returncode == 1
    assert b"Cannot find MPS control daemon" in unanswered.stderr


def test_without_a_daemon_a_program_runs_without_mps(tmp_path: Path, built: Built) -> None:
    process = Mps(tmp_path, built).train("--peak 300M --seconds 1")
    report = json.loads(process.communicate()[0])
    assert (process.returncode, report["mps"]) == (0, False)
