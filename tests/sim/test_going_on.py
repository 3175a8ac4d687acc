"""Jobs that are put back, in a simulated world: by their exit codes, slices, users and power cuts.

What holds of every simulated run is checked by the simulation itself.
"""

from __future__ import annotations

from collections import Counter

import pytest

from stoker.core import events as ev
from stoker.core.model import Cause, JobState
from stoker.sim.run import Faults, Simulation
from stoker.sim.sweep import Sweep

pytestmark = pytest.mark.timeout(1500)

SEEDS = [51, 52, 53, 54]
OFTEN = Faults(going_on=0.5, power_cuts=2, disk_full=1, shortages=1)


def ran(seed: int, faults: Faults = OFTEN) -> Simulation:
    """A whole run of 150 jobs."""
    run = Simulation(seed, 150, faults=faults)
    run.run()
    return run


def put_back(run: Simulation) -> Counter[Cause]:
    """Why attempts were over whose jobs then waited again."""
    outcomes = run.store.attempts.values()
    return Counter(one.cause for one in outcomes if one.state is JobState.WAITING)


@pytest.mark.parametrize("seed", SEEDS)
def test_put_back_jobs_end(seed: int) -> None:
    run = ran(seed)  # It checks at its end that all jobs are final.
    causes = put_back(run)
    assert min(causes[cause] for cause in (Cause.EXIT, Cause.SLICE, Cause.REQUEUED)) >= 1, causes
    assert Cause.STUCK in {outcome.cause for outcome in run.store.outcomes.values()}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slice_is_ended_only_for_jobs_that_wait_and_after_its_time(seed: int) -> None:
    run = Simulation(seed, 150, faults=Faults(going_on=0.5, clock_jumps=0))
    slices = 0
    more = True
    while more:
        before = len(run.log)
        more = run.step()
        for event in run.log[before:]:
            if not isinstance(event, ev.StopRequested) or event.cause is not Cause.SLICE:
                continue
            slices += 1
            job = run.engine.state.jobs[event.job_id]
            attempt = job.active
            assert attempt is not None and attempt.started_at_ms is not None
            assert job.terms.slice_ms is not None
            had_ms = event.at_ms - attempt.started_at_ms
            assert had_ms >= job.terms.slice_ms - job.terms.signal_before_ms
            waiting = [one for one in run.engine.state.jobs.values() if one.active is None]
            assert any(one.priority <= job.priority for one in waiting)
    assert slices >= 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_dependant_starts_once_its_requirement_has_had_its_last_attempt(seed: int) -> None:
    run = ran(seed)
    submitted = {event.job_id: event for event in run.log if isinstance(event, ev.JobSubmitted)}
    awaited = 0
    for place, event in enumerate(run.log):
        if not isinstance(event, ev.AttemptPlaced):
            continue
        for requirement in submitted[event.job_id].requires:
            for job_id in requirement.ids:
                later = [
                    other
                    for other in run.log[place:]
                    if isinstance(other, ev.AttemptPlaced) and other.job_id == job_id
                ]
                asked_again = any(
                    isinstance(other, ev.JobRetried) and other.job_id == job_id for other in run.log
                )
                assert not later or asked_again, f"{event}, and then {later[0]}"
                awaited += 1
    assert awaited >= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_no_retry_is_spent_on_being_put_back(seed: int) -> None:
    run = ran(seed)
    terms = {e.job_id: e.terms for e in run.log if isinstance(e, ev.JobSubmitted)}
    for job_id, its_terms in terms.items():
        if not its_terms.requeue_on:
            continue
        ends = [one for (i, _), one in sorted(run.store.attempts.items()) if i == job_id]
        failures = [one for one in ends if one.state in (JobState.FAILED, JobState.LOST)]
        assert len(failures) <= its_terms.retries + 1
        if run.store.outcomes[job_id].state is JobState.FAILED and len(ends) > 1:
            stuck = run.store.outcomes[job_id].cause is Cause.STUCK
            assert stuck or len(failures) == its_terms.retries + 1, ends


@pytest.mark.parametrize("seed", [55, 56])
def test_a_crash_at_any_step_breaks_nothing_where_jobs_are_put_back(seed: int) -> None:
    faults = Faults(clock_jumps=1, gpus_lost=1, going_on=0.6, power_cuts=1, disk_full=1)
    swept = Sweep(seed, 60, faults=faults).run()
    assert swept.crashes == swept.steps > 800
    assert swept.rejoined + swept.ended == swept.crashes
