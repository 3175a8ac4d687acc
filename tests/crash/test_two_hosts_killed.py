"""Two machines on one state directory, killed again and again; `make two-hosts` does more of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from crash.two_hosts import torment
from hosts import missing

KILLS = 60
pytestmark = pytest.mark.timeout(1500)


def test_no_job_is_lost_or_run_twice_by_the_machine_that_does_not_have_it(tmp_path: Path) -> None:
    why = missing()
    if why:
        pytest.skip(f"no machines can be made of namespaces here: {why}")
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    found, table = torment(tmp_path, KILLS, seed)
    print(table)
    assert found == []
