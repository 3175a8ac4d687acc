"""The crash sweep: the engine dies at every step there is, and nothing comes of it.

What must hold is checked by the simulation itself, after every turn and at the end: every job is
final, no GPU is held, no job ran twice at once, no reservation was over capacity, the world's own
ledger agrees with the state, and every exit code is the process's own.
"""

from __future__ import annotations

import pytest

from stoker.sim.run import Faults, Simulation
from stoker.sim.sweep import Sweep

CALM = Faults(clock_jumps=2, gpus_lost=2)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_crash_at_any_step_of_a_run_of_200_jobs_breaks_nothing(seed: int) -> None:
    swept = Sweep(seed, 200, faults=CALM).run()
    assert swept.steps > 2_000
    assert swept.crashes == swept.steps
    assert swept.rejoined + swept.ended == swept.crashes
    assert swept.verified >= 5
    # Nearly every crash leaves no trace at all: the run goes on exactly as if it had not been.
    # Those that do leave one are the crashes of an engine that had just seen the clock being set.
    assert swept.ended <= swept.crashes // 50, swept


@pytest.mark.parametrize("seed", [31, 32])
def test_a_crash_at_any_step_breaks_nothing_where_others_take_over_during_turns(seed: int) -> None:
    faults = Faults(clock_jumps=1, gpus_lost=1, in_a_turn_ms=1_000)
    calm = Simulation(seed, 200, faults=faults)
    calm.run()
    assert calm.world.took_over_in_a_turn >= 5
    swept = Sweep(seed, 200, faults=faults).run()
    assert swept.crashes == swept.steps > 2_000


@pytest.mark.parametrize("seed", [33, 34])
def test_a_full_disk_and_power_cuts_break_nothing_where_others_take_over_during_turns(
    seed: int,
) -> None:
    faults = Faults(clock_jumps=1, gpus_lost=1, power_cuts=2, disk_full=2, in_a_turn_ms=1_000)
    swept = Sweep(seed, 60, faults=faults).run()
    assert swept.crashes == swept.steps > 500


@pytest.mark.parametrize("seed", [11, 12])
def test_a_crash_at_any_step_of_the_recovery_from_any_crash_breaks_nothing(seed: int) -> None:
    swept = Sweep(seed, 20, depth=2, faults=CALM).run()
    assert swept.steps > 150
    assert swept.crashes > 5 * swept.steps
    assert swept.rejoined + swept.ended == swept.crashes


@pytest.mark.parametrize("seed", [21, 22])
def test_a_crash_at_any_step_around_power_cuts_and_a_full_disk_breaks_nothing(seed: int) -> None:
    faults = Faults(clock_jumps=1, gpus_lost=1, power_cuts=2, disk_full=2)
    swept = Sweep(seed, 60, faults=faults).run()
    assert swept.crashes == swept.steps > 500
