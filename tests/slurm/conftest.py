"""A cluster for each worker that needs one, and a Stoker that knows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm.cluster import Cluster, missing_programs
from stoker_home import StokerHome


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with four GPUs each; started once, by the first test that wants it."""
    missing = missing_programs()
    if missing:
        assert not os.environ.get("CI"), f"the tests on Slurm need {', '.join(missing)}"
        pytest.skip(f"Slurm is not installed here ({', '.join(missing)})")
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    """The same, as good as new for each test."""
    running_cluster.reset()
    return running_cluster


@pytest.fixture
def there(
    cluster: Cluster, home: StokerHome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> StokerHome:
    """A Stoker whose daemon runs, and knows the cluster."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    home.env["SLURM_CONF"] = str(cluster.conf)
    home.start()
    return home
