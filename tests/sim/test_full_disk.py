"""A disk that is full for a while: submissions are refused, nothing is lost, all goes on after."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.model import JobState
from stoker.errors import Unavailable
from stoker.sim.fingerprint import of_state
from stoker.sim.run import Faults, Simulation
from stoker.engine import Decided


@pytest.mark.parametrize("seed", range(60, 68))
def test_a_run_with_a_full_disk_now_and_then_loses_nothing(seed: int) -> None:
    run = Simulation(seed, 60, faults=Faults(clock_jumps=3, disk_full=5))
    run.run()
    assert run.disk.refused > 5
    assert not [o for o in run.store.outcomes.values() if o.state is JobState.LOST]
