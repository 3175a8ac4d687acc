"""Jobs that offered to give way for urgent ones: which of them do, what is kept, and how often."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core import reasons as why
from stoker.core.commands import Terminate, Warn
from stoker.core.giving_way import may_give_way
from stoker.core.model import Cause, Exit, JobState, Need, Outcome
from stoker.core.waiting import why_not_going_on
from unit.core_scene import Scene, cpu_only, mem, share, whole

S = JobState
USR2 = 12
HOUR_S = 3600.0


def offered(scene: Scene, need: Need | None = None, **more: object) -> int:
    """A job that offers to give way, and runs."""
    job = scene.submit(need, preemptible=True, requeue_on=(75,), **more)  # type: ignore[arg-type]
    assert job in scene.plan()
    scene.started(job)
    return job


def urgent(scene: Scene, need: Need | None = None, **more: object) -> int:
    """An urgent job, and what is decided when it comes."""
    job = scene.submit(need, urgent=True, **more)  # type: ignore[arg-type]
    scene.plan()
    return job


def saved(scene: Scene, job: int, ago_s: float = 0) -> None:
    """A job has written a checkpoint, so long ago."""
    scene.apply(ev.WorkSaved(scene.now, job, 1, scene.now - round(ago_s * 1000)))


def giving_way(scene: Scene) -> set[int]:
    """The jobs that were told to give way."""
    jobs = [scene.job(job_id) for job_id in scene.state.stopping]
    return {one.id for one in jobs if one.active and one.active.stop
            and one.active.stop.cause is Cause.GAVE_WAY}  # fmt: skip


# ---------------------------------------------------------------------- who goes first


def test_an_urgent_job_goes_before_all_others_whatever_their_priority() -> None:
    scene = Scene(1)
    running = scene.running()
    usual, better = scene.submit(), scene.submit(priority=-1_000_000_000)
    late, later = scene.submit(urgent=True, priority=9), scene.submit(urgent=True)
    order: list[int] = []
    for job in (running, later, late, better, usual):
        scene.exited(job)
        placed = scene.plan()
        scene.started(*placed)
        order += placed
    assert order == [later, late, better, usual]


def test_who_is_ahead_of_jobs_among_urgent_ones_is_counted() -> None:
    scene = Scene(0)
    usual, better = scene.submit(), scene.submit(priority=-5)
    soon = [scene.submit(urgent=True) for _ in range(3)]
    jobs = [scene.job(job) for job in (usual, better, soon[2])]
    assert scene.state.ahead_of(jobs) == {usual: 4, better: 3, soon[2]: 2}


# ---------------------------------------------------------------------- who gives way


def test_an_offered_job_gives_way_and_the_urgent_one_has_its_gpu_the_moment_it_has_ended() -> None:
    scene = Scene(1)
    job = offered(scene, signal=USR2, signal_before_s=60, grace_s=30)
    hurry = urgent(scene)
    assert scene.where(job) is S.STOPPING
    assert scene.commands(job) == [Warn(job, 1, USR2)]
    assert scene.why(hurry) == why.WaitsForGivingWay((job,), scene.now + 90_000)
    scene.warned(job)
    scene.pass_s(60)
    assert scene.commands(job) == [Terminate(job, 1, force=False)]
    scene.exited(job, 75)
    ended = Outcome(S.WAITING, Cause.GAVE_WAY, Exit(code=75), str(hurry))
    assert scene.attempt_outcomes[job, 1] == ended
    assert scene.plan() == {hurry: ("0",)}
    assert scene.why(job) == why.HasGivenWay(hurry, False, why.NeedsGpus(1, 0, 1))


def test_nothing_gives_way_that_did_not_offer_it() -> None:
    scene = Scene(2)
    jobs = [scene.running(), scene.running()]
    hurry = urgent(scene)
    assert [scene.where(job) for job in jobs] == [S.RUNNING] * 2
    assert scene.why(hurry) == why.NoneGivesWay(why.NeedsGpus(1, 0, 2))


def test_an_offered_job_gives_way_for_none_that_is_not_urgent() -> None:
    scene = Scene(1)
    job = offered(scene, priority=5)
    scene.submit(priority=-5)
    scene.plan()
    assert scene.where(job) is S.RUNNING


def test_an_urgent_job_that_finds_a_free_gpu_makes_none_give_way() -> None:
    scene = Scene(2)
    job = offered(scene)
    assert urgent(scene) in scene.state.active
    assert scene.where(job) is S.RUNNING


def test_those_with_the_least_work_to_lose_give_way() -> None:
    scene = Scene(3)
    oldest = offered(scene)
    scene.pass_s(100)
    older = offered(scene)
    scene.pass_s(100)
    newest = offered(scene)
    scene.pass_s(50)
    saved(scene, oldest, ago_s=10)
    urgent(scene)
    assert giving_way(scene) == {oldest}
    urgent(scene)
    assert giving_way(scene) == {oldest, newest}
    urgent(scene)
    assert giving_way(scene) == {oldest, newest, older}


def test_a_checkpoint_of_an_earlier_attempt_is_no_work_of_this_one() -> None:
    scene = Scene(2)
    scene.pass_s(1000)
    offered(scene)
    scene.pass_s(10)
    newer = offered(scene)
    scene.pass_s(10)
    saved(scene, newer, ago_s=500)
    urgent(scene)
    assert giving_way(scene) == {newer}


@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_as_few_give_way_as_are_needed(gpus: int) -> None:
    scene = Scene(4)
    jobs = {offered(scene) for _ in range(4)}
    urgent(scene, whole(gpus))
    for _ in range(3):
        scene.plan()
        assert len(giving_way(scene)) == gpus and giving_way(scene) <= jobs


def test_one_on_two_gpus_gives_way_rather_than_two_on_one_each() -> None:
    scene = Scene(4)
    large = offered(scene, whole(2))
    scene.pass_s(50)
    small = [offered(scene), offered(scene)]
    scene.pass_s(5)
    urgent(scene, whole(2))
    assert giving_way(scene) == {large}
    urgent(scene, whole(2))
    assert giving_way(scene) == {large, *small}


@pytest.mark.parametrize("need", [whole(2), whole(1, on=("1",)), mem(30), cpu_only(9)])
def test_none_gives_way_where_that_would_make_no_room(need: Need) -> None:
    scene = Scene(1)
    job = offered(scene)
    urgent(scene, need)
    assert scene.where(job) is S.RUNNING


def test_on_a_shared_gpu_one_gives_way_whose_memory_is_enough() -> None:
    scene = Scene(1)
    small, large = offered(scene, mem(4)), offered(scene, mem(12))
    scene.running(mem(8))
    urgent(scene, mem(10))
    assert giving_way(scene) == {large}
    assert scene.where(small) is S.RUNNING


def test_shares_and_cpu_slots_make_room_too() -> None:
    scene = Scene(1, cpus=4)
    part = offered(scene, share(0.5))
    scene.running(share(0.5))
    slots = offered(scene, cpu_only(3))
    urgent(scene, share(0.4))
    assert giving_way(scene) == {part}
    urgent(scene, cpu_only(2))
    assert giving_way(scene) == {part, slots}


def test_one_of_a_full_group_gives_way_for_one_of_it() -> None:
    scene = Scene(4)
    scene.apply(ev.GroupLimited(scene.now, "a", 1))
    job, other = offered(scene, group="a"), offered(scene)
    urgent(scene, group="a")
    assert (scene.where(job), scene.where(other)) == (S.STOPPING, S.RUNNING)


@pytest.mark.parametrize(("most", "stopped"), [(2, 1), (1, 2), (0, 0)])
def test_as_many_of_a_group_give_way_as_its_limit_asks_for(most: int, stopped: int) -> None:
    scene = Scene(4)
    jobs = [offered(scene, group="a"), offered(scene, group="a")]
    scene.apply(ev.GroupLimited(scene.now, "a", most))
    urgent(scene, group="a")
    for _ in range(2):
        scene.plan()
        assert len(giving_way(scene) & set(jobs)) == stopped


def test_none_gives_way_if_room_comes_by_itself_within_the_grace_time() -> None:
    for limit_s, where in ((20, S.RUNNING), (40, S.STOPPING)):
        scene = Scene(2)
        job = offered(scene, grace_s=30)
        ending = scene.submit(limit_s=limit_s, grace_s=5)
        scene.plan()
        scene.started(ending)
        urgent(scene)
        assert scene.where(job) is where


def test_none_gives_way_while_another_that_is_stopped_ends_soon() -> None:
    scene = Scene(2)
    job, other = offered(scene), scene.running()
    scene.cancel(other)
    hurry = urgent(scene)
    assert scene.where(job) is S.RUNNING
    scene.exited(other, 1)
    assert list(scene.plan()) == [hurry]


@pytest.mark.parametrize("what", [ev.QueuePaused, None])
def test_none_gives_way_while_nothing_would_start(what: type[ev.QueuePaused] | None) -> None:
    scene = Scene(1)
    job = offered(scene)
    if what is not None:
        scene.apply(what(scene.now))
    else:
        scene.apply(ev.GpuDrained(scene.now, "0"))
    urgent(scene)
    assert scene.where(job) is S.RUNNING


# ---------------------------------------------------------------------- put back


def test_those_that_gave_way_stand_at_the_front_of_their_equals_in_their_own_order() -> None:
    scene = Scene(2)
    jobs = [offered(scene), offered(scene)]
    equal, better = scene.submit(), scene.submit(priority=-1)
    hurry = urgent(scene, whole(2))
    for job in reversed(jobs):
        scene.exited(job, 75)
    assert list(scene.plan()) == [hurry]
    scene.started(hurry)
    scene.exited(hurry)
    assert list(scene.plan()) == [better, jobs[0]]
    ahead = scene.state.ahead_of([scene.job(jobs[1]), scene.job(equal)])
    assert ahead == {jobs[1]: 0, equal: 1}


def test_one_that_its_user_lets_give_way_stands_behind_its_equals() -> None:
    scene = Scene(1)
    job, equal = offered(scene), scene.submit()
    scene.apply(ev.StopRequested(scene.now, job, 1, Cause.GAVE_WAY))
    scene.exited(job, 75)
    assert list(scene.plan()) == [equal]


def test_giving_way_is_no_sign_of_being_stuck_and_a_failure_is_still_one() -> None:
    scene = Scene(1)
    job = offered(scene, stuck_after=1)
    hurry = urgent(scene)
    scene.exited(job, 75, progressed=False)
    assert scene.where(job) is S.WAITING
    scene.plan()
    scene.started(hurry)
    scene.exited(hurry)
    scene.plan()
    scene.started(job)
    hurry = urgent(scene)
    scene.exited(job, 1)
    told = f"after it was told to give way for job {hurry}"
    assert scene.outcomes[job] == Outcome(S.FAILED, Cause.EXIT, Exit(code=1), told)
    assert why.outcome_words(scene.outcomes[job]) == f"exit code 1 {told}"


def test_a_job_that_was_done_when_it_was_to_give_way_has_succeeded() -> None:
    scene = Scene(1)
    job = offered(scene)
    hurry = urgent(scene)
    scene.exited(job, 0)
    assert scene.where(job) is S.SUCCEEDED
    assert list(scene.plan()) == [hurry]


def test_if_the_urgent_job_is_cancelled_the_stop_stands_and_the_gpus_are_free() -> None:
    scene = Scene(2)
    jobs = [offered(scene), offered(scene)]
    other = scene.submit()
    hurry = urgent(scene, whole(2))
    scene.exited(jobs[0], 75)
    assert scene.plan() == {}
    scene.cancel(hurry)
    assert scene.where(jobs[1]) is S.STOPPING
    assert list(scene.plan()) == [jobs[0]]
    scene.exited(jobs[1], 75)
    assert list(scene.plan()) == [jobs[1]]
    assert scene.where(other) is S.WAITING


# ---------------------------------------------------------------------- what is kept


def test_gpus_that_are_left_are_kept_until_the_urgent_jobs_start() -> None:
    scene = Scene(4)
    jobs = [offered(scene) for _ in range(4)]
    waits = scene.submit(limit_s=1, grace_s=0)
    first, second = urgent(scene, whole(2)), urgent(scene, whole(2, cpus=1))
    assert giving_way(scene) == set(jobs)
    kept = (*scene.job(second).kept, *scene.job(first).kept)
    assert sorted(kept) == ["0", "1", "2", "3"]
    on = [next(job for job in jobs if scene.attempt(job).gpus == (gpu,)) for gpu in kept]
    started: list[int] = []
    for job in on:
        # One GPU is free in between, and neither those that gave way nor a short one are put there.
        assert started in ([], [first])
        scene.exited(job, 75)
        if len(giving_way(scene)) % 2:
            assert scene.plan() == {}
            assert isinstance(scene.why(waits), why.HeldBack)
        else:
            started += scene.plan()
    assert started == [first, second]


def test_one_that_comes_before_the_urgent_job_may_take_what_is_kept() -> None:
    scene = Scene(2)
    jobs = [offered(scene), offered(scene)]
    hurry = urgent(scene, whole(2))
    scene.exited(jobs[0], 75)
    more = urgent(scene, priority=-1)
    assert more in scene.state.active
    scene.exited(jobs[1], 75)
    assert scene.plan() == {} and scene.job(hurry).kept == ()
    scene.started(more)
    scene.exited(more)
    assert list(scene.plan()) == [hurry]


def test_small_ones_may_use_what_the_urgent_job_leaves_of_a_kept_gpu() -> None:
    scene = Scene(2)
    jobs = [offered(scene, mem(20)), offered(scene, mem(20))]
    small, large = scene.submit(mem(8)), scene.submit(mem(12))
    hurry = urgent(scene, mem(16, gpus=2))
    scene.exited(jobs[0], 75)
    placed = scene.plan()
    assert list(placed) == [small] and large not in placed
    scene.exited(jobs[1], 75)
    assert next(iter(scene.plan())) == hurry


# ---------------------------------------------------------------------- how often


def gives_way(scene: Scene, job: int) -> bool:
    """An urgent job comes, and has ended soon after; whether the other one gave way for it."""
    hurry = urgent(scene)
    stopped = scene.where(job) is S.STOPPING
    if stopped:
        scene.exited(job, 75)
        scene.plan()
        scene.started(hurry)
        scene.pass_s(60)
        scene.exited(hurry)
        scene.plan()
        scene.started(job)
        scene.pass_s(60)
    else:
        scene.cancel(hurry)
    return stopped


def test_no_job_gives_way_more_often_in_an_hour_than_it_said() -> None:
    scene = Scene(1)
    job = offered(scene, yields=2)
    began = scene.now
    assert [gives_way(scene, job) for _ in range(4)] == [True, True, False, False]
    scene.pass_s(HOUR_S - (scene.now - began) / 1000 - 1)
    assert not gives_way(scene, job)
    scene.pass_s(1)
    assert gives_way(scene, job)


def test_one_that_started_again_is_left_alone_for_as_long_as_it_has_waited() -> None:
    scene = Scene(1)
    job = offered(scene, yields=1000)
    hurry = urgent(scene)
    scene.exited(job, 75)
    scene.plan()
    scene.started(hurry)
    scene.pass_s(500)
    scene.exited(hurry)
    scene.plan()
    scene.started(job)
    again = urgent(scene)
    scene.pass_s(499)
    scene.plan()
    assert scene.where(job) is S.RUNNING
    told = scene.why(again)
    assert isinstance(told, why.NoneGivesWay)
    assert (told.next_id, told.from_ms) == (job, scene.now + 1_000)
    scene.pass_s(1)
    assert may_give_way(scene.state, scene.job(job))
    scene.plan()
    assert scene.where(job) is S.STOPPING


def test_one_that_gave_way_and_has_waited_an_hour_goes_before_urgent_jobs() -> None:
    scene = Scene(1)
    job = offered(scene)
    hurry = urgent(scene)
    more = [urgent(scene, priority=-9) for _ in range(3)]
    scene.exited(job, 75)
    assert list(scene.plan()) == [more[0]]
    scene.started(more[0])
    scene.pass_s(HOUR_S - 1)
    assert not scene.job(job).goes_first
    scene.pass_s(1)
    reason = scene.why(job)
    assert isinstance(reason, why.HasGivenWay) and reason.goes_first
    scene.exited(more[0])
    assert list(scene.plan()) == [job]
    assert scene.where(hurry) is S.WAITING


def test_moments_of_giving_way_move_with_the_clock() -> None:
    scene = Scene(1)
    job = offered(scene)
    urgent(scene)
    scene.exited(job, 75)
    before = scene.job(job).gave_way
    assert before is not None and before.since_ms is not None
    scene.apply(ev.ClockShifted(scene.now + 5_000, 5_000))
    after = scene.job(job).gave_way
    assert after is not None
    assert (after.times_ms, after.since_ms) == (
        (before.times_ms[0] + 5_000,),
        before.since_ms + 5_000,
    )


def test_what_gives_way_says_for_which_job_and_until_when() -> None:
    scene = Scene(1)
    job = offered(scene)
    hurry = urgent(scene)
    assert why_not_going_on(scene.job(job)) == why.GivesWay(hurry, scene.now + 30_000)
    scene.cancel(job)
    told = scene.why(hurry)
    assert isinstance(told, why.WaitsForGivingWay) and told.job_ids == (job,), "it still ends"
