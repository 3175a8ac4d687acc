"""Jobs that wait for jobs: --after, --after-any, and those whose requirement can't come true."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.check import check
from stoker.core.model import Cause, JobState, Requirement, Terms
from stoker.core.reasons import WaitsForJobs, outcome_words, words
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
    assert scene.state.dependencies.skipped_without([first]) == [second, third, fourth]
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


# ---------------------------------------------------------------------- ranges


def test_a_job_that_requires_a_range_starts_after_the_last_of_it() -> None:
    scene = Scene(4)
    jobs = [scene.submit() for _ in range(3)]
    behind = scene.submit(after_all=[(1, 3, False)])
    assert list(scene.plan()) == jobs
    scene.started(*jobs)
    assert scene.why(behind) == WaitsForJobs((1, 2, 3), must_succeed=False)
    scene.exited(2, 1)
    scene.cancel(3)
    assert scene.plan() == {}
    scene.exited(3, 0)
    assert scene.why(behind) == WaitsForJobs((1,), must_succeed=False)
    scene.exited(1)
    assert list(scene.plan()) == [behind]


def test_what_is_behind_a_range_is_written_down_once_and_not_at_each_end() -> None:
    state = Scene(4).state
    first, second = range(1, 51), range(51, 101)
    for job in (*first, *second):
        requires = (Requirement(1, False, 50),) if job in second else ()
        state.apply(ev.JobSubmitted(state.now_ms, job, whole(), Terms(), requires=requires))
    state.take_change()
    for job in first[:-1]:
        state.apply(ev.JobCancelled(state.now_ms, job))
        assert not state.take_change().touched
    state.apply(ev.JobCancelled(state.now_ms, first[-1]))
    assert list(state.take_change().touched) == list(second)
    assert all(not state.jobs[job].requires for job in second)


def test_all_behind_a_range_are_skipped_when_one_of_it_did_not_succeed_as_it_must() -> None:
    scene = Scene(4)
    for _ in range(3):
        scene.submit()
    behind = [scene.submit(after_all=[(1, 3, True)]) for _ in range(2)]
    either = scene.submit(after_all=[(1, 3, False)])
    after_that, not_that = scene.submit(after=behind[:1]), scene.submit(after=[either])
    skipped_without = scene.state.dependencies.skipped_without
    assert skipped_without([2, 3]) == [*behind, after_that]
    assert skipped_without([either]) == [not_that]
    scene.cancel(2)
    assert [scene.outcomes[job].state for job in behind] == [S.SKIPPED] * 2
    assert outcome_words(scene.outcomes[behind[0]]) == "job 2, which it needs, ended as cancelled"
    scene.plan()
    scene.started(1, 3)
    scene.exited(1)
    scene.exited(3)
    assert list(scene.plan()) == [either]


def test_what_is_behind_a_range_is_doomed_once_however_many_of_it_end_badly() -> None:
    state = Scene(4).state
    for job in range(1, 101):
        requires = (Requirement(1, True, 50),) if job > 50 else ()
        state.apply(ev.JobSubmitted(state.now_ms, job, whole(), Terms(), requires=requires))
    for job in range(1, 51):
        state.apply(ev.JobCancelled(state.now_ms, job))
    assert len(state.dependencies.doomed) == 50
    for skip in state.take_doomed():
        state.apply(skip)
    assert not state.jobs
    check(state)


def test_a_job_that_was_called_off_hears_no_more_of_its_range() -> None:
    scene = Scene(4)
    scene.submit()
    scene.submit()
    behind = scene.submit(after_all=[(1, 2, True)])
    scene.cancel(behind)
    scene.apply(ev.JobRetried(scene.now, behind, whole(), Terms(), 0, None, (), 0))
    scene.cancel(1)
    assert behind in scene.plan()


def test_a_retried_job_keeps_what_is_behind_its_range_waiting_once_more() -> None:
    scene = Scene(4)
    scene.submit()
    scene.submit()
    behind = scene.submit(after_all=[(1, 2, False)])
    scene.plan()
    scene.started(1, 2)
    scene.exited(1, 1)
    scene.apply(ev.JobRetried(scene.now, 1, whole(), Terms(), 0, None, (), 1))
    scene.exited(2)
    assert behind not in scene.plan(), "job 1 runs again"
    scene.started(1)
    scene.exited(1)
    assert list(scene.plan()) == [behind]


def test_a_job_may_require_ranges_and_single_jobs_and_be_held_or_cancelled_meanwhile() -> None:
    scene = Scene(4)
    for _ in range(4):
        scene.submit()
    both = scene.submit(after=[4], after_all=[(1, 2, False), (2, 3, False)], held=True)
    gone = scene.submit(after_all=[(1, 2, False)])
    scene.cancel(gone)
    scene.plan()
    scene.started(1, 2, 3, 4)
    for job in (1, 2, 3, 4):
        scene.exited(job)
    assert not scene.job(both).requires and scene.job(both).state is S.HELD
    scene.apply(ev.JobReleased(scene.now, both))
    assert list(scene.plan()) == [both]


def test_a_range_is_still_waited_for_when_its_first_job_was_also_named_and_has_ended() -> None:
    scene = Scene(3)
    first, last = scene.submit(), scene.submit()
    behind = scene.submit(after_any=[first], after_all=[(first, last, False)])
    assert set(scene.plan()) == {first, last}
    scene.started(first, last)
    scene.exited(first)
    assert scene.plan() == {}
    assert scene.job(behind).requires == (Requirement(first, False, last),)
    scene.exited(last)
    assert list(scene.plan()) == [behind]


PROCESS, OTHER = "4711 98765 boot python train.py", "12 3 boot sh"


def test_a_job_waits_for_a_process_and_says_which() -> None:
    scene = Scene(1)
    job = scene.submit(after_processes=[PROCESS, OTHER])
    assert scene.plan() == {}
    assert words(scene.why(job), scene.now) == (
        "waiting for processes 4711 (python train.py), 12 (sh) to end"
    )
    scene.apply(ev.ProcessEnded(scene.now, OTHER))
    assert scene.plan() == {}
    assert words(scene.why(job), scene.now) == "waiting for process 4711 (python train.py) to end"
    scene.apply(ev.ProcessEnded(scene.now, PROCESS))
    assert list(scene.plan()) == [job]


def test_a_process_holds_up_only_those_that_wait_for_it_and_jobs_count_too() -> None:
    scene = Scene(4)
    first = scene.running()
    both = scene.submit(after_any=[first], after_processes=[PROCESS])
    alone = scene.submit(after_processes=[PROCESS])
    free = scene.submit()
    assert list(scene.plan()) == [free]
    assert scene.why(both) == WaitsForJobs((first,), must_succeed=False)
    scene.apply(ev.ProcessEnded(scene.now, PROCESS))
    assert list(scene.plan()) == [alone]
    scene.exited(first, 1)
    assert list(scene.plan()) == [both]
    check(scene.state)


def test_a_process_that_no_job_waits_for_any_more_is_forgotten() -> None:
    scene = Scene(1)
    one, two = (scene.submit(after_processes=[PROCESS]) for _ in range(2))
    scene.cancel(one)
    assert list(scene.state.dependencies.processes) == [PROCESS]
    scene.cancel(two)
    assert not scene.state.dependencies.processes
    check(scene.state)


def test_a_job_of_the_cluster_stays_here_until_the_process_has_ended() -> None:
    scene = Scene(1)
    job = scene.submit(on_cluster=True, after_processes=[PROCESS])
    assert scene.plan() == {}
    scene.apply(ev.ProcessEnded(scene.now, PROCESS))
    assert list(scene.plan()) == [job]
