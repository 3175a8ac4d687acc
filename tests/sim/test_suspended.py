"""Jobs that are suspended and continued, in a simulated world with crashes at any step.

What holds of every simulated run is checked by the simulation itself: no process stands that is not
suspended, no limit ends one before it had its time of running, a suspended one keeps its GPUs.
"""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.model import Cause
from stoker.sim.run import Faults, Simulation
from stoker.sim.sweep import Sweep

pytestmark = pytest.mark.timeout(1500)

OFTEN = Faults(suspended=0.6, going_on=0.3, power_cuts=1, disk_full=1, shortages=1)


@pytest.mark.parametrize("seed", [61, 62])
def test_suspended_jobs_end_and_their_limits_stand_still(seed: int) -> None:
    run = Simulation(seed, 100, faults=OFTEN)
    run.run()  # It checks at its end that all jobs are final.
    kinds = [type(event) for event in run.log]
    assert kinds.count(ev.AttemptSuspended) >= 8 and kinds.count(ev.AttemptContinued) >= 8
    asked = {
        event.job_id for event in run.log
        if isinstance(event, ev.SuspendRequested) and _is_limited(run, event.job_id)
    }  # fmt: skip
    assert len(asked) >= 3, "hardly any was suspended under a time limit"


def _is_limited(run: Simulation, job_id: int) -> bool:
    submitted = (one for one in run.log if isinstance(one, ev.JobSubmitted))
    return any(one.job_id == job_id and one.terms.time_limit_ms for one in submitted)


def test_a_suspended_attempt_has_its_gpus_until_it_ends() -> None:
    run = Simulation(64, 80, faults=Faults(suspended=0.8, gpus_lost=0))
    stood = stopped = 0
    while run.step():
        state = run.engine.state
        for job_id in state.active:
            attempt = state.jobs[job_id].active
            if attempt is None or attempt.suspended_at_ms is None:
                continue
            stood += 1
            assert all(job_id in state.gpus[gpu_id].held_by for gpu_id in attempt.gpus)
        stopped += any(
            isinstance(event, ev.StopRequested) and event.cause is Cause.CANCELLED
            for event in run.log[-20:]
        )
    assert stood >= 20 and stopped


def test_a_crash_at_any_step_breaks_nothing_where_jobs_are_suspended() -> None:
    faults = Faults(clock_jumps=1, gpus_lost=1, going_on=0.3, suspended=0.6, disk_full=1)
    swept = Sweep(65, 16, faults=faults).run()
    assert swept.crashes == swept.steps > 200
    assert swept.rejoined + swept.ended == swept.crashes
