"""Engine and processes die together: what ran is lost, or runs again, and nothing else changes."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.model import Cause, Job, JobState, Need, copied
from stoker.sim.run import Faults, Simulation


def run_until_busy(seed: int, turns: int) -> Simulation:
    """A run in which at least three processes are alive, after so many turns or more."""
    run = Simulation(seed, 120, faults=Faults(0, 0))
    for number in range(10_000):
        assert run.step()
        if number >= turns and len(run.world.processes) >= 3:
            return run
    raise AssertionError("never busy")


def settle(run: Simulation) -> None:
    """One turn after a power cut: what the executor has to tell is known."""
    run.engine.starts_nothing = True
    asked, run.todo = run.todo, []
    run.turn()
    run.todo = asked
    run.engine.starts_nothing = False


@pytest.mark.parametrize("seed", range(6))
def test_jobs_that_ran_are_lost_or_run_again_and_no_other_job_changes(seed: int) -> None:
    run = run_until_busy(seed, 40 + 60 * seed)
    before = {job_id: copied(job) for job_id, job in run.engine.state.jobs.items()}
    outcomes = dict(run.store.outcomes)
    unsettled = {fact.job_id for fact in run.world.unsettled}
    ran = {job_id for job_id, _ in run.world.processes} | unsettled
    run.cut_power()
    settle(run)
    after = run.engine.state.jobs
    for job_id, job in before.items():
        attempt = job.active
        if attempt is None or job_id not in ran:
            assert after[job_id] == job, "a job that did not run was changed"
            continue
        outcome = run.store.attempts.get((job_id, attempt.number))
        if (job_id, attempt.number) not in run.world.made:
            assert outcome is None  # It never had a process, so it is simply started now.
        elif attempt.stop is not None:
            assert outcome is not None and outcome.cause is attempt.stop.cause
        else:
            assert outcome is not None and outcome.state is JobState.LOST
            assert outcome.cause is Cause.NO_TRACE and outcome.exit is None
            assert_retried_if_it_may_be(job, after.get(job_id))
    assert {i: run.store.outcomes[i] for i in outcomes} == outcomes
    run.run()


def assert_retried_if_it_may_be(before: Job, after: Job | None) -> None:
    if before.failures < before.terms.retries:
        assert after is not None and after.state is JobState.WAITING
        assert after.failures == before.failures + 1
        assert after.backoff_until_ms is not None
    else:
        assert after is None


@pytest.mark.parametrize("seed", range(50, 58))
def test_a_run_with_power_cuts_ends_with_every_job_final(seed: int) -> None:
    run = Simulation(seed, 60, faults=Faults(power_cuts=6))
    run.run()
    lost = [key for key, o in run.store.attempts.items() if o.state is JobState.LOST]
    assert lost
    for job_id, number in lost:
        again = (job_id, number + 1) in run.store.attempts
        assert again or not run.store.outcomes[job_id].state is JobState.SUCCEEDED


def test_a_job_that_was_placed_but_not_started_starts_after_the_power_is_back() -> None:
    run = Simulation(3, 0)
    run.world.needs[1] = Need()
    state = run.engine.state
    run.engine.turn()
    del state
    from stoker.core.model import Terms  # noqa: PLC0415
    from stoker.engine import Decided  # noqa: PLC0415

    run.disk.disk_full = False
    run.engine.turn([lambda s: Decided([ev.JobSubmitted(s.now_ms, 1, Need(), Terms())])])
