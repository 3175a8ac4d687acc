"""How jobs end: what an exit amounts to, retries and their back-off, and what is kept till then."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.endings import BACKOFF_FIRST_MS, BACKOFF_MOST_MS, backoff_ms
from stoker.core.model import Cause, Exit, JobState, Outcome, Terms
from stoker.core.reasons import outcome_words
from unit.core_scene import Scene, mem, whole

S = JobState


def test_exit_code_0_is_success() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.exited(job, 0)
    assert scene.outcomes[job] == Outcome(S.SUCCEEDED, Cause.EXIT, Exit(code=0))


def test_any_other_exit_code_is_a_failure_and_is_kept() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.exited(job, 17)
    assert scene.outcomes[job] == Outcome(S.FAILED, Cause.EXIT, Exit(code=17))


def test_a_signal_is_a_failure_and_is_kept() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.apply(ev.AttemptExited(scene.now, job, 1, Exit(signal=11)))
    assert scene.outcomes[job] == Outcome(S.FAILED, Cause.EXIT, Exit(signal=11))


def test_an_exit_is_by_code_or_by_signal_and_never_neither_or_both() -> None:
    for wrong in ({}, {"code": 1, "signal": 9}):
        with pytest.raises(AssertionError):
            Exit(**wrong)


def test_a_process_without_a_trace_is_lost_and_has_no_exit_code() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.vanished(job)
    assert scene.outcomes[job] == Outcome(S.LOST, Cause.NO_TRACE, None, "power cut")


def test_a_job_that_could_not_start_failed_and_says_why() -> None:
    scene = Scene(1)
    job = scene.submit()
    scene.plan()
    scene.not_started(job)
    assert scene.outcomes[job] == Outcome(S.FAILED, Cause.NOT_STARTED, None, "no such command")


def test_a_job_whose_terminal_is_gone_before_it_started_is_cancelled() -> None:
    scene = Scene(1)
    job = scene.submit(attached=True, retries=3)
    scene.plan()
    scene.not_started(job, Cause.TERMINAL_GONE)
    outcome = scene.outcomes[job]
    assert (outcome.state, outcome.cause) == (S.CANCELLED, Cause.TERMINAL_GONE)


def test_a_cancelled_job_is_cancelled_whatever_its_exit_code_which_is_kept() -> None:
    for code in (0, 143):
        scene = Scene(1)
        job = scene.running()
        scene.cancel(job)
        scene.exited(job, code)
        assert scene.outcomes[job] == Outcome(S.CANCELLED, Cause.CANCELLED, Exit(code=code))


def test_a_cancelled_job_that_vanishes_is_cancelled_with_no_exit_code() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.cancel(job)
    scene.vanished(job)
    assert scene.outcomes[job] == Outcome(S.CANCELLED, Cause.CANCELLED)


def test_a_job_that_is_cancelled_before_its_process_was_made_is_cancelled() -> None:
    scene = Scene(1)
    job = scene.submit(retries=2)
    scene.plan()
    scene.cancel(job)
    scene.not_started(job)
    assert scene.outcomes[job] == Outcome(S.CANCELLED, Cause.CANCELLED)


def test_a_cancelled_job_keeps_its_gpus_until_its_attempt_ends() -> None:
    scene = Scene(2)
    job = scene.running(whole(2, cpus=3))
    scene.cancel(job)
    scene.submit()
    scene.pass_s(3600)
    assert scene.plan() == {}
    assert list(scene.gpu("0").held_by) == list(scene.gpu("1").held_by) == [job]
    assert scene.state.cpus_used == 3
    scene.exited(job, 137)
    assert scene.state.cpus_used == 0
    assert scene.plan() == {2: ("0",)}


def test_a_cancelled_job_is_not_retried() -> None:
    scene = Scene(1)
    job = scene.submit(retries=5)
    scene.plan()
    scene.started(job)
    scene.cancel(job)
    scene.exited(job, 1)
    assert scene.where(job) is S.CANCELLED


def test_what_is_stopped_early_has_an_outcome_of_its_own_and_is_not_retried() -> None:
    for code in (0, 1, 143):
        scene = Scene(1)
        job = scene.submit(retries=5)
        scene.plan()
        scene.started(job)
        scene.stop_early(job)
        assert scene.where(job) is S.STOPPING
        scene.exited(job, code)
        said = "at step 9: loss 0.81 (asha)"
        assert scene.outcomes[job] == Outcome(S.STOPPED, Cause.STOPPED_EARLY, Exit(code=code), said)
        assert outcome_words(scene.outcomes[job]) == f"stopped early {said}"


def test_what_is_stopped_early_and_then_cancelled_is_cancelled_and_says_nothing_else() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.stop_early(job)
    scene.cancel(job)
    scene.exited(job, 143)
    assert scene.outcomes[job] == Outcome(S.CANCELLED, Cause.CANCELLED, Exit(code=143))


def test_a_job_that_is_being_cancelled_is_not_stopped_early() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.cancel(job)
    scene.stop_early(job)
    scene.exited(job, 143)
    assert scene.where(job) is S.CANCELLED


def test_after_what_was_stopped_early_only_those_start_that_wait_for_any_end() -> None:
    scene = Scene(2)
    job = scene.running()
    needs_success, needs_end = scene.submit(after=[job]), scene.submit(after_any=[job])
    scene.stop_early(job)
    scene.vanished(job)
    assert scene.where(job) is S.STOPPED
    assert scene.where(needs_success) is S.SKIPPED
    assert needs_end in scene.plan()


# ---------------------------------------------------------------------- retries


def test_a_failed_job_is_tried_again_as_often_as_it_may_be() -> None:
    scene = Scene(1)
    job = scene.submit(retries=2)
    for number in (1, 2, 3):
        assert list(scene.plan()) == [job]
        assert scene.attempt(job).number == number
        scene.started(job)
        scene.exited(job, 1)
        assert scene.attempt_outcomes[job, number].state is S.FAILED
        scene.pass_s(3600)
    assert scene.where(job) is S.FAILED


def test_a_lost_job_is_tried_again_too() -> None:
    scene = Scene(1)
    job = scene.submit(retries=1)
    scene.plan()
    scene.started(job)
    scene.vanished(job)
    assert scene.attempt_outcomes[job, 1].state is S.LOST
    assert scene.where(job) is S.WAITING
    scene.pass_s(60)
    assert list(scene.plan()) == [job]


def test_a_job_that_could_not_start_is_tried_again_too() -> None:
    scene = Scene(1)
    job = scene.submit(retries=1)
    scene.plan()
    scene.not_started(job)
    assert scene.where(job) is S.WAITING


def test_a_job_that_reached_its_time_limit_is_tried_again_too() -> None:
    scene = Scene(1)
    job = scene.submit(retries=1, limit_s=10)
    scene.plan()
    scene.started(job)
    scene.pass_s(10)
    scene.exited(job, 143)
    assert scene.attempt_outcomes[job, 1].cause is Cause.TIME_LIMIT
    assert scene.where(job) is S.WAITING


def test_a_job_that_succeeds_is_not_tried_again() -> None:
    scene = Scene(1)
    job = scene.submit(retries=5)
    scene.plan()
    scene.started(job)
    scene.exited(job, 0)
    assert scene.where(job) is S.SUCCEEDED


def test_between_attempts_a_job_holds_nothing() -> None:
    scene = Scene(1)
    job = scene.submit(mem(4), retries=1, group="a")
    scene.plan()
    scene.started(job)
    scene.exited(job, 1)
    assert not scene.gpu("0").held_by
    assert scene.state.groups["a"].running == 0
    assert scene.job(job).active is None


def test_a_job_is_not_tried_again_before_its_back_off_is_over() -> None:
    scene = Scene(1)
    job = scene.submit(retries=1)
    scene.plan()
    scene.started(job)
    scene.exited(job, 1)
    assert scene.plan() == {}
    assert scene.state.next_timer_ms() == scene.now + BACKOFF_FIRST_MS
    scene.pass_s(BACKOFF_FIRST_MS / 1000 - 0.001)
    assert scene.plan() == {}
    scene.pass_s(0.001)
    assert list(scene.plan()) == [job]


def test_the_back_off_doubles_with_each_failure_up_to_its_most() -> None:
    assert [backoff_ms(n) for n in (1, 2, 3, 4)] == [1_000, 2_000, 4_000, 8_000]
    assert backoff_ms(100) == BACKOFF_MOST_MS
    assert all(backoff_ms(n) <= backoff_ms(n + 1) for n in range(1, 50))


def test_the_back_off_grows_with_each_failure_of_a_job() -> None:
    scene = Scene(1)
    job = scene.submit(retries=3)
    waits = []
    for _ in range(3):
        scene.plan()
        scene.started(job)
        scene.exited(job, 1)
        until_ms = scene.job(job).backoff_until_ms
        assert until_ms is not None
        waits.append(until_ms - scene.now)
        scene.pass_s(3600)
    assert waits == [1_000, 2_000, 4_000]


def test_a_user_may_retry_a_final_job_and_its_attempts_go_on_counting() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.exited(job, 1)
    scene.apply(ev.JobRetried(scene.now, job, whole(), Terms(), 0, None, (), 1))
    assert list(scene.plan()) == [job]
    assert scene.attempt(job).number == 2
    scene.started(job)
    scene.exited(job, 0)
    assert scene.where(job) is S.SUCCEEDED


def test_a_job_that_is_not_final_can_not_be_retried() -> None:
    scene = Scene(1)
    job = scene.running()
    with pytest.raises(AssertionError, match="is not final"):
        scene.state.apply(
            ev.JobRetried(scene.now, job, whole(), scene.job(job).terms, 0, None, (), 1)
        )


def test_what_changed_is_taken_once() -> None:
    scene = Scene(1)
    scene.state.apply(ev.QueuePaused(scene.now))
    assert scene.state.take_change()
    assert not scene.state.take_change()


def test_removed_jobs_are_named_to_the_store() -> None:
    scene = Scene(1)
    job = scene.running()
    scene.exited(job)
    scene.state.apply(ev.JobsRemoved(scene.now, (job,)))
    assert scene.state.take_change().removed == [job]
