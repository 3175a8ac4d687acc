"""Jobs that give way for urgent ones, in a simulated world.

What holds of every simulated run is checked by the simulation itself: that nothing gives way that
did not offer it or for what is not urgent, how much work is lost, that no GPU is given twice (by
the world's own ledger), and that all jobs end.
"""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.fit import fits_beside, reservation
from stoker.core.model import Cause, JobState
from stoker.sim.run import Faults, Simulation
from stoker.sim.sweep import Sweep

pytestmark = pytest.mark.timeout(1500)

SEEDS = [61, 62, 63, 64]
OFTEN = Faults(giving_way=0.6, going_on=0.3, power_cuts=1, disk_full=1, shortages=1)


def stops(run: Simulation) -> list[ev.StopRequested]:
    """What was told to give way for an urgent job."""
    told = [event for event in run.log if isinstance(event, ev.StopRequested)]
    return [event for event in told if event.cause is Cause.GAVE_WAY and event.detail]


def test_only_offered_jobs_give_way_and_end_and_lose_no_more_than_since_they_saved() -> None:
    lost: list[int] = []
    for seed in SEEDS:
        run = Simulation(seed, 150, faults=OFTEN)
        run.run()  # After each turn it checks what it is told, and in the end that all jobs are.
        assert len(stops(run)) >= 3
        put_back = {
            key
            for key, outcome in run.store.attempts.items()
            if outcome.cause is Cause.GAVE_WAY and outcome.state is JobState.WAITING
        }
        assert put_back
        lost += [run.world.lost_ms[key] for key in put_back & run.world.may_lose_ms.keys()]
    assert any(lost) and not all(lost), "the bound of what is lost was not put to the test"


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_kept_for_an_urgent_job_is_given_to_none_that_comes_after_it(seed: int) -> None:
    run = Simulation(seed, 150, faults=Faults(giving_way=0.6, gpus_lost=0))
    seen = 0
    more = True
    while more:
        before = len(run.log)
        kept = {i: run.engine.state.jobs[i].kept for i in run.engine.state.keeping}
        more = run.step()
        state = run.engine.state
        placed = [e for e in run.log[before:] if isinstance(e, ev.AttemptPlaced)]
        for keeper_id, gpus in kept.items():
            keeper = state.jobs.get(keeper_id)
            if keeper is None or keeper.kept != gpus:
                continue  # It has started, or is served elsewhere.
            for event in placed:
                job = state.jobs.get(event.job_id)
                if job is None or job.active is None or job.rank < keeper.rank:
                    continue
                for gpu_id in set(event.gpus) & set(gpus):
                    gpu = state.gpus[gpu_id]
                    staying = [r for i, r in gpu.held_by.items() if i not in state.stopping]
                    assert fits_beside(reservation(keeper.need, gpu), staying, gpu), f"{event}"
        seen += bool(kept)
    assert seen


@pytest.mark.parametrize("seed", [65, 67])
def test_a_crash_at_any_step_breaks_nothing_where_jobs_give_way(seed: int) -> None:
    faults = Faults(clock_jumps=1, gpus_lost=1, giving_way=0.7, power_cuts=1, disk_full=1)
    calm = Simulation(seed, 60, faults=faults)
    calm.run()
    assert len(stops(calm)) >= 3
    swept = Sweep(seed, 60, faults=faults).run()
    assert swept.crashes == swept.steps > 800
    assert swept.rejoined + swept.ended == swept.crashes
