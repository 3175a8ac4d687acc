"""Executors to try the contract on, and the end of whatever they started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.executor_benches import Bench, LocalBench, SimBench, SlurmBench
from slurm.cluster import Cluster
from stoker_home import processes_with
from waiting import eventually


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBench]:
    """A LocalExecutor whose processes end with the test."""
    monkeypatch.chdir(tmp_path)  # The executor leaves us in "/", as is right for a daemon.
    bench = LocalBench(tmp_path)
    try:
        yield bench
    finally:
        bench.close()
        _end_all(f"STOKER_HOME={tmp_path}".encode())


def _end_all(mark: bytes) -> None:
    def gone() -> bool:
        for pid in processes_with(mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while True:
            # Those are our children, as jobs are the daemon's.
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        return not processes_with(mark)

    eventually(gone, "no process is left")


@pytest.fixture
def slurm(cluster: Cluster, tmp_path: Path) -> Iterator[SlurmBench]:
    """A SlurmExecutor on a real cluster."""
    bench = SlurmBench(tmp_path, cluster)
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture(params=["local", "simulated", "slurm"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Each executor in turn."""
    if request.param == "slurm":
        at_cluster: SlurmBench = request.getfixturevalue("slurm")
        return at_cluster
    if request.param == "local":
        made: LocalBench = request.getfixturevalue("local")
        return made
    return SimBench()
