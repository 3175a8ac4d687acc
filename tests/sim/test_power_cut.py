"""Engine and processes die together: what ran is lost, or runs again, and nothing else changes."""

from __future__ import annotations

import pytest

from stoker.core.model import Attempt, Cause, Job, JobState, copied
from stoker.sim.agreement import check_end
from stoker.sim.faults import Steps
from stoker.sim.run import Faults, Simulation

NO_OTHER_FAULTS = Faults(clock_jumps=0, gpus_lost=0)


def run_until_busy(seed: int, turns: int) -> Simulation:
    """A run in which at least three processes are alive, after so many turns or more."""
    run = Simulation(seed, 120, faults=NO_OTHER_FAULTS)
    for number in range(10_000):
        assert run.step()
        if number >= turns and len(run.world.processes) >= 3:
            return run
    raise AssertionError("never busy")


def take_in_the_news(run: Simulation) -> None:
    """One turn in which nobody asks for anything and nothing new is started."""
    asked, run.todo = run.todo, []
    run.engine.starts_nothing = True
    assert run.turn()
    run.engine.starts_nothing = False
    run.todo = asked


@pytest.mark.parametrize("seed", range(6))
def test_jobs_that_ran_are_lost_or_run_again_and_no_other_job_changes(seed: int) -> None:
    run = run_until_busy(seed, 40 + 40 * seed)
    before = {job_id: copied(job) for job_id, job in run.engine.state.jobs.items()}
    outcomes = dict(run.store.outcomes)
    ran = {job_id for job_id, job in before.items() if job.active is not None}
    run.cut_power()
    take_in_the_news(run)
    after = run.engine.state.jobs
    for job_id, job in before.items():
        if job.active is not None:
            assert_lost_or_retried(run, job, job.active)
        elif not {i for r in job.requires or () for i in r.ids} & ran:
            assert after[job_id] == job, "a job that neither ran nor waits for one was changed"
    assert {i: run.store.outcomes[i] for i in outcomes} == outcomes, "what was final stays so"
    run.run()


def assert_lost_or_retried(run: Simulation, before: Job, attempt: Attempt) -> None:
    key = (before.id, attempt.number)
    outcome = run.store.attempts.get(key)
    after = run.engine.state.jobs.get(before.id)
    if key not in run.world.made:
        assert outcome is None, "it never had a process, so it is simply started now"
        return
    assert outcome is not None and outcome.exit is None, "an exit code was invented"
    if attempt.stop is not None:
        assert outcome.cause is attempt.stop.cause, "it was being stopped, and that it is"
    else:
        assert (outcome.state, outcome.cause) == (JobState.LOST, Cause.NO_TRACE)
    if outcome.state is not JobState.CANCELLED and before.failures < before.terms.retries:
        assert after is not None and after.state is JobState.WAITING
        assert after.failures == before.failures + 1
        assert after.backoff_until_ms is not None
    else:
        assert after is None
        assert run.store.outcomes[before.id] == outcome


@pytest.mark.parametrize("seed", range(50, 56))
def test_a_run_with_power_cuts_ends_with_every_job_final(seed: int) -> None:
    run = Simulation(seed, 60, faults=Faults(power_cuts=6))
    run.run()
    lost = [key for key, o in run.store.attempts.items() if o.state is JobState.LOST]
    assert lost
    for job_id, number in lost:
        was_last = (job_id, number + 1) not in run.store.attempts
        if was_last:
            ended_as = run.store.outcomes[job_id].state
            assert ended_as in (JobState.LOST, JobState.CANCELLED, JobState.SKIPPED)


class CuttingSteps(Steps):
    """At every so many steps, a run branches off in which the power is cut right there."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every
        self.cuts = 0
        self.placed_only = 0  # cuts that met an attempt that was committed and not yet started

    def take(self) -> None:
        self.taken += 1
        if self.taken % self._every:
            return
        self.cuts += 1
        branch = self.run.survivor(Steps())
        active = [branch.engine.state.jobs[job_id].active for job_id in branch.engine.state.active]
        keys = {
            (job_id, attempt.number)
            for job_id, attempt in zip(branch.engine.state.active, active, strict=True)
            if attempt is not None
        }
        self.placed_only += bool(keys - branch.world.made)
        branch.cut_power()
        while branch.step():
            pass
        check_end(branch)


@pytest.mark.parametrize("seed", [71, 72])
def test_the_power_may_be_cut_at_any_step(seed: int) -> None:
    steps = CuttingSteps(every=11)
    Simulation(seed, 30, steps, NO_OTHER_FAULTS).run()
    assert steps.cuts > 25
    assert steps.placed_only > 3
