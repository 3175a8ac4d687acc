"""MPS as the core sees it: faults that cost no retry, and limits from what is reserved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.core import events as ev
from stoker.core.commands import Mps, Start, commands_for
from stoker.core.model import Cause, Exit, JobState, Need, Outcome, Profile, Terms
from stoker.executors.mps_clients import may_be_a_victim
from unit.core_scene import GIB, Scene, mem, share, whole

UNDER_MPS = Terms(mps=True, thread_percentage=40)


def submitted(scene: Scene, need: Need, terms: Terms = UNDER_MPS) -> int:
    job_id = scene.state.next_job_id
    scene.apply(ev.JobSubmitted(scene.now, job_id, need, terms))
    return job_id


def taken_down(scene: Scene, job_id: int) -> None:
    attempt = scene.state.jobs[job_id].attempt
    scene.apply(ev.AttemptStarted(scene.now, job_id, attempt, 4711))
    scene.apply(ev.AttemptExited(scene.now, job_id, attempt, Exit(code=1), mps_fault=True))


def start_of(scene: Scene, job_id: int) -> Start:
    (found,) = [o for o in commands_for(scene.state) if isinstance(o, Start) and o.job_id == job_id]
    return found


def test_an_attempt_that_a_server_took_along_is_repeated_at_once_and_costs_no_retry() -> None:
    scene = Scene(1)
    job = submitted(scene, mem(4))
    scene.plan()
    taken_down(scene, job)
    waiting = scene.state.jobs[job]
    assert (waiting.state, waiting.failures, waiting.mps_faults) == (JobState.WAITING, 0, 1)
    assert waiting.backoff_until_ms is None
    assert scene.attempt_outcomes[job, 1] == Outcome(JobState.FAILED, Cause.MPS_FAULT, Exit(code=1))


def test_after_three_times_it_counts_as_any_failure() -> None:
    scene = Scene(1)
    job = submitted(scene, mem(4), replace(UNDER_MPS, retries=1))
    for _ in range(4):
        scene.plan()
        taken_down(scene, job)
    assert scene.state.jobs[job].failures == 1
    scene.pass_s(2)
    scene.plan()
    taken_down(scene, job)
    assert scene.outcomes[job].cause is Cause.MPS_FAULT


def test_a_job_that_was_told_to_stop_is_not_repeated() -> None:
    scene = Scene(1)
    job = submitted(scene, mem(4))
    scene.plan()
    scene.apply(ev.AttemptStarted(scene.now, job, 1, 4711))
    scene.apply(ev.StopRequested(scene.now, job, 1, Cause.CANCELLED))
    scene.apply(ev.AttemptExited(scene.now, job, 1, Exit(code=1), mps_fault=True))
    assert scene.outcomes[job].state is JobState.CANCELLED


@pytest.mark.parametrize(
    ("need", "limit_mib"), [(mem(4), 4 * GIB), (share(0.5), 12 * GIB), (whole(), None)]
)
def test_what_is_reserved_is_the_limit(need: Need, limit_mib: int | None) -> None:
    scene = Scene(1)
    job = submitted(scene, need)
    scene.plan()
    assert start_of(scene, job).mps == Mps(40, limit_mib)


@pytest.mark.parametrize(("runs", "limited"), [(0, False), (1, False), (2, True)])
def test_what_was_learned_is_a_limit_only_after_two_runs(runs: int, limited: bool) -> None:
    scene = Scene(1)
    profile = Profile("kind", runs, 2048, 2048.0, 0.0, 1000, 10, 0, scene.now)
    scene.apply(ev.ProfileLearned(scene.now, profile))
    job = submitted(scene, Need(kind="kind"))
    scene.plan()
    assert start_of(scene, job).mps == Mps(40, 2048 + 512 if limited else None)


def test_a_job_that_met_its_limit_alone_on_a_gpu_is_repeated_with_more() -> None:
    scene = Scene(1)
    job = submitted(scene, mem(4))
    scene.plan()
    scene.apply(ev.AttemptStarted(scene.now, job, 1, 4711))
    scene.apply(ev.AttemptExited(scene.now, job, 1, Exit(code=1), out_of_memory=True))
    assert scene.state.jobs[job].floor_mib == 6 * GIB
    scene.plan()
    assert start_of(scene, job).mps == Mps(40, 6 * GIB)


def test_jobs_without_mps_are_started_without_it() -> None:
    scene = Scene(1)
    job = submitted(scene, mem(4), Terms())
    scene.plan()
    assert start_of(scene, job).mps is None


@pytest.mark.parametrize(
    ("how", "victim"),
    [
        (Exit(code=0), False),
        (Exit(code=1), True),
        (Exit(signal=6), True),  # An exception that nobody caught.
        (Exit(code=134), True),
        (Exit(signal=9), False),
        (Exit(code=137), False),
        (Exit(signal=11), False),
        (Exit(code=143), False),
    ],
)
def test_one_that_was_killed_is_no_victim_of_its_server(how: Exit, victim: bool) -> None:
    assert may_be_a_victim(how) is victim
