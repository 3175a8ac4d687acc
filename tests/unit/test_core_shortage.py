"""A machine that is short of something: jobs are put back, and tried one at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.core import events as ev
from stoker.core import reasons as why
from stoker.core.forecast import expected_start
from stoker.core.model import Cause, JobState
from stoker.core.shortage import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, LowDisk
from stoker.core.takeover import NO_TAKEOVERS, planned
from unit.core_scene import Scene, cpu_only, whole

FILES = "too many files are open"


def put_back(scene: Scene, job_id: int, *, alone: bool = False, spent: bool = False) -> None:
    number = scene.attempt(job_id).number
    scene.apply(ev.AttemptPutBack(scene.now, job_id, number, FILES, alone, spent))


def short_scene(jobs: int = 3) -> tuple[Scene, list[int]]:
    """One job of several was put back a moment ago."""
    scene = Scene(jobs)
    ids = [scene.submit(retries=1) for _ in range(jobs)]
    assert list(scene.plan()) == ids
    for job_id in ids:
        put_back(scene, job_id)
    return scene, ids


def test_a_job_that_is_put_back_waits_as_if_it_had_never_been_placed() -> None:
    scene, (first, *_) = short_scene()
    job = scene.job(first)
    assert (job.state, job.attempt, job.failures, job.active) == (JobState.WAITING, 0, 0, None)
    assert scene.attempt_outcomes == {}
    assert scene.state.ready.has(job)


def test_nothing_is_tried_before_the_pause_is_over_and_then_one_job() -> None:
    scene, (first, *_) = short_scene()
    assert scene.plan() == {}
    assert scene.state.next_timer_ms() == scene.now + FIRST_PAUSE_MS
    scene.pass_s(0.499)
    assert scene.plan() == {}
    scene.pass_s(0.001)
    assert list(scene.plan()) == [first]
    assert scene.plan() == {}


def test_the_first_that_starts_lets_all_others_start() -> None:
    scene, (first, *others) = short_scene()
    scene.pass_s(0.5)
    scene.plan()
    scene.started(first)
    assert list(scene.plan()) == others
    assert scene.state.next_timer_ms() is None


def test_the_pause_grows_with_each_trial_up_to_a_bound_and_begins_anew() -> None:
    scene, (first, *_) = short_scene()
    pauses = []
    for _ in range(9):
        until_ms = scene.state.next_timer_ms()
        assert until_ms is not None
        pauses.append(until_ms - scene.now)
        scene.pass_s(pauses[-1] / 1000)
        assert list(scene.plan()) == [first]
        put_back(scene, first)
    assert pauses == [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, LONGEST_PAUSE_MS]
    scene.pass_s(30)
    scene.plan()
    scene.started(first)
    (second, *_) = scene.plan()
    put_back(scene, second)
    assert scene.state.next_timer_ms() == scene.now + FIRST_PAUSE_MS


def test_a_process_that_was_made_before_the_shortage_does_not_say_that_it_is_over() -> None:
    scene = Scene(2)
    ids = [scene.submit(), scene.submit()]
    scene.plan()
    put_back(scene, ids[1])
    scene.started(ids[0])
    assert scene.plan() == {}


def test_one_that_can_not_start_by_its_own_fault_says_nothing_and_the_next_is_tried() -> None:
    scene, (first, second, _) = short_scene()
    scene.pass_s(0.5)
    assert list(scene.plan()) == [first]
    scene.not_started(first)
    assert list(scene.plan()) == [second]


def test_one_that_was_placed_before_and_fails_by_its_own_fault_ends_no_trial() -> None:
    scene = Scene(3)
    first, second, before = [scene.submit() for _ in range(3)]
    scene.plan()
    put_back(scene, first)
    put_back(scene, second)
    scene.pass_s(0.5)
    assert list(scene.plan()) == [first]
    scene.not_started(before)
    assert scene.plan() == {}, "nothing is heard yet of the one that is tried"


def test_one_of_which_nothing_is_heard_does_not_keep_the_others_for_ever() -> None:
    scene, (first, second, _) = short_scene()
    scene.pass_s(0.5)
    assert list(scene.plan()) == [first]
    scene.pass_s(0.5)
    assert list(scene.plan()) == [second]


def test_jobs_of_a_cluster_are_handed_over_while_this_machine_is_short() -> None:
    scene, _ = short_scene()
    there = scene.submit(on_cluster=True)
    assert list(scene.plan()) == [there]


def test_the_reason_names_what_is_short_but_for_those_that_lack_room_anyway() -> None:
    scene, (first, *_) = short_scene()
    beyond = scene.submit(whole(9))
    until_ms = scene.now + FIRST_PAUSE_MS
    assert scene.why(first) == why.MachineIsShort(FILES, until_ms)
    assert isinstance(scene.why(beyond), why.CanNeverStart)
    text = why.words(scene.why(first), scene.now)
    assert text == "could not start: too many files are open; tries again in 1s"
    assert why.words(scene.why(first), until_ms).endswith("; tries again now")


def test_a_shortage_of_a_jobs_own_files_holds_up_that_job_alone() -> None:
    scene = Scene(1)
    first, second = scene.submit(cpu_only(0)), scene.submit(cpu_only(0))
    assert list(scene.plan()) == [first, second]
    put_back(scene, first, alone=True)
    third = scene.submit(cpu_only(0))
    assert list(scene.plan()) == [third]
    assert scene.why(first) == why.MachineIsShort(FILES, scene.now + FIRST_PAUSE_MS)
    scene.pass_s(0.5)
    assert list(scene.plan()) == [first]
    put_back(scene, first, alone=True)
    assert scene.why(first) == why.MachineIsShort(FILES, scene.now + 2 * FIRST_PAUSE_MS)
    scene.pass_s(1)
    scene.plan()
    scene.started(first)
    assert not scene.state.short_alone


def test_what_was_known_of_a_jobs_own_files_is_forgotten_with_the_job() -> None:
    scene = Scene(1)
    job = scene.submit()
    scene.plan()
    put_back(scene, job, alone=True)
    scene.cancel(job)
    assert not scene.state.short_alone


def test_a_number_that_others_have_heard_of_is_not_given_again_and_costs_no_retry() -> None:
    scene = Scene(1)
    job = scene.submit(retries=1)
    scene.plan()
    put_back(scene, job, spent=True)
    assert (scene.job(job).attempt, scene.job(job).failures) == (1, 0)
    assert scene.attempt_outcomes[job, 1].cause is Cause.SHORTAGE
    scene.pass_s(0.5)
    scene.plan()
    assert scene.attempt(job).number == 2


@pytest.mark.parametrize("alone", [False, True])
def test_a_job_that_is_being_cancelled_is_not_put_back(alone: bool) -> None:
    scene = Scene(1)
    job = scene.submit()
    scene.plan()
    scene.cancel(job)
    put_back(scene, job, alone=alone)
    assert scene.outcomes[job].state is JobState.CANCELLED
    assert not scene.state.short_alone


def test_a_clock_that_is_set_does_not_change_how_long_the_pause_is() -> None:
    scene, _ = short_scene()
    scene.apply(ev.ClockShifted(scene.now + 3_600_000, 3_600_000))
    assert scene.state.next_timer_ms() == scene.now + FIRST_PAUSE_MS
    scene.apply(ev.ClockShifted(scene.now - 7_200_000, -7_200_000))
    assert scene.state.next_timer_ms() == scene.now + FIRST_PAUSE_MS


# ---------------------------------------------------------------------- a disk with little room

LOW = LowDisk("/home/me/stoker", 100, 2048)


def test_nothing_starts_while_a_disk_is_low_and_all_does_when_it_has_room() -> None:
    scene = Scene(2)
    ids = [scene.submit(), scene.submit()]
    scene.apply(ev.DiskLooked(scene.now, LOW))
    assert scene.plan() == {}
    assert scene.why(ids[0]) == why.DiskIsLow("/home/me/stoker", 100, 2048)
    assert expected_start(scene.state, ids[0], lambda _: (1000,)) is None
    scene.apply(ev.DiskLooked(scene.now, None))
    assert list(scene.plan()) == ids


def test_a_disk_that_is_only_tight_stops_nothing() -> None:
    scene = Scene(1)
    job = scene.submit()
    scene.apply(ev.DiskLooked(scene.now, replace(LOW, stops=False)))
    assert list(scene.plan()) == [job]


def test_no_job_takes_over_while_a_disk_is_low() -> None:
    scene = Scene(1)
    first, second = scene.submit(), scene.submit()
    scene.plan()
    scene.started(first)
    assert planned(scene.state).standbys == (second,)
    scene.apply(ev.DiskLooked(scene.now, LOW))
    assert planned(scene.state) == NO_TAKEOVERS


def test_a_low_disk_is_told_with_what_can_be_done() -> None:
    words = why.words(why.DiskIsLow("/home/me/stoker", 100, 2048), 0)
    assert "/home/me/stoker" in words and "100 MiB" in words and "2.0 GiB" in words
    assert "disk-stop" in words and "`stoker disk`" in words
