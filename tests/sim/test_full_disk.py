"""A disk that is full for a while: submissions are refused, nothing is lost, all goes on after."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.model import JobState, Need, Terms
from stoker.core.state import State
from stoker.engine import Decided
from stoker.errors import Unavailable
from stoker.sim.fingerprint import of_state
from stoker.sim.run import Faults, Simulation
from stoker.sim.world import NEVER_MS


@pytest.mark.parametrize("seed", range(60, 66))
def test_a_run_with_a_full_disk_now_and_then_loses_nothing(seed: int) -> None:
    run = Simulation(seed, 60, faults=Faults(clock_jumps=3, disk_full=5))
    run.run()
    assert run.disk.refused > 5
    assert not [o for o in run.store.outcomes.values() if o.state is JobState.LOST]


def submission(state: State) -> Decided:
    return Decided([ev.JobSubmitted(state.now_ms, state.next_job_id, Need(), Terms())])


def test_a_submission_to_a_full_disk_is_refused_and_running_jobs_are_not_disturbed() -> None:
    run = Simulation(3, 80, faults=Faults(0, 0))
    while len(run.world.processes) < 3:
        run.step()
    run.turn()
    before = of_state(run.engine.state)
    processes = set(run.world.processes)
    run.disk.disk_full = True
    for _ in range(5):
        [answer] = run.engine.turn([submission])
        assert isinstance(answer.error, Unavailable)
        assert "no space left on device" in answer.error.message
    assert of_state(run.engine.state) == before
    assert set(run.world.processes) == processes
    run.disk.disk_full = False
    run.run()


def test_jobs_that_end_while_the_disk_is_full_are_recorded_once_there_is_room() -> None:
    run = Simulation(3, 80, faults=Faults(0, 0))
    while len(run.world.processes) < 3:
        run.step()
    mortal = {key for key, p in run.world.processes.items() if p.ends_at_ms < NEVER_MS}
    run.disk.disk_full = True
    for _ in range(2_000):
        if not mortal & set(run.world.processes):
            break
        run.step()
    assert mortal and not mortal & set(run.world.processes), "they all have ended"
    assert not mortal & set(run.store.attempts), "and nobody could write it down"
    run.disk.disk_full = False
    run.turn()
    assert mortal <= set(run.store.attempts)
    run.run()
