"""A Stoker that knows the cluster; and if a test fails, what both of them say of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from slurm.autopsy import findings
from slurm.cluster import Cluster
from stoker_home import StokerHome


@pytest.fixture
def there(cluster: Cluster, home: StokerHome, monkeypatch: pytest.MonkeyPatch) -> StokerHome:
    """A Stoker whose daemon runs, and knows the cluster."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    home.env["SLURM_CONF"] = str(cluster.conf)
    home.start()
    return home


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Look while everything is still there: the fixtures take it all down with them."""
    report = yield
    if report.when == "call" and report.failed:
        found: dict[str, Any] = getattr(item, "funcargs", {})
        if isinstance(found.get("cluster"), Cluster):
            text = findings(found.get("there"), found["cluster"])
            report.sections.append(("Stoker and Slurm", text))
    return report
