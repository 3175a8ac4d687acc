"""A disk that is full for a while: submissions are refused, nothing is lost, all goes on after."""

from __future__ import annotations

from functools import partial

import pytest

from stoker.core import events as ev
from stoker.core.model import Cause, JobState, Need, Terms
from stoker.core.state import State
from stoker.engine import Decided
from stoker.errors import Unavailable
from stoker.sim.fingerprint import of_state
from stoker.sim.run import Faults, Simulation
from stoker.sim.scenario import cancel
from stoker.sim.world import NEVER_MS, Process


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
    run.disk.free()
    run.run()


def test_what_runs_for_ever_can_be_stopped_on_a_full_disk_and_is_on_record_with_room() -> None:
    run = Simulation(4, 80, faults=Faults(0, 0))
    while not (endless := [key for key, p in run.world.processes.items() if is_endless(p)]):
        assert run.step(), "there is such a job in the scenario"
    job_id, number = endless[0]
    run.todo.clear()
    run.disk.disk_full, run.disk.reserve = True, 0
    [answer] = run.engine.turn([partial(cancel, job_id, run.store)])
    assert answer.error is None and "not on record" in answer.note
    for _ in range(200):
        run.step()
    assert (job_id, number) not in run.world.processes, "it was stopped, by force if need be"
    assert (job_id, number) not in run.store.attempts
    run.disk.free()
    run.turn()
    outcome = run.store.attempts[job_id, number]
    assert outcome.cause is Cause.CANCELLED and outcome.state is JobState.CANCELLED


def test_a_submission_gets_nothing_of_the_room_that_is_kept_for_stops() -> None:
    run = Simulation(3, 80, faults=Faults(0, 0))
    while len(run.world.processes) < 3:
        run.step()
    job_id = next(iter(run.world.processes))[0]
    made, known = set(run.world.made), run.engine.state.next_job_id
    run.disk.disk_full, run.disk.reserve = True, 1
    refused, stopped = run.engine.turn([submission, partial(cancel, job_id, run.store)])
    assert isinstance(refused.error, Unavailable)
    assert stopped.error is None and not stopped.note
    assert run.disk.on_reserve == 1
    assert run.engine.state.next_job_id == known, "only the stop is on record"
    assert run.world.made == made, "and nothing was started"


def is_endless(process: Process) -> bool:
    return process.ends_at_ms >= NEVER_MS and process.behaviour.heeds_stop_after_ms is None


def test_jobs_that_end_while_the_disk_is_full_are_recorded_once_there_is_room() -> None:
    run = Simulation(3, 80, faults=Faults(0, 0))
    while len(run.world.processes) < 3:
        run.step()
    mortal = {key for key, p in run.world.processes.items() if p.ends_at_ms < NEVER_MS}
    run.disk.disk_full, run.disk.reserve = True, 0
    for _ in range(2_000):
        if not mortal & set(run.world.processes):
            break
        run.step()
    assert mortal and not mortal & set(run.world.processes), "they all have ended"
    assert not mortal & set(run.store.attempts), "and nobody could write it down"
    run.disk.free()
    run.turn()
    assert mortal <= set(run.store.attempts)
    run.run()
