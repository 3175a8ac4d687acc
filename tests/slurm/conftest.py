"""A Stoker that knows the cluster."""

from __future__ import annotations

import pytest

from slurm.cluster import Cluster
from stoker_home import StokerHome


@pytest.fixture
def there(cluster: Cluster, home: StokerHome, monkeypatch: pytest.MonkeyPatch) -> StokerHome:
    """A Stoker whose daemon runs, and knows the cluster."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    home.env["SLURM_CONF"] = str(cluster.conf)
    home.start()
    return home
