"""Time is data: limits, warnings, grace, moments to start at, and clocks that are set."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.commands import Start, StartAttached, Terminate, Warn, commands_for
from stoker.core.model import Cause, JobState, Warning
from stoker.core.reasons import WaitsForTime
from stoker.core.timers import deadline_ms, kill_ms
from unit.core_scene import Scene

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

S = JobState


def running_with(
    scene: Scene,
    *,
    limit_s: float | None = None,
    grace_s: float = 30,
    signal: int | None = None,
    before_s: float = 0,
) -> int:
    job = scene.submit(limit_s=limit_s, grace_s=grace_s, signal=signal, signal_before_s=before_s)
    scene.plan()
    scene.started(job)
    return job


# ---------------------------------------------------------------------- the time limit


def test_a_job_is_stopped_when_its_time_limit_is_reached_and_not_before() -> None:
    scene = Scene(1)
    job = running_with(scene, limit_s=60)
    scene.pass_s(59.999)
    assert scene.where(job) is S.RUNNING
    scene.pass_s(0.001)
    assert scene.where(job) is S.STOPPING
    stop = scene.attempt(job).stop
    assert stop is not None and stop.cause is Cause.TIME_LIMIT
    scene.exited(job, 143)
    assert scene.outcomes[job].state is S.FAILED
    assert scene.outcomes[job].cause is Cause.TIME_LIMIT


def test_the_time_limit_counts_from_the_start_of_the_process() -> None:
    scene = Scene(1)
    job = scene.submit(limit_s=60)
    scene.plan()
    scene.pass_s(50)
    scene.started(job)
    scene.pass_s(59)
    assert scene.where(job) is S.RUNNING
    scene.pass_s(1)
    assert scene.where(job) is S.STOPPING


def test_the_time_limit_does_not_run_while_the_machine_has_not_started_the_attempt() -> None:
    scene = Scene(1)
    job = scene.submit(limit_s=60)
    scene.plan()
    scene.pass_s(600)
    assert scene.where(job) is S.RUNNING, "it would fail, and has never run"
    scene.started(job)
    scene.pass_s(59)
    assert scene.where(job) is S.RUNNING
    scene.pass_s(1)
    assert scene.where(job) is S.STOPPING
    assert commands_for(scene.state) == [Terminate(job, 1, force=False)]


def test_the_time_limit_of_an_attached_job_does_not_count_before_its_terminal_has_started_it() -> (
    None
):
    scene = Scene(1)
    job = scene.submit(limit_s=60, attached=True)
    scene.plan()
    scene.pass_s(600)
    assert scene.where(job) is S.RUNNING
    scene.started(job)
    scene.pass_s(59.999)
    assert scene.where(job) is S.RUNNING
    scene.pass_s(0.001)
    assert scene.where(job) is S.STOPPING


def test_a_job_without_a_time_limit_runs_for_ever() -> None:
    scene = Scene(1)
    job = running_with(scene)
    scene.pass_s(10_000_000)
    assert scene.where(job) is S.RUNNING
    assert scene.state.next_timer_ms() is None


def test_each_attempt_has_the_whole_time_limit() -> None:
    scene = Scene(1)
    job = scene.submit(limit_s=60, retries=1)
    scene.plan()
    scene.started(job)
    scene.pass_s(50)
    scene.exited(job, 1)
    scene.pass_s(5)
    scene.plan()
    scene.started(job)
    scene.pass_s(30)
    assert scene.where(job) is S.RUNNING
    assert scene.state.next_timer_ms() == scene.now + 30_000


def test_a_users_wish_to_cancel_counts_for_more_than_the_time_limit() -> None:
    scene = Scene(1)
    job = scene.submit(limit_s=60, retries=3)
    scene.plan()
    scene.started(job)
    scene.pass_s(60)
    scene.cancel(job)
    scene.exited(job, 143)
    assert scene.where(job) is S.CANCELLED


def test_a_time_limit_that_is_reached_while_a_job_is_cancelled_changes_nothing() -> None:
    scene = Scene(1)
    job = running_with(scene, limit_s=60, grace_s=1000)
    scene.pass_s(59)
    scene.cancel(job)
    scene.pass_s(10)
    stop = scene.attempt(job).stop
    assert stop is not None and stop.cause is Cause.CANCELLED
    assert stop.at_ms == scene.now - 10_000


# ---------------------------------------------------------------------- the signal before it


def test_a_signal_is_due_so_long_before_the_time_limit() -> None:
    scene = Scene(1)
    job = running_with(scene, limit_s=60, signal=10, before_s=20)
    scene.pass_s(39.999)
    assert commands_for(scene.state) == []
    scene.pass_s(0.001)
    assert commands_for(scene.state) == [Warn(job, 1, 10)]
    assert scene.where(job) is S.RUNNING


def test_a_signal_is_asked_for_until_it_was_sent_and_then_no_more() -> None:
    scene = Scene(1)
    job = running_with(scene, limit_s=60, signal=10, before_s=20)
    scene.pass_s(45)
    assert commands_for(scene.state) == commands_for(scene.state) == [Warn(job, 1, 10)]
    scene.apply(ev.WarningSent(scene.now, job, 1))
    assert commands_for(scene.state) == []
    scene.pass_s(10)
    assert commands_for(scene.state) == []
    assert scene.attempt(job).warning is Warning.SENT


def test_a_signal_for_longer_before_than_the_limit_is_due_at_once() -> None:
    scene = Scene(1)
    job = running_with(scene, limit_s=60, signal=12, before_s=600)
    assert commands_for(scene.state) == [Warn(job, 1, 12)]


def test_signal_and_limit_that_fall_due_in_one_turn_are_each_due_once() -> None:
    scene = Scene(1)
    job = scene.submit(limit_s=60, signal=10, signal_before_s=20)
    scene.plan()
    scene.pass_s(1)
    scene.started(job)  # The timers of its placement are still there.
    scene.state.apply(ev.TimePassed(scene.now + 61_000))
    due = scene.state.take_due()
    assert [type(event) for event in due] == [ev.WarningDue, ev.StopRequested]
    scene.apply(*due)
    assert commands_for(scene.state) == [Terminate(job, 1, force=False)]
    assert not scene.state.to_warn


def test_a_signal_that_is_due_to_a_job_that_is_being_stopped_comes_to_nothing() -> None:
    scene = Scene(1)
    job = running_with(scene, limit_s=60, signal=10, before_s=20)
    scene.cancel(job)
    scene.apply(ev.WarningDue(scene.now, job, 1))
    assert scene.attempt(job).warning is Warning.NONE
    assert commands_for(scene.state) == [Terminate(job, 1, force=False)]


def test_a_job_that_is_being_stopped_gets_no_signal_any_more() -> None:
    scene = Scene(1)
    job = running_with(scene, limit_s=60, signal=10, before_s=20)
    scene.pass_s(45)
    scene.cancel(job)
    assert commands_for(scene.state) == [Terminate(job, 1, force=False)]


def test_there_is_no_signal_without_a_time_limit() -> None:
    scene = Scene(1)
    running_with(scene, signal=10, before_s=20)
    scene.pass_s(DAY_MS / 1000)
    assert commands_for(scene.state) == []


# ---------------------------------------------------------------------- the grace time


def test_a_job_that_is_told_to_stop_is_killed_once_its_grace_time_is_over() -> None:
    scene = Scene(1)
    job = running_with(scene, grace_s=30)
    scene.cancel(job)
    assert commands_for(scene.state) == [Terminate(job, 1, force=False)]
    assert scene.state.next_timer_ms() == scene.now + 30_000
    scene.pass_s(29.999)
    assert commands_for(scene.state) == [Terminate(job, 1, force=False)]
    scene.pass_s(0.001)
    assert commands_for(scene.state) == [Terminate(job, 1, force=True)]
    scene.pass_s(1000)
    assert commands_for(scene.state) == [Terminate(job, 1, force=True)]


def test_without_a_grace_time_a_job_is_killed_at_once() -> None:
    scene = Scene(1)
    job = running_with(scene, grace_s=0)
    scene.cancel(job)
    assert commands_for(scene.state) == [Terminate(job, 1, force=True)]


def test_asking_again_does_not_prolong_the_grace_time() -> None:
    scene = Scene(1)
    job = running_with(scene, grace_s=30)
    scene.cancel(job)
    scene.pass_s(20)
    scene.cancel(job)
    scene.pass_s(10)
    assert commands_for(scene.state) == [Terminate(job, 1, force=True)]


# ---------------------------------------------------------------------- orders to start


def test_a_placed_attempt_is_to_be_started_until_it_is() -> None:
    scene = Scene(1)
    job = scene.submit(grace_s=5)
    scene.plan()
    assert commands_for(scene.state) == commands_for(scene.state) == [Start(job, 1, ("0",), 5_000)]
    scene.started(job)
    assert commands_for(scene.state) == []


def test_an_attached_job_is_started_by_its_client() -> None:
    scene = Scene(1)
    job = scene.submit(attached=True)
    scene.plan()
    assert commands_for(scene.state) == [StartAttached(job, 1, ("0",), 30_000)]


def test_an_attempt_that_is_to_stop_is_no_longer_to_be_started() -> None:
    scene = Scene(1)
    job = scene.submit()
    scene.plan()
    scene.cancel(job)
    assert commands_for(scene.state) == [Terminate(job, 1, force=False)]


# ---------------------------------------------------------------------- --at


def test_a_job_does_not_start_before_its_moment() -> None:
    scene = Scene(1)
    job = scene.submit(at_ms=scene.now + 5_000)
    assert scene.plan() == {}
    assert scene.state.next_timer_ms() == scene.now + 5_000
    scene.pass_s(5)
    assert list(scene.plan()) == [job]


def test_a_moment_that_is_over_is_no_hindrance() -> None:
    scene = Scene(1)
    job = scene.submit(at_ms=scene.now - 1)
    assert list(scene.plan()) == [job]


def test_a_job_with_a_new_moment_waits_for_that_one() -> None:
    scene = Scene(1)
    job = scene.submit(at_ms=scene.now + 5_000)
    waiting = scene.job(job)
    later = scene.now + 9_000
    scene.apply(ev.JobEdited(scene.now, job, waiting.need, waiting.terms, 0, None, later))
    assert scene.state.next_timer_ms() == later
    scene.pass_s(5)
    assert scene.plan() == {}
    scene.pass_s(4)
    assert list(scene.plan()) == [job]


# ---------------------------------------------------------------------- clocks that are set


@pytest.mark.parametrize("by_ms", [-HOUR_MS, -1, 1, DAY_MS])
def test_a_clock_that_is_set_moves_no_duration(by_ms: int) -> None:
    scene = Scene(3)
    limited = running_with(scene, limit_s=60, signal=10, before_s=30)
    stopped = running_with(scene, grace_s=40)
    scene.cancel(stopped)
    retried = scene.submit(retries=1)
    scene.plan()
    scene.started(retried)
    scene.exited(retried, 1)
    before = deadline_ms(scene.job(limited)), kill_ms(scene.job(stopped))
    backoff_ms = scene.job(retried).backoff_until_ms
    assert before[0] is not None and backoff_ms is not None
    scene.apply(ev.ClockShifted(scene.now + by_ms, by_ms))
    assert deadline_ms(scene.job(limited)) == before[0] + by_ms
    assert kill_ms(scene.job(stopped)) == before[1] + by_ms
    assert scene.job(retried).backoff_until_ms == backoff_ms + by_ms
    assert scene.where(limited) is S.RUNNING
    scene.pass_s(1)
    assert retried in scene.plan()
    scene.pass_s(29)
    assert Warn(limited, 1, 10) in commands_for(scene.state)
    scene.pass_s(10)
    assert Terminate(stopped, 1, force=True) in commands_for(scene.state)
    scene.pass_s(20)
    assert scene.where(limited) is S.STOPPING


def test_a_clock_that_is_set_forward_brings_the_moment_of_a_job() -> None:
    scene = Scene(1)
    job = scene.submit(at_ms=scene.now + HOUR_MS)
    scene.apply(ev.ClockShifted(scene.now + HOUR_MS, HOUR_MS))
    assert list(scene.plan()) == [job]


def test_a_clock_that_is_set_back_puts_the_moment_of_a_job_off() -> None:
    scene = Scene(1)
    at_ms = scene.now + 1_000
    scene.submit(at_ms=at_ms)
    scene.apply(ev.ClockShifted(scene.now - HOUR_MS, -HOUR_MS))
    scene.pass_s(1)
    assert scene.plan() == {}
    assert scene.state.next_timer_ms() == at_ms


def test_a_job_whose_moment_had_come_waits_again_if_the_clock_is_set_back() -> None:
    scene = Scene(1)
    scene.running()
    at_ms = scene.now + 1_000
    job = scene.submit(at_ms=at_ms)
    scene.pass_s(2)
    scene.apply(ev.ClockShifted(scene.now - HOUR_MS, -HOUR_MS))
    assert scene.why(job) == WaitsForTime(at_ms, after_failure=False)
    scene.exited(1)
    assert scene.plan() == {}
    scene.apply(ev.TimePassed(at_ms))
    assert list(scene.plan()) == [job]


def test_time_never_runs_backwards_by_a_late_event() -> None:
    scene = Scene(1)
    now = scene.now
    scene.apply(ev.TimePassed(now - 5_000))
    assert scene.now == now


def test_no_turn_is_awaited_for_a_timer_that_was_overtaken() -> None:
    scene = Scene(1)
    job = running_with(scene, limit_s=60, signal=10, before_s=30)
    scene.exited(job)
    assert scene.state.next_timer_ms() is None
    failing = scene.submit(retries=1)
    scene.plan()
    scene.started(failing)
    scene.exited(failing, 1)
    scene.cancel(failing)
    assert scene.state.next_timer_ms() is None
