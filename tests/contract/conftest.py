"""Executors to try the contract on, and the end of whatever they started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from contract.executor_benches import LOCAL, Bench, LocalBench, SimBench, SlurmBench
from quickspawn import needs_quickspawn
from slurm.cluster import Cluster
from stoker.executors.processes import children_of_this_process
from stoker.executors.spawn import Made, Streams
from stoker.executors.warm_servers import IdleCopy
from stoker_home import processes_with
from waiting import eventually


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBench]:
    """A LocalExecutor that waits until programs are loaded."""
    with _local(tmp_path, monkeypatch, quick=False) as bench:
        yield bench


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBench]:
    """A LocalExecutor that never waits for that."""
    needs_quickspawn()
    with _local(tmp_path, monkeypatch, quick=True) as bench:
        yield bench


@pytest.fixture(params=LOCAL)
def local(request: pytest.FixtureRequest) -> LocalBench:
    """A LocalExecutor, of either kind."""
    bench: LocalBench = request.getfixturevalue(request.param)
    return bench


@contextmanager
def _local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, quick: bool) -> Iterator[LocalBench]:
    """One whose processes end with the test."""
    monkeypatch.chdir(tmp_path)  # The executor leaves us in "/", as is right for a daemon.
    bench = LocalBench(tmp_path, quick=quick)
    become = IdleCopy.become

    def told(
        idle_copy: IdleCopy, words: list[str], cwd: str, env: dict[str, str], streams: Streams
    ) -> Made:
        bench.on_disk.about_to_tell(idle_copy.process, env)
        return become(idle_copy, words, cwd, env, streams)

    monkeypatch.setattr(IdleCopy, "become", told)
    monkeypatch.setattr(os, "waitid", lambda *words: bench.on_disk.waitid(*words))
    try:
        yield bench
    finally:
        bench.close()
        _end_all(f"STOKER_HOME={tmp_path}".encode(), bench.made)


def _end_all(mark: bytes, made: Sequence[int]) -> None:
    def gone() -> bool:
        # Until it has loaded its program a process has no mark, but then it is still our child.
        children = [pid for pid in children_of_this_process() or () if pid in made]
        for pid in (*children, *processes_with(mark)):
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
        return not children and not processes_with(mark)

    eventually(gone, "no process is left")


@pytest.fixture
def slurm(cluster: Cluster, tmp_path: Path) -> Iterator[SlurmBench]:
    """A SlurmExecutor on a real cluster."""
    bench = SlurmBench(tmp_path, cluster)
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture(params=[*LOCAL, "simulated", "slurm"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Each executor in turn."""
    if request.param == "simulated":
        return SimBench()
    made: Bench = request.getfixturevalue(request.param)
    return made
