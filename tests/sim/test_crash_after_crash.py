"""An engine that dies again and again still gets everything done."""

from __future__ import annotations

from random import Random

import pytest

from stoker.sim.faults import Steps
from stoker.sim.run import Faults, Simulation

# Many runs each.
pytestmark = pytest.mark.timeout(1500)


@pytest.mark.parametrize(
    ("n", "first"), [(n, first) for n in (6, 7, 11) for first in range(1, n + 1)]
)
def test_a_crash_at_every_nth_step_breaks_nothing(n: int, first: int) -> None:
    run = Simulation(n, 25, Steps(range(first, 10**9, n)))
    run.run()
    assert run.crashes >= 20


@pytest.mark.parametrize("seed", range(40, 48))
def test_crashes_at_random_steps_together_with_all_other_faults_break_nothing(seed: int) -> None:
    random = Random(seed)
    crash_at = {step for step in range(1, 100_000) if random.random() < 0.1}
    faults = Faults(clock_jumps=3, gpus_lost=3, power_cuts=3, disk_full=3, shortages=2)
    run = Simulation(seed, 60, Steps(crash_at), faults)
    run.run()
    assert run.crashes > 50
