"""Jobs that are suspended: what is ordered, what stands still meanwhile, and what ends it."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.commands import Continue, Suspend, Terminate, Warn
from stoker.core.forecast import expected_start
from stoker.core.gpu import GpuReading
from stoker.core.learning import Habits, after_run, consequences, use_alone
from stoker.core.model import Cause, JobState, Need, Profile
from stoker.core.reasons import words
from stoker.core.takeover import planned
from stoker.core.timers import latest_end_ms
from stoker.core.waiting import why_not_going_on
from unit.core_scene import GIB, Scene, mem, whole

S = JobState


def suspend(scene: Scene, job: int) -> None:
    """By its user; its processes have stopped at once."""
    scene.apply(ev.SuspendRequested(scene.now, job, 1))
    scene.apply(ev.AttemptSuspended(scene.now, job, 1, scene.attempt(job).suspensions))


def go_on(scene: Scene, job: int) -> None:
    """By its user; its processes go on at once."""
    scene.apply(ev.ContinueRequested(scene.now, job, 1))
    scene.apply(ev.AttemptContinued(scene.now, job, 1, scene.attempt(job).suspensions))


def stood(scene: Scene, job: int, seconds: float) -> None:
    """A job that was suspended for so long."""
    suspend(scene, job)
    scene.pass_s(seconds)
    go_on(scene, job)


# ---------------------------------------------------------------------- orders


def test_an_order_stands_until_it_is_seen_to_be_carried_out() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.apply(ev.SuspendRequested(scene.now, job, 1))
    assert scene.commands(job) == [Suspend(job, 1, 1)] == scene.commands(job)
    scene.apply(ev.AttemptSuspended(scene.now, job, 1, 1))
    assert scene.commands(job) == []
    scene.apply(ev.ContinueRequested(scene.now, job, 1))
    assert scene.commands(job) == [Continue(job, 1, 1)]
    scene.apply(ev.AttemptContinued(scene.now, job, 1, 1))
    assert scene.commands(job) == []


def test_a_fact_about_an_earlier_suspension_says_nothing_of_this_one() -> None:
    scene = Scene(1)
    job = scene.running()
    stood(scene, job, 1)
    scene.apply(ev.SuspendRequested(scene.now, job, 1))
    scene.apply(ev.AttemptSuspended(scene.now, job, 1, 1))
    scene.apply(ev.AttemptContinued(scene.now, job, 1, 1))
    assert scene.commands(job) == [Suspend(job, 1, 2)]


def test_a_job_that_is_continued_before_its_processes_stopped_is_continued() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.apply(ev.SuspendRequested(scene.now, job, 1), ev.ContinueRequested(scene.now, job, 1))
    scene.apply(ev.AttemptSuspended(scene.now, job, 1, 1))  # It had been told just before.
    assert scene.commands(job) == [Continue(job, 1, 1)]


def test_a_suspended_job_keeps_its_gpus_and_says_since_when() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.apply(ev.SuspendRequested(scene.now, job, 1))
    scene.pass_s(61)
    reason = why_not_going_on(scene.job(job))
    assert reason is not None and "not all of its processes" in words(reason, scene.now)
    scene.apply(ev.AttemptSuspended(scene.now, job, 1, 1))
    reason = why_not_going_on(scene.job(job))
    assert reason is not None
    assert words(reason, scene.now).startswith("suspended for 1m 01s; `stoker resume ID`")
    other = scene.submit()
    assert scene.plan() == {} and list(scene.gpu("0").held_by) == [job]
    go_on(scene, job)
    assert why_not_going_on(scene.job(job)) is None and scene.where(other) is S.WAITING


# ---------------------------------------------------------------------- what stands still


def test_the_time_limit_stands_still() -> None:
    scene = Scene(1)
    job = scene.running(limit_s=10)
    scene.pass_s(4)
    stood(scene, job, 100)
    scene.pass_s(3)
    stood(scene, job, 50)
    scene.pass_s(2.9)
    assert scene.where(job) is S.RUNNING
    scene.pass_s(0.2)
    assert scene.where(job) is S.STOPPING
    assert scene.state.next_timer_ms() is not None


def test_a_clock_that_is_set_changes_nothing_of_that() -> None:
    scene = Scene(1)
    job = scene.running(limit_s=10)
    scene.pass_s(1)
    suspend(scene, job)
    scene.pass_s(20)
    scene.apply(ev.ClockShifted(scene.now + 3_600_000, 3_600_000))
    go_on(scene, job)
    assert scene.attempt(job).suspended_ms == 20_000
    scene.pass_s(8.9)
    assert scene.where(job) is S.RUNNING


def test_the_signal_before_the_limit_waits_too_and_is_not_sent_to_what_stands_still() -> None:
    scene = Scene(1)
    job = scene.submit(limit_s=10, signal=10, signal_before_s=4)
    scene.plan()
    scene.started(job)
    suspend(scene, job)
    scene.pass_s(30)
    assert scene.commands(job) == []
    go_on(scene, job)
    scene.pass_s(6)
    assert scene.commands(job) == [Warn(job, 1, 10)]
    scene.apply(ev.SuspendRequested(scene.now, job, 1))  # before it could be sent
    assert scene.commands(job) == [Suspend(job, 1, 2)]
    scene.apply(ev.ContinueRequested(scene.now, job, 1))
    assert scene.commands(job) == [Continue(job, 1, 2), Warn(job, 1, 10)]


def test_a_slice_stands_still_and_one_that_is_past_it_makes_no_room() -> None:
    scene = Scene(1)
    job = scene.submit(slice_ms=10_000)
    scene.plan()
    scene.started(job)
    scene.pass_s(11)
    suspend(scene, job)
    scene.submit()
    scene.plan()
    scene.pass_s(60)
    scene.plan()
    assert scene.where(job) is S.RUNNING
    go_on(scene, job)
    scene.plan()
    assert scene.where(job) is S.STOPPING


def test_a_suspension_before_the_process_counts_from_its_start() -> None:
    scene = Scene(1)
    job = scene.submit(limit_s=10)
    scene.plan()
    scene.apply(ev.SuspendRequested(scene.now, job, 1))
    scene.pass_s(5)
    scene.started(job)
    scene.pass_s(5)
    go_on(scene, job)
    assert scene.attempt(job).suspended_ms == 5_000
    scene.pass_s(9.9)
    assert scene.where(job) is S.RUNNING
    scene.pass_s(0.2)
    assert scene.where(job) is S.STOPPING


def test_nothing_is_expected_of_the_end_of_a_suspended_job() -> None:
    scene = Scene(1)
    job, waiting = scene.running(limit_s=10), scene.submit()
    scene.pass_s(4)
    suspend(scene, job)
    scene.pass_s(100)
    assert expected_start(scene.state, waiting, lambda _: (5_000,)) is None
    assert latest_end_ms(scene.job(job)) is None
    assert planned(scene.state).attempts == ()
    go_on(scene, job)
    start = expected_start(scene.state, waiting, lambda _: (5_000,))
    assert start is not None and start.at_ms == scene.now + 1_000
    assert latest_end_ms(scene.job(job)) == scene.now + 36_000
    assert planned(scene.state).attempts == (job,)


# ---------------------------------------------------------------------- what is learned


def learning(scene: Scene) -> int:
    """A job of a kind that learns, and that uses 4 GiB."""
    job = scene.running(Need(1, kind="train"))
    used(scene, job)
    return job


def used(scene: Scene, job: int, percent: int = 50) -> None:
    """A reading, and what follows from it."""
    reading = GpuReading(scene.now, 4 * GIB, {job: 4 * GIB}, use_percent=percent)
    scene.apply(ev.GpusMeasured(scene.now, {"0": reading}))
    for event in consequences(scene.state, Habits(settle_ms=30_000)):
        scene.apply(event)


def test_a_suspended_attempt_does_not_settle_and_its_use_of_a_gpu_is_not_learned() -> None:
    scene = Scene(1)
    job = learning(scene)
    scene.pass_s(10)
    suspend(scene, job)
    scene.pass_s(100)
    used(scene, job, 5)
    assert not scene.attempt(job).settled and "train" not in scene.state.profiles
    assert use_alone(scene.state, job, scene.attempt(job)) is None
    go_on(scene, job)
    scene.pass_s(19)
    used(scene, job)
    assert not scene.attempt(job).settled
    scene.pass_s(2)
    used(scene, job)
    assert scene.attempt(job).settled and scene.state.profiles["train"].use_percent == 50
    assert scene.state.profiles["train"].settle_ms == 0


def test_the_use_of_a_gpu_is_all_of_the_one_beside_a_suspended_attempt() -> None:
    scene = Scene(1)
    scene.apply(ev.ProfileLearned(scene.now, Profile("a", 2, GIB, GIB, 0, 1, 30, 0, 0)))
    one = scene.running(Need(1, kind="a", mem_mib=2 * GIB))
    scene.attempt(one).settled = True
    two = scene.running(mem(4))
    reading = GpuReading(scene.now, 4 * GIB, {one: GIB, two: 3 * GIB}, use_percent=70)
    scene.apply(ev.GpusMeasured(scene.now, {"0": reading}))
    assert use_alone(scene.state, two, scene.attempt(two)) == 40
    suspend(scene, one)
    assert use_alone(scene.state, two, scene.attempt(two)) == 70


def test_learned_run_times_do_not_count_it() -> None:
    scene = Scene(1)
    job = learning(scene)
    scene.pass_s(10)
    stood(scene, job, 500)
    scene.pass_s(5)
    profile = after_run(None, scene.job(job), scene.attempt(job), scene.now)
    assert profile is not None and profile.longest_ms == 15_000


# ---------------------------------------------------------------------- what ends it


@pytest.mark.parametrize("cause", [Cause.CANCELLED, Cause.REQUEUED, Cause.GPU_LOST])
def test_a_suspended_job_that_is_told_to_end_goes_on_first(cause: Cause) -> None:
    scene = Scene(1)
    job = scene.running(limit_s=10)
    suspend(scene, job)
    scene.pass_s(60)
    scene.apply(ev.StopRequested(scene.now, job, 1, cause))
    assert scene.commands(job) == [Continue(job, 1, 1), Terminate(job, 1, False, "")]
    assert scene.attempt(job).suspended_ms == 60_000
    scene.pass_s(31)
    assert Terminate(job, 1, True, "") in scene.commands(job)


def test_another_attempt_is_not_suspended() -> None:
    scene = Scene(1)
    job = scene.submit(whole(), retries=1)
    scene.plan()
    scene.started(job)
    suspend(scene, job)
    scene.killed(job, 9)
    scene.pass_s(2)
    assert list(scene.plan()) == [job]
    attempt = scene.attempt(job)
    assert (attempt.number, attempt.suspended_at_ms, attempt.suspensions) == (2, None, 0)


def test_a_suspended_job_that_ends_has_its_suspension_on_record() -> None:
    scene = Scene(1)
    job = scene.running()
    suspend(scene, job)
    attempt = scene.attempt(job)
    scene.pass_s(7)
    scene.killed(job, 9)
    assert (attempt.suspended_at_ms, attempt.suspended_ms) == (None, 7_000)
