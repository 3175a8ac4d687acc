"""A run is a function of its seed, and memory is at any time what the record says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import stoker
from stoker.core import events as ev
from stoker.core.model import JobState
from stoker.sim.faults import Steps
from stoker.sim.fingerprint import of_state
from stoker.sim.run import Faults, Simulation
from unit.core_scene import with_terminals

ALL_FAULTS = Faults(clock_jumps=3, gpus_lost=3, power_cuts=2, disk_full=2, shortages=2)

PRINT_LOG = """
from stoker.sim.faults import Steps
from stoker.sim.run import Faults, Simulation
run = Simulation(5, 60, Steps(range(3, 10**9, 40)), Faults(3, 3, 3, 2, 2))
run.run()
print("\\n".join(map(repr, run.log)))
"""


def test_the_same_seed_gives_the_same_log() -> None:
    logs = []
    for _ in range(2):
        run = Simulation(5, 60, faults=ALL_FAULTS)
        run.run()
        logs.append(run.log)
    assert logs[0] == logs[1]
    assert len(logs[0]) > 300


def test_another_seed_gives_another_log() -> None:
    first, second = Simulation(5, 20), Simulation(6, 20)
    first.run()
    second.run()
    assert first.log != second.log


def test_the_log_does_not_depend_on_the_order_of_sets() -> None:
    """The order of sets of strings differs from process to process: by the seed of their hash."""
    source = str(Path(stoker.__file__).parents[1])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PRINT_LOG],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source},
            capture_output=True,
            check=True,
            timeout=300,
        ).stdout
        for hash_seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    assert outputs.pop().count(b"\n") > 300


def test_what_is_in_memory_is_after_every_turn_what_the_record_says() -> None:
    for seed in (31, 32):
        run = Simulation(seed, 80, faults=ALL_FAULTS)
        more = True
        while more:
            more = run.step()
            state = run.engine.state
            loaded = with_terminals(run.store.load(state.now_ms), state)
            assert of_state(loaded) == of_state(state)


def test_the_same_run_with_crashes_in_it_ends_with_the_same_outcomes() -> None:
    """With no clock that is set, a crash is not even seen by the users."""
    faults = Faults(clock_jumps=0, gpus_lost=2)
    calm = Simulation(8, 80, faults=faults)
    calm.run()
    shaken = Simulation(8, 80, Steps(range(1, 10**9, 60)), faults)
    shaken.run()
    assert shaken.crashes > 15
    assert shaken.store.outcomes == calm.store.outcomes
    assert shaken.store.attempts == calm.store.attempts
    assert shaken.clock.true_ms == calm.clock.true_ms


def test_a_run_has_everything_in_it_that_can_happen() -> None:
    """A sweep proves nothing about what never happens in it."""
    seen: set[type[ev.Event]] = set()
    ended: set[JobState] = set()
    for seed in (1, 2, 3, 4):
        run = Simulation(seed, 200, faults=Faults(2, 2))
        run.run()
        seen |= {type(event) for event in run.log}
        ended |= {outcome.state for outcome in run.store.outcomes.values()}
    power = Simulation(1, 60, faults=ALL_FAULTS)
    power.run()
    seen |= {type(event) for event in power.log}
    ended |= {outcome.state for outcome in power.store.outcomes.values()}
    unruly = Simulation(1, 60, Steps(range(0, 3_000, 50)), Faults(unruly_clients=True))
    unruly.run()
    seen |= {type(event) for event in unruly.log}
    for faults in (Faults(suspended=0.3, giving_way=0.5, policies=True), Faults(measured=0.6)):
        later = Simulation(1, 100, faults=faults)
        later.run()
        seen |= {type(event) for event in later.log}
    never = {ev.JobsRemoved, ev.SubmissionTaken}  # They change nothing but the record.
    never |= {ev.JobsSubmitted}  # The same as many of the other, as the contract of stores says.
    never |= {ev.ProfilesForgotten}
    never |= {ev.ProcessEnded}  # No process is there that is not the world's own.
    never |= {ev.DiskLooked}  # The disk of the simulated world is full or not.
    # There is no cluster in the simulated world.
    never |= {ev.AttemptAccepted, ev.AttemptCutShort, ev.ClusterLimited}
    assert set(ev.Event.__args__) - seen == never
    assert {str(state) for state in ended} == {
        "succeeded",
        "stopped",
        "failed",
        "cancelled",
        "skipped",
        "lost",
    }
