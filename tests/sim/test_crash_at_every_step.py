"""The crash sweep: the engine dies at every step there is, and nothing comes of it.

What must hold is checked by the simulation itself, after every turn and at the end: every job is
final, no GPU is held, no job ran twice at once, no reservation was over capacity, the world's own
ledger agrees with the state, and every exit code is the process's own.

One seed each: others take the same paths, and minutes. Try them after a change of the core.
"""

from __future__ import annotations

from collections import Counter

import pytest

from stoker.core.model import Cause
from stoker.executors.acceptances import Void
from stoker.sim.faults import Steps
from stoker.sim.run import Faults, Simulation
from stoker.sim.sweep import Sweep

# Thousands of runs each.
pytestmark = pytest.mark.timeout(1500)

CALM = Faults(clock_jumps=2, gpus_lost=2)


@pytest.mark.parametrize("seed", [3])
def test_a_crash_at_any_step_of_a_run_of_200_jobs_breaks_nothing(seed: int) -> None:
    swept = Sweep(seed, 200, faults=CALM).run()
    assert swept.steps > 2_000
    assert swept.crashes == swept.steps
    assert swept.rejoined + swept.ended == swept.crashes
    assert swept.verified >= 5
    # Nearly every crash leaves no trace at all: the run goes on exactly as if it had not been.
    # Those that do leave one are the crashes of an engine that had just seen the clock being set.
    assert swept.ended <= swept.crashes // 50, swept


@pytest.mark.parametrize("seed", [31])
def test_a_crash_at_any_step_breaks_nothing_where_others_take_over_during_turns(seed: int) -> None:
    faults = Faults(clock_jumps=1, gpus_lost=1, in_a_turn_ms=1_000)
    calm = Simulation(seed, 200, faults=faults)
    calm.run()
    assert calm.world.took_over_in_a_turn >= 5
    swept = Sweep(seed, 200, faults=faults).run()
    assert swept.crashes == swept.steps > 2_000


@pytest.mark.parametrize("seed", [33])
def test_a_full_disk_and_power_cuts_break_nothing_where_others_take_over_during_turns(
    seed: int,
) -> None:
    faults = Faults(
        clock_jumps=1, gpus_lost=1, power_cuts=2, disk_full=2, shortages=2, in_a_turn_ms=1_000,
        policies=True,
    )  # fmt: skip
    swept = Sweep(seed, 60, faults=faults).run()
    assert swept.crashes == swept.steps > 500


@pytest.mark.parametrize("seed", [12])
def test_a_crash_at_any_step_of_the_recovery_from_any_crash_breaks_nothing(seed: int) -> None:
    swept = Sweep(seed, 20, depth=2, faults=CALM).run()
    assert swept.steps > 150
    assert swept.crashes > 5 * swept.steps
    assert swept.rejoined + swept.ended == swept.crashes


@pytest.mark.parametrize("seed", [21])
def test_a_crash_at_any_step_around_power_cuts_and_a_full_disk_breaks_nothing(seed: int) -> None:
    faults = Faults(clock_jumps=1, gpus_lost=1, power_cuts=2, disk_full=2, shortages=2)
    swept = Sweep(seed, 60, faults=faults).run()
    assert swept.crashes == swept.steps > 500


@pytest.mark.parametrize("seed", [46])
def test_a_crash_at_any_step_breaks_nothing_while_jobs_are_stopped_on_a_full_disk(
    seed: int,
) -> None:
    faults = Faults(clock_jumps=2, gpus_lost=0, disk_full=12, in_a_turn_ms=200)
    calm = Simulation(seed, 60, faults=faults)
    calm.run()
    assert calm.stopped_unsaved and calm.disk.on_reserve
    swept = Sweep(seed, 60, faults=faults).run()
    assert swept.crashes == swept.steps > 500


UNRULY = Faults(clock_jumps=1, gpus_lost=1, unruly_clients=True)


@pytest.mark.parametrize("seed", [41, 43])
def test_a_crash_at_any_step_breaks_nothing_where_clients_are_late_unheard_and_die(
    seed: int,
) -> None:
    """Attached jobs, cancels, clients that are stopped, and messages that are lost."""
    swept = Sweep(seed, 12, faults=UNRULY).run()
    assert swept.crashes == swept.steps > 100


@pytest.mark.parametrize("seed", [51, 52])
def test_nothing_that_was_cancelled_runs_and_no_gpu_is_held_by_two(seed: int) -> None:
    faults = Faults(disk_full=3, power_cuts=1, unruly_clients=True)
    run = Simulation(seed, 200, Steps(range(seed, 6_000, 17)), faults)
    run.run()
    assert run.crashes > 50
    void = [
        key for key, acceptance in run.world.terminals.acceptances.items() if acceptance == Void()
    ]
    causes = Counter(outcome.cause for outcome in run.store.attempts.values())
    assert len(void) >= 10 and causes[Cause.REQUEUED] >= 5, causes
    assert not run.world.made.intersection(void), "what was void has run"
