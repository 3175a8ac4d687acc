"""Jobs that wait for jobs: --after, --after-any, and those whose requirement can't come true."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.model import Cause, JobState, Requirement, Terms
from stoker.core.reasons import WaitsForJobs, outcome_words
from unit.core_scene import Scene, whole

S = JobState


def ended(scene: Scene, job: int, as_what: JobState) -> None:
    """Let a job that waits end in that way."""
    if as_what is S.CANCELLED:
        scene.cancel(job)
        return
    if as_what is S.SKIPPED:
        [required] = [r.job_id for r in scene.job(job).requires or ()]
        scene.cancel(required)
        return
    assert job in scene.plan()
    scene.started(job)
    if as_what is S.LOST:
        scene.vanished(job)
    else:
        scene.exited(job, 0 if as_what is S.SUCCEEDED else 1)


def test_a_job_starts_once_all_that_it_requires_have_succeeded() -> None:
    scene = Scene(4)
    first, second = scene.submit(), scene.submit()
    third = scene.submit(after=[first, second])
    scene.plan()
    scene.started(first, second)
    assert scene.why(third) == WaitsForJobs((first, second), must_succeed=True)
    scene.exited(first)
    assert scene.plan() == {}
    assert scene.why(third) == WaitsForJobs((second,), must_succeed=True)
    scene.exited(second)
    assert list(scene.plan()) == [third]


@pytest.mark.parametrize("as_what", [S.FAILED, S.CANCELLED, S.LOST])
def test_a_job_whose_requirement_did_not_succeed_is_skipped_and_says_which(
    as_what: JobState,
) -> None:
    scene = Scene(1)
    first = scene.submit()
    second = scene.submit(after=[first])
    ended(scene, first, as_what)
    outcome = scene.outcomes[second]
    assert (outcome.state, outcome.cause) == (S.SKIPPED, Cause.REQUIREMENT)
    assert outcome_words(outcome) == f"job {first}, which it needs, ended as {as_what}"


@pytest.mark.parametrize("as_what", [S.SUCCEEDED, S.FAILED, S.CANCELLED, S.LOST])
def test_a_job_that_only_requires_an_end_starts_after_any_end(as_what: JobState) -> None:
    scene = Scene(1)
    first = scene.submit()
    second = scene.submit(after_any=[first])
    ended(scene, first, as_what)
    assert list(scene.plan()) == [second]


def test_a_skipped_job_takes_those_that_require_it_with_it() -> None:
    scene = Scene(1)
    first = scene.submit()
    second = scene.submit(after=[first])
    third = scene.submit(after=[second])
    fourth = scene.submit(after=[third])
    fifth = scene.submit(after_any=[fourth])
    scene.cancel(first)
    assert [scene.where(job) for job in (second, third, fourth)] == [S.SKIPPED] * 3
    assert list(scene.plan()) == [fifth]


def test_a_held_job_is_skipped_too() -> None:
    scene = Scene(1)
    first = scene.submit()
    second = scene.submit(after=[first], held=True)
    scene.cancel(first)
    assert scene.where(second) is S.SKIPPED


def test_a_held_job_forgets_a_requirement_that_came_true_and_stays_held() -> None:
    scene = Scene(1)
    first = scene.running()
    second = scene.submit(after=[first], held=True)
    scene.exited(first)
    assert scene.where(second) is S.HELD
    assert scene.plan() == {}
    scene.apply(ev.JobReleased(scene.now, second))
    assert list(scene.plan()) == [second]


def test_a_job_waits_for_the_last_attempt_of_what_it_requires() -> None:
    scene = Scene(2)
    first = scene.submit(retries=1)
    second = scene.submit(after=[first])
    scene.plan()
    scene.started(first)
    scene.exited(first, 1)
    assert scene.where(second) is S.WAITING
    scene.pass_s(60)
    assert list(scene.plan()) == [first]
    scene.started(first)
    scene.exited(first, 0)
    assert list(scene.plan()) == [second]


def test_a_job_with_one_requirement_of_each_kind_needs_both() -> None:
    scene = Scene(2)
    must, may = scene.running(), scene.running()
    both = scene.submit(after=[must], after_any=[may])
    scene.exited(may, 1)
    assert scene.plan() == {}
    scene.exited(must, 0)
    assert list(scene.plan()) == [both]


def test_a_job_that_requires_two_that_fail_at_once_is_skipped_once() -> None:
    scene = Scene(2)
    first, second = scene.submit(), scene.submit()
    third = scene.submit(after=[first, second])
    scene.state.apply(ev.JobCancelled(scene.now, first))
    scene.state.apply(ev.JobCancelled(scene.now, second))
    scene.apply()
    assert scene.where(third) is S.SKIPPED


def test_a_cancelled_job_no_longer_waits_for_anything() -> None:
    scene = Scene(1)
    first = scene.running()
    second = scene.submit(after=[first])
    scene.cancel(second)
    scene.exited(first, 1)
    assert scene.where(second) is S.CANCELLED


def test_a_retried_job_is_not_bound_by_what_it_required_before() -> None:
    scene = Scene(2)
    first = scene.running()
    second = scene.submit(after=[first])
    scene.cancel(second)
    scene.apply(ev.JobRetried(scene.now, second, whole(), Terms(), 0, None, (), 0))
    assert list(scene.plan()) == [second]
    scene.exited(first, 1)
    assert scene.where(second) is S.RUNNING


def test_a_retried_job_may_require_anew() -> None:
    scene = Scene(2)
    first = scene.running()
    second = scene.submit(after=[first])
    scene.cancel(second)
    requires = (Requirement(first, True),)
    scene.apply(ev.JobRetried(scene.now, second, whole(), Terms(), 0, None, requires, 0))
    assert scene.plan() == {}
    scene.exited(first)
    assert list(scene.plan()) == [second]


def test_a_requirement_and_a_moment_must_both_come() -> None:
    scene = Scene(1)
    first = scene.running()
    second = scene.submit(after=[first], at_ms=scene.now + 5_000)
    scene.exited(first)
    assert scene.plan() == {}
    scene.pass_s(5)
    assert list(scene.plan()) == [second]


def test_no_gpu_is_held_back_for_a_job_that_waits_for_another() -> None:
    scene = Scene(2)
    first = scene.running()
    scene.submit(whole(2), after=[first])
    small = scene.submit()
    assert list(scene.plan()) == [small]
