"""Jobs that are put back: another attempt without a failure, and where it stands in line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.core import events as ev
from stoker.core.commands import Start, Terminate, Warn
from stoker.core.model import Cause, Exit, JobState, Outcome
from unit.core_scene import Scene, cpu_only, mem, whole

S = JobState
USR2 = 12
HOUR_S = 3600.0


def sliced(scene: Scene, **more: object) -> int:
    """A job in slices of an hour that runs."""
    job = scene.submit(slice_ms=3_600_000, requeue_on=(75,), **more)  # type: ignore[arg-type]
    assert job in scene.plan()
    scene.started(job)
    return job


def rerun(scene: Scene, job: int) -> None:
    """The job is the next to start."""
    assert next(iter(scene.plan())) == job
    scene.started(job)


# ---------------------------------------------------------------------- by its own exit code


def test_an_exit_code_that_asks_for_it_is_no_failure_and_the_job_waits_again() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75, 76))
    for code in (75, 76, 75):
        rerun(scene, job)
        scene.exited(job, code)
        assert scene.where(job) is S.WAITING
        assert (scene.job(job).failures, scene.job(job).backoff_until_ms) == (0, None)
    assert scene.job(job).resumes == 3
    assert scene.attempt_outcomes[job, 2] == Outcome(S.WAITING, Cause.EXIT, Exit(code=76))


def test_another_exit_code_is_a_failure_and_retries_are_for_failures_only() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,), retries=1)
    for code, failures in ((75, 0), (1, 1), (75, 1)):
        scene.pass_s(2)
        rerun(scene, job)
        scene.exited(job, code)
        assert scene.job(job).failures == failures
    rerun(scene, job)
    scene.exited(job, 1)
    assert scene.outcomes[job] == Outcome(S.FAILED, Cause.EXIT, Exit(code=1))


def test_code_75_means_nothing_to_a_job_that_did_not_say_so() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.exited(job, 75)
    assert scene.where(job) is S.FAILED


def test_code_75_at_the_time_limit_puts_back_and_any_other_end_is_the_limits() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,), limit_s=10)
    for code, where in ((75, S.WAITING), (143, S.FAILED)):
        rerun(scene, job)
        scene.pass_s(10)
        assert scene.where(job) is S.STOPPING
        scene.exited(job, code)
        assert scene.where(job) is where


def test_a_cancelled_job_is_not_put_back_whatever_its_exit_code() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,))
    rerun(scene, job)
    scene.cancel(job)
    scene.exited(job, 75)
    assert scene.where(job) is S.CANCELLED


def test_dependants_wait_until_the_last_attempt_has_ended() -> None:
    scene = Scene(2)
    job = scene.submit(requeue_on=(75,))
    after, anyhow = scene.submit(after=[job]), scene.submit(after_any=[job])
    for _ in range(3):
        rerun(scene, job)
        scene.exited(job, 75)
        assert {scene.where(after), scene.where(anyhow)} == {S.WAITING}
    rerun(scene, job)
    assert scene.plan() == {}
    scene.exited(job, 0)
    assert set(scene.plan()) == {after, anyhow}


# ---------------------------------------------------------------------- its place in line


def test_a_job_that_is_put_back_stands_behind_its_equals_and_before_later_ones() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,))
    rerun(scene, job)
    equals = [scene.submit() for _ in range(3)]
    worse = scene.submit(priority=1)
    scene.exited(job, 75)
    later = scene.submit()
    order = []
    for _ in range(6):
        (next_one,) = scene.plan()
        order.append(next_one)
        scene.started(next_one)
        scene.exited(next_one, 0)
    assert order == [*equals, job, later, worse]


def test_a_job_that_keeps_its_place_goes_where_it_was() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,), keep_place=True)
    rerun(scene, job)
    scene.submit()
    scene.exited(job, 75)
    assert list(scene.plan()) == [job]


def test_jobs_that_are_put_back_take_turns_and_none_starves() -> None:
    scene = Scene(1)
    jobs = [scene.submit(requeue_on=(75,)) for _ in range(3)]
    order = []
    for _ in range(9):
        (job,) = scene.plan()
        order.append(job)
        scene.started(job)
        scene.exited(job, 75)
    assert order == jobs * 3


def test_who_is_ahead_of_a_job_that_was_put_back_is_counted() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,))
    rerun(scene, job)
    others = [scene.submit() for _ in range(5)]
    scene.exited(job, 75)
    later = scene.submit()
    ahead = scene.state.ahead_of([scene.job(job), scene.job(others[2]), scene.job(later)])
    assert ahead == {job: 5, others[2]: 2, later: 6}


def test_its_place_is_behind_the_same_jobs_after_its_priority_was_changed() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,))
    rerun(scene, job)
    other = scene.submit(priority=-1)
    scene.exited(job, 75)
    scene.edit(job, priority=-1)
    assert list(scene.plan()) == [other]
    scene.exited(other, 0)
    assert list(scene.plan()) == [job]


# ---------------------------------------------------------------------- slices


def test_a_job_past_its_slice_goes_on_as_long_as_none_wait() -> None:
    scene = Scene(1)
    job = sliced(scene)
    scene.pass_s(10 * HOUR_S)
    assert scene.plan() == {}
    assert (scene.where(job), scene.commands(job)) == (S.RUNNING, [])


def test_it_is_told_to_stop_as_soon_as_one_comes_to_wait_and_is_put_back_behind_it() -> None:
    scene = Scene(1)
    job = sliced(scene)
    scene.pass_s(10 * HOUR_S)
    other = scene.submit()
    scene.plan()
    assert scene.where(job) is S.STOPPING
    assert scene.commands(job) == [Terminate(job, 1, force=False)]
    scene.exited(job, 75)
    assert scene.attempt_outcomes[job, 1] == Outcome(S.WAITING, Cause.SLICE, Exit(code=75))
    assert list(scene.plan()) == [other]


def test_it_is_not_stopped_before_its_slice_is_over() -> None:
    scene = Scene(1)
    job = sliced(scene)
    scene.submit()
    scene.pass_s(HOUR_S - 1)
    scene.plan()
    assert scene.where(job) is S.RUNNING
    scene.pass_s(1)
    scene.plan()
    assert scene.where(job) is S.STOPPING


@pytest.mark.parametrize("need", [whole(2), whole(1, on=("1",)), mem(30), cpu_only(9)])
def test_one_that_could_not_start_in_its_place_does_not_end_its_slice(need: object) -> None:
    scene = Scene(1)
    job = sliced(scene)
    scene.pass_s(2 * HOUR_S)
    scene.submit(need)  # type: ignore[arg-type]
    scene.plan()
    assert scene.where(job) is S.RUNNING


def test_one_that_finds_a_free_gpu_does_not_end_its_slice() -> None:
    scene = Scene(2)
    job = sliced(scene)
    scene.pass_s(2 * HOUR_S)
    other = scene.submit()
    assert list(scene.plan()) == [other]
    assert scene.where(job) is S.RUNNING


def test_one_of_a_worse_priority_does_not_end_its_slice() -> None:
    scene = Scene(1)
    job = sliced(scene)
    scene.pass_s(2 * HOUR_S)
    scene.submit(priority=1)
    scene.plan()
    assert scene.where(job) is S.RUNNING


def test_a_job_that_keeps_its_place_makes_room_only_for_those_before_it() -> None:
    scene = Scene(1)
    job = sliced(scene, keep_place=True)
    scene.pass_s(2 * HOUR_S)
    scene.submit()
    scene.plan()
    assert scene.where(job) is S.RUNNING
    scene.submit(priority=-1)
    scene.plan()
    assert scene.where(job) is S.STOPPING


def test_as_few_end_their_slices_as_are_needed_the_longest_past_it_first() -> None:
    scene = Scene(3)
    jobs = []
    for gpu in ("2", "1", "0"):
        jobs.append(sliced(scene, need=whole(1, on=(gpu,))))
        scene.pass_s(60)
    scene.pass_s(2 * HOUR_S)
    scene.submit(whole(2))
    for _ in range(3):
        scene.plan()
        assert [scene.where(job) for job in jobs] == [S.STOPPING, S.STOPPING, S.RUNNING]


def test_room_that_comes_by_itself_is_waited_for() -> None:
    scene = Scene(2)
    job, other = sliced(scene), scene.running()
    scene.pass_s(2 * HOUR_S)
    scene.cancel(other)
    scene.submit()
    scene.plan()
    assert scene.where(job) is S.RUNNING


def test_a_slice_on_a_shared_gpu_ends_only_if_that_makes_room() -> None:
    scene = Scene(1)
    small = sliced(scene, need=mem(4))
    scene.running(mem(16))
    scene.pass_s(2 * HOUR_S)
    large = scene.submit(mem(10))
    scene.plan()
    assert scene.where(small) is S.RUNNING
    scene.cancel(large)
    scene.submit(mem(8))
    scene.plan()
    assert scene.where(small) is S.STOPPING


def test_a_large_one_makes_room_alone_where_small_ones_would_not_be_enough() -> None:
    scene = Scene(1)
    small = sliced(scene, need=mem(4))
    large = sliced(scene, need=mem(16))
    scene.pass_s(2 * HOUR_S)
    scene.submit(mem(18))
    scene.plan()
    assert (scene.where(small), scene.where(large)) == (S.RUNNING, S.STOPPING)


def test_jobs_of_a_group_that_is_full_take_turns_by_their_slices() -> None:
    scene = Scene(4)
    scene.apply(ev.GroupLimited(scene.now, "a", 1))
    job = sliced(scene, group="a")
    other = scene.submit(group="a")
    scene.plan()
    scene.pass_s(2 * HOUR_S)
    scene.plan()
    assert scene.where(job) is S.STOPPING
    scene.exited(job, 75)
    assert list(scene.plan()) == [other]


def test_a_slice_goes_on_while_the_queue_is_paused() -> None:
    scene = Scene(1)
    job = sliced(scene)
    scene.pass_s(2 * HOUR_S)
    scene.submit()
    scene.apply(ev.QueuePaused(scene.now))
    scene.plan()
    assert scene.where(job) is S.RUNNING


def test_a_job_that_is_done_when_its_slice_is_over_has_succeeded() -> None:
    scene = Scene(1)
    job = sliced(scene)
    scene.pass_s(HOUR_S)
    scene.submit()
    scene.plan()
    scene.exited(job, 0)
    assert scene.outcomes[job] == Outcome(S.SUCCEEDED, Cause.EXIT, Exit(code=0))


def test_one_that_is_ended_by_our_signal_is_put_back_and_one_that_fails_has_failed() -> None:
    ends: list[tuple[Callable[[Scene, int], None], JobState]] = [
        (lambda scene, job: scene.killed(job, 15), S.WAITING),
        (lambda scene, job: scene.killed(job, 9), S.WAITING),
        (lambda scene, job: scene.exited(job, 143), S.WAITING),
        (lambda scene, job: scene.vanished(job), S.WAITING),
        (lambda scene, job: scene.killed(job, 11), S.FAILED),
        (lambda scene, job: scene.exited(job, 1), S.FAILED),
    ]
    for end, where in ends:
        scene = Scene(1)
        job = sliced(scene)
        scene.pass_s(HOUR_S)
        scene.submit()
        scene.plan()
        end(scene, job)
        assert scene.where(job) is where
    assert scene.outcomes[job].detail == "after its slice was over"


def test_its_own_signal_comes_first_then_sigterm_then_sigkill() -> None:
    scene = Scene(1)
    job = sliced(scene, signal=USR2, signal_before_s=120, grace_s=30)
    scene.submit()
    scene.pass_s(HOUR_S - 121)
    scene.plan()
    assert scene.commands(job) == []
    scene.pass_s(1)
    scene.plan()
    assert scene.commands(job) == [Warn(job, 1, USR2)]
    scene.warned(job)
    assert scene.commands(job) == []
    for seconds, force in ((120, False), (30, True)):
        assert scene.state.next_timer_ms() == scene.now + seconds * 1000
        scene.pass_s(seconds)
        assert scene.commands(job) == [Terminate(job, 1, force)]


def test_one_that_is_cancelled_while_it_heeds_its_signal_is_asked_to_end_at_once() -> None:
    scene = Scene(1)
    job = sliced(scene, signal=USR2, signal_before_s=120, grace_s=30)
    scene.pass_s(HOUR_S)
    scene.submit()
    scene.plan()
    scene.pass_s(60)
    scene.cancel(job)
    assert scene.commands(job) == [Terminate(job, 1, force=False)]
    scene.pass_s(30)
    assert scene.commands(job) == [Terminate(job, 1, force=True)]
    scene.exited(job, 75)
    assert scene.where(job) is S.CANCELLED


# ---------------------------------------------------------------------- by its user


@pytest.mark.parametrize("code", [1, 75, 143])
def test_a_job_that_its_user_requeues_is_put_back_whatever_its_exit_code(code: int) -> None:
    scene = Scene(1)
    job = scene.running()
    scene.requeue(job)
    scene.exited(job, code)
    assert scene.where(job) is S.WAITING
    rerun(scene, job)
    scene.requeue(job)
    scene.exited(job, 0)
    assert scene.where(job) is S.SUCCEEDED


def test_a_job_that_is_requeued_before_its_process_was_made_waits_again() -> None:
    scene = Scene(1)
    job = scene.submit()
    scene.plan()
    scene.requeue(job)
    scene.not_started(job)
    assert scene.where(job) is S.WAITING


def test_the_next_attempt_is_told_how_often_the_job_was_put_back() -> None:
    scene = Scene(1)
    plain, job = scene.submit(), scene.submit(requeue_on=(75,))
    scene.plan()
    (start,) = scene.commands(plain)
    assert isinstance(start, Start) and start.resumes is None
    scene.started(plain)
    scene.requeue(plain)
    scene.exited(plain, 143)
    for resumes in (0, 1):
        scene.plan()
        (start,) = scene.commands(job)
        assert isinstance(start, Start) and start.resumes == resumes
        scene.started(job)
        scene.requeue(job)
        scene.exited(job, 143)
        scene.plan()
        (start,) = scene.commands(plain)
        assert isinstance(start, Start) and start.resumes == resumes + 1
        scene.started(plain)
        scene.requeue(plain)
        scene.exited(plain, 143)


# ---------------------------------------------------------------------- progress


def test_a_job_that_makes_no_progress_fails_and_says_so() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,), stuck_after=3, retries=5)
    for progressed in (False, False, True, False, False):
        rerun(scene, job)
        scene.exited(job, 75, progressed=progressed)
        assert scene.where(job) is S.WAITING
    rerun(scene, job)
    scene.exited(job, 75, progressed=False)
    assert scene.outcomes[job] == Outcome(S.FAILED, Cause.STUCK, Exit(code=75), "3")


def test_what_its_user_requeues_is_not_stuck() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,), stuck_after=1)
    for _ in range(3):
        rerun(scene, job)
        scene.requeue(job)
        scene.exited(job, 75, progressed=False)
    assert scene.where(job) is S.WAITING


def test_a_job_that_may_be_stuck_for_ever_never_fails_for_that() -> None:
    scene = Scene(1)
    job = scene.submit(requeue_on=(75,), stuck_after=0)
    for _ in range(20):
        rerun(scene, job)
        scene.exited(job, 75, progressed=False)
    assert scene.where(job) is S.WAITING


# ---------------------------------------------------------------------- power cuts, clusters


def test_a_job_without_a_trace_is_put_back_if_it_says_so_and_else_lost() -> None:
    for requeue, where in ((True, S.WAITING), (False, S.LOST)):
        scene = Scene(1)
        job = scene.submit(requeue=requeue)
        rerun(scene, job)
        scene.vanished(job)
        assert scene.where(job) is where


def test_at_a_cluster_the_slice_is_the_time_limit_and_its_end_puts_back() -> None:
    scene = Scene(1)
    job = scene.submit(on_cluster=True, slice_ms=60_000, requeue_on=(75,), limit_s=600)
    assert scene.job(job).terms.limit_there_ms == 60_000
    scene.plan()
    scene.accepted(job)
    scene.started(job)
    scene.pass_s(3600)
    assert scene.where(job) is S.RUNNING  # The cluster sees to it.
    scene.cut_short(job, Cause.TIME_LIMIT)
    assert scene.where(job) is S.WAITING
    assert scene.job(job).backoff_until_ms is None


def test_at_a_cluster_the_time_limit_itself_is_a_failure() -> None:
    scene = Scene(1)
    job = scene.submit(on_cluster=True, requeue_on=(75,), limit_s=60)
    scene.plan()
    scene.accepted(job)
    scene.started(job)
    scene.cut_short(job, Cause.TIME_LIMIT)
    assert scene.where(job) is S.FAILED
