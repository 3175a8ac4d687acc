"""Jobs that are a cluster's: handed over as soon as nothing here stands in their way."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core import reasons as why
from stoker.core.commands import Awaited, HandOver, commands_for
from stoker.core.model import Cause, JobState
from unit.core_scene import Scene, cpu_only, whole

S = JobState


def handed_over(scene: Scene, retries: int = 0) -> int:
    job = scene.submit(on_cluster=True, retries=retries)
    assert scene.plan() == {job: ()}
    scene.accepted(job)
    return job


def test_a_job_of_the_cluster_takes_neither_gpus_nor_cpu_slots_here() -> None:
    scene = Scene(1, cpus=2)
    job = scene.submit(whole(8, cpus=64), on_cluster=True)
    assert scene.plan() == {job: ()}
    assert scene.where(job) is S.SUBMITTED
    assert not scene.gpu("0").held_by and scene.state.cpus_used == 0


def test_jobs_of_this_machine_do_not_stand_in_its_way_nor_it_in_theirs() -> None:
    scene = Scene(1, cpus=1)
    scene.running()
    blocked = scene.submit(whole(), priority=-5)
    there = scene.submit(whole(4), on_cluster=True)
    here = scene.submit(cpu_only())
    assert set(scene.plan()) == {there, here}
    assert scene.where(blocked) is S.WAITING


def test_it_is_ordered_until_the_cluster_has_taken_it() -> None:
    scene = Scene(0)
    job = scene.submit(on_cluster=True)
    scene.plan()
    order, need = commands_for(scene.state), scene.job(job).need
    assert order == [HandOver(job, 1, "slurm", need, scene.job(job).terms, 0, None, ())]
    scene.accepted(job)
    assert commands_for(scene.state) == []
    assert scene.attempt(job).place == f"9{job}"


def test_no_more_than_the_limit_are_with_the_cluster_at_a_time() -> None:
    scene = Scene(0)
    scene.apply(ev.ClusterLimited(scene.now, 2))
    jobs = [scene.submit(on_cluster=True) for _ in range(3)]
    assert list(scene.plan()) == jobs[:2]
    assert scene.why(jobs[2]) == why.ClusterIsFull(2)
    scene.accepted(*jobs[:2])
    scene.started(jobs[0])
    scene.exited(jobs[0])
    assert list(scene.plan()) == jobs[2:]


def test_a_limited_or_paused_group_holds_its_jobs_back_from_the_cluster_too() -> None:
    scene = Scene(0)
    scene.apply(ev.GroupLimited(scene.now, "a", 1), ev.QueuePaused(scene.now, "b"))
    first, second = (scene.submit(on_cluster=True, group="a") for _ in range(2))
    paused = scene.submit(on_cluster=True, group="b")
    assert list(scene.plan()) == [first]
    assert scene.why(second) == why.GroupIsFull("a", 1)
    assert scene.why(paused) == why.QueueIsPaused("b")
    scene.apply(ev.QueueResumed(scene.now, "b"))
    assert list(scene.plan()) == [paused]


def test_its_time_limit_and_its_moment_are_for_the_cluster_to_keep() -> None:
    scene = Scene(0)
    job = scene.submit(on_cluster=True, limit_s=1, at_ms=scene.now + 3_600_000)
    assert scene.plan() == {job: ()}
    scene.accepted(job)
    scene.started(job)
    scene.pass_s(10_000)
    assert scene.where(job) is S.RUNNING and scene.state.next_timer_ms() is None


# ---------------------------------------------------------------------- jobs that wait for others


def test_it_is_handed_over_while_it_waits_for_another_that_the_cluster_has() -> None:
    scene = Scene(0)
    first = scene.submit(on_cluster=True)
    second = scene.submit(on_cluster=True, after=[first])
    assert list(scene.plan()) == [first]
    assert scene.why(second) == why.WaitsForJobs((first,), True)
    scene.accepted(first)
    assert list(scene.plan()) == [second]
    (order,) = commands_for(scene.state)
    assert isinstance(order, HandOver) and order.after == (Awaited(first, 1, True),)


def test_it_stays_here_while_it_waits_for_a_job_of_this_machine() -> None:
    scene = Scene(1)
    first = scene.running()
    second = scene.submit(on_cluster=True, after=[first])
    assert scene.plan() == {}
    assert scene.why(second) == why.WaitsForJobs((first,), True)
    scene.exited(first)
    assert list(scene.plan()) == [second]


def test_a_job_of_this_machine_waits_for_one_of_the_cluster_to_end() -> None:
    scene = Scene(1)
    first = handed_over(scene)
    second = scene.submit(after=[first])
    assert scene.plan() == {}
    scene.started(first)
    scene.exited(first)
    assert list(scene.plan()) == [second]


def test_it_is_not_handed_over_to_wait_for_one_that_is_being_stopped() -> None:
    scene = Scene(0)
    first = handed_over(scene)
    second = scene.submit(on_cluster=True, after_any=[first])
    scene.cancel(first)
    assert scene.plan() == {}
    scene.not_started(first)
    assert list(scene.plan()) == [second]


def test_it_stays_here_while_the_other_one_is_between_two_attempts() -> None:
    scene = Scene(0)
    first = handed_over(scene, retries=1)
    second = scene.submit(on_cluster=True, after=[first])
    scene.started(first)
    scene.exited(first, 1)
    assert scene.plan() == {}
    assert scene.why(second) == why.WaitsForJobs((first,), True)
    scene.pass_s(1)
    assert list(scene.plan()) == [first]
    scene.accepted(first)
    assert list(scene.plan()) == [second]


def test_one_whose_requirement_failed_is_withdrawn_from_the_cluster_and_skipped() -> None:
    scene = Scene(0)
    first = handed_over(scene)
    second = scene.submit(on_cluster=True, after=[first], retries=3)
    scene.plan()
    scene.accepted(second)
    scene.started(first)
    scene.exited(first, 2)
    assert scene.where(second) is S.STOPPING
    scene.not_started(second)
    outcome = scene.outcomes[second]
    assert outcome.state is S.SKIPPED
    assert why.outcome_words(outcome) == f"job {first}, which it needs, did not succeed"


# ---------------------------------------------------------------------- endings


def test_what_its_search_stops_early_at_a_cluster_is_stopped_however_the_cluster_tells_it() -> None:
    for cause in (Cause.CANCELLED, Cause.CLUSTER):
        scene = Scene(1)
        job = scene.submit(on_cluster=True, retries=2)
        scene.plan()
        scene.accepted(job)
        scene.started(job)
        scene.stop_early(job)
        scene.cut_short(job, cause)
        assert scene.where(job) is S.STOPPED
        assert scene.outcomes[job].cause is Cause.STOPPED_EARLY


@pytest.mark.parametrize("cause", [Cause.PREEMPTED, Cause.NODE_FAILED, Cause.REQUEUED])
def test_a_job_whose_place_was_taken_away_is_tried_again_without_counting_it(cause: Cause) -> None:
    scene = Scene(0)
    job = handed_over(scene)
    scene.started(job)
    scene.evicted(job, cause)
    assert scene.attempt_outcomes[job, 1].cause is cause
    assert scene.where(job) is S.WAITING and scene.job(job).failures == 0
    scene.pass_s(1)
    assert scene.plan() == {job: ()}
    assert scene.attempt(job).number == 2


def test_one_that_is_evicted_again_and_again_waits_longer_and_longer() -> None:
    scene = Scene(0)
    job = scene.submit(on_cluster=True)
    waits = []
    for _ in range(4):
        scene.plan()
        scene.evicted(job)
        until = scene.job(job).backoff_until_ms
        assert until is not None
        waits.append(until - scene.now)
        scene.pass_s(waits[-1] / 1000)
    assert waits == [1_000, 2_000, 4_000, 8_000]


def test_one_that_is_cancelled_and_evicted_meanwhile_is_cancelled() -> None:
    scene = Scene(0)
    job = handed_over(scene)
    scene.started(job)
    scene.cancel(job)
    scene.evicted(job)
    assert scene.where(job) is S.CANCELLED


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        (Cause.TIME_LIMIT, S.FAILED),
        (Cause.NODE_MEMORY, S.FAILED),
        (Cause.CLUSTER, S.FAILED),
        (Cause.CANCELLED, S.CANCELLED),
    ],
)
def test_what_the_cluster_says_of_an_end_is_its_cause(cause: Cause, state: JobState) -> None:
    scene = Scene(0)
    job = handed_over(scene)
    scene.started(job)
    scene.cut_short(job, cause)
    assert (scene.outcomes[job].state, scene.outcomes[job].cause) == (state, cause)


def test_a_time_limit_at_the_cluster_may_be_retried_and_somebody_elses_cancel_may_not() -> None:
    scene = Scene(0)
    limited, called_off = handed_over(scene, retries=1), handed_over(scene, retries=1)
    scene.started(limited, called_off)
    scene.cut_short(limited, Cause.TIME_LIMIT)
    scene.cut_short(called_off, Cause.CANCELLED)
    assert scene.where(limited) is S.WAITING and scene.where(called_off) is S.CANCELLED
