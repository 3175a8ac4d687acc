"""The decision: who starts where, and for whom room is held back."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.laws import Contradiction
from stoker.core.model import Need
from stoker.core.plan import Scan
from stoker.core.reasons import HeldBack
from unit.core_scene import GIB, Scene, cpu_only, mem, share, whole


def test_a_free_gpu_is_given_to_the_first_in_line() -> None:
    scene = Scene(1)
    first = scene.submit()
    scene.submit()
    assert scene.plan() == {first: ("0",)}


def test_all_that_fits_starts_in_one_go() -> None:
    scene = Scene(4)
    jobs = [scene.submit() for _ in range(5)]
    assert list(scene.plan()) == jobs[:4]


def test_a_job_gets_as_many_gpus_as_it_asked_for_and_each_only_once() -> None:
    scene = Scene(4)
    pair, other = scene.submit(whole(2)), scene.submit(whole(2))
    assert scene.plan() == {pair: ("0", "1"), other: ("2", "3")}


def test_planning_twice_starts_nothing_more() -> None:
    scene = Scene(2)
    for need in (whole(), share(0.5), whole(2), mem(4), cpu_only()):
        scene.submit(need)
    scene.plan()
    assert scene.plan() == {}


def test_planning_takes_nothing_out_of_line_but_what_it_starts() -> None:
    scene = Scene(1)
    jobs = [scene.submit(whole(1), priority=p, limit_s=limit) for p in (1, 0) for limit in (5, 9)]
    scene.plan()
    assert [scene.state.ready.has(scene.job(job)) for job in jobs] == [True, True, False, True]


# ---------------------------------------------------------------------- starvation


def test_a_job_for_four_gpus_is_not_starved_by_a_stream_of_small_ones() -> None:
    scene = Scene(4)
    small = [scene.running() for _ in range(4)]
    big = scene.submit(whole(4))
    for _ in range(50):
        scene.submit()
        if not small:
            break
        scene.exited(small.pop())
        placed = scene.plan()
        assert not (set(placed) - {big}), "a small job went ahead"
        if big in placed:
            break
    assert scene.attempt(big).gpus == ("0", "1", "2", "3")


def test_gpus_that_are_held_back_are_those_that_are_free_soonest() -> None:
    scene = Scene(5)
    for limit_s in (100, 400, 200, 300):
        scene.running(limit_s=limit_s)
    big = scene.submit(whole(3))
    scan = Scan(scene.state)
    assert scan.carry_out(scene.state.apply) == []
    held = {gpu_id: hold.job_id for gpu_id, hold in scan.holds.items()}
    assert held == {"4": big, "0": big, "2": big}
    grace_ms = 30_000
    assert {hold.from_ms for hold in scan.holds.values()} == {scene.now + 200_000 + grace_ms}


def test_a_small_job_goes_ahead_if_its_time_limit_ends_before_the_big_one_can_start() -> None:
    scene = Scene(2)
    scene.running(limit_s=100)
    scene.submit(whole(2))
    scene.submit(limit_s=150)
    quick = scene.submit(limit_s=100)
    assert scene.plan() == {quick: ("1",)}


def test_a_small_job_without_a_time_limit_does_not_go_ahead() -> None:
    scene = Scene(2)
    scene.running(limit_s=100)
    big, small = scene.submit(whole(2)), scene.submit()
    assert scene.plan() == {}
    assert scene.why(small) == HeldBack(big, ("1",))


def test_nothing_goes_ahead_in_time_while_nobody_knows_when_the_big_one_can_start() -> None:
    scene = Scene(2)
    scene.running()
    scene.submit(whole(2))
    scene.submit(limit_s=1)
    assert scene.plan() == {}


def test_time_that_has_run_out_for_another_is_not_counted_on() -> None:
    scene = Scene(2)
    scene.running(limit_s=10)
    scene.submit(whole(2))
    scene.submit(limit_s=9)
    scene.pass_s(3)
    assert scene.plan() == {}


def test_a_small_job_goes_ahead_on_gpus_that_the_big_one_can_not_use() -> None:
    scene = Scene({"0": 80, "1": 80, "2": 24})
    scene.running(Need(1, on=("0",)))
    scene.submit(mem(60, gpus=2))
    small = scene.submit()
    assert scene.plan() == {small: ("2",)}


def test_a_small_job_goes_ahead_on_gpus_that_the_big_one_does_not_wait_for() -> None:
    scene = Scene(4)
    scene.running(whole(2))
    scene.submit(Need(3, on=("0", "1", "2")))
    small = scene.submit()
    assert scene.plan() == {small: ("3",)}


def test_a_small_job_goes_ahead_into_memory_that_both_fit_into() -> None:
    scene = Scene(1)
    scene.running(mem(12))
    scene.submit(mem(16))
    too_much, fits_beside = scene.submit(mem(9)), scene.submit(mem(8))
    assert scene.plan() == {fits_beside: ("0",)}
    assert scene.state.ready.has(scene.job(too_much))


def test_small_jobs_that_go_ahead_must_fit_beside_the_big_one_together() -> None:
    scene = Scene(1)
    scene.running(mem(12))
    big = scene.submit(mem(16))
    small = [scene.submit(mem(4)) for _ in range(3)]
    assert list(scene.plan()) == small[:2]
    scene.exited(1)
    assert list(scene.plan()) == [big]


def test_what_stays_beside_the_big_one_counts_against_those_that_go_ahead() -> None:
    scene = Scene(1)
    scene.running(mem(4))
    scene.running(mem(14), limit_s=60)
    scene.submit(mem(16))
    scene.submit(mem(5))
    fits = scene.submit(mem(4))
    assert scene.plan() == {fits: ("0",)}


def test_a_job_that_goes_ahead_in_time_takes_no_room_from_others_that_fit_beside() -> None:
    scene = Scene(1)
    scene.running(mem(12), limit_s=60)
    scene.submit(mem(16))
    in_time, beside = scene.submit(mem(4), limit_s=60), scene.submit(mem(8))
    assert list(scene.plan()) == [in_time, beside]


def test_the_second_that_can_not_start_holds_gpus_that_the_first_can_not_use() -> None:
    scene = Scene({"0": 80, "1": 80, "2": 24, "3": 24})
    scene.running(Need(1, on=("0",)))
    scene.running(Need(1, on=("2",)))
    first = scene.submit(mem(60, gpus=2))
    second = scene.submit(Need(2, on=("2", "3")))
    small = scene.submit()
    assert scene.plan() == {}
    scan = Scan(scene.state)
    assert scan.carry_out(scene.state.apply) == []
    holders = {gpu_id: hold.job_id for gpu_id, hold in scan.holds.items()}
    assert holders == {"0": first, "1": first, "2": second, "3": second}
    assert scene.why(small) == HeldBack(first, ("1", "3"))


def test_the_second_that_can_not_start_holds_nothing_that_the_first_might_use() -> None:
    scene = Scene(4)
    scene.running(whole(3))
    first, second = scene.submit(whole(2)), scene.submit(whole(3))
    scan = Scan(scene.state)
    assert scan.carry_out(scene.state.apply) == []
    assert {hold.job_id for hold in scan.holds.values()} == {first}
    assert second not in {hold.job_id for hold in scan.holds.values()}


def test_nothing_is_kept_for_a_job_that_can_never_start() -> None:
    scene = Scene(2)
    scene.submit(whole(3))
    small = scene.submit()
    assert scene.plan() == {small: ("0",)}


def test_nothing_is_kept_for_a_job_that_waits_for_a_drained_gpu() -> None:
    scene = Scene(2)
    scene.apply(ev.GpuDrained(scene.now, "0"))
    scene.submit(whole(2))
    small = scene.submit()
    assert scene.plan() == {small: ("1",)}
    scene.apply(ev.GpuResumed(scene.now, "0"))
    later = scene.submit()
    assert scene.plan() == {}
    assert isinstance(scene.why(later), HeldBack)


def test_the_decision_does_not_depend_on_the_order_in_which_jobs_became_active() -> None:
    """A restart takes the jobs in by their ids, and must decide as would have been before it."""
    decisions = []
    for first_is_late in (False, True):
        scene = Scene(1)
        first = scene.submit(mem(8), held=first_is_late)
        second = scene.submit(mem(4))
        scene.plan()
        if first_is_late:
            scene.apply(ev.JobReleased(scene.now, first))
            scene.plan()
        scene.started(first, second)
        scene.submit(mem(14))
        scene.submit(mem(4))
        decisions.append(scene.plan())
    assert decisions[0] == decisions[1]


# ---------------------------------------------------------------------- CPU slots


def test_a_cpu_only_job_does_not_wait_for_gpus() -> None:
    scene = Scene(1)
    scene.running()
    scene.submit(whole())
    no_gpu = scene.submit(cpu_only())
    assert scene.plan() == {no_gpu: ()}


def test_a_cpu_only_job_runs_where_there_is_no_gpu_at_all() -> None:
    scene = Scene(0)
    job = scene.submit(cpu_only(0))
    assert scene.plan() == {job: ()}


def test_a_cpu_only_job_that_waits_does_not_keep_others_from_holding_gpus_back() -> None:
    scene = Scene(2, cpus=4)
    scene.running(cpu_only(1))
    scene.running(whole())
    scene.submit(cpu_only(4))
    big, small = scene.submit(whole(2)), scene.submit(whole())
    assert scene.plan() == {}
    assert scene.why(small) == HeldBack(big, ("1",))


def test_a_job_that_asks_for_no_slot_runs_even_if_all_are_taken() -> None:
    scene = Scene(1, cpus=2)
    scene.running(cpu_only(2))
    nothing = scene.submit(cpu_only(0))
    assert scene.plan() == {nothing: ()}


def test_no_more_cpu_slots_are_given_than_there_are() -> None:
    scene = Scene(0, cpus=5)
    jobs = [scene.submit(cpu_only(2)) for _ in range(3)]
    assert list(scene.plan()) == jobs[:2]


def test_cpu_slots_are_held_back_for_the_first_that_wants_them() -> None:
    scene = Scene(0, cpus=4)
    scene.running(cpu_only(2))
    wide, narrow = scene.submit(cpu_only(4)), scene.submit(cpu_only(1))
    assert scene.plan() == {}
    assert scene.why(narrow) == HeldBack(wide, ())
    scene.exited(1)
    assert list(scene.plan()) == [wide]


def test_cpu_slots_are_held_back_for_a_gpu_job_that_waits_for_its_gpu() -> None:
    scene = Scene(1, cpus=4)
    scene.running()
    gpu_job = scene.submit(whole(cpus=3))
    one, two = scene.submit(cpu_only(1)), scene.submit(cpu_only(1))
    assert list(scene.plan()) == [one]
    scene.exited(1)
    assert list(scene.plan()) == [gpu_job]
    assert scene.why(two) is not None


def test_a_cpu_job_goes_ahead_if_its_time_limit_ends_before_the_slots_are_wanted() -> None:
    scene = Scene(0, cpus=4)
    scene.running(cpu_only(2), limit_s=60)
    scene.submit(cpu_only(4))
    scene.submit(cpu_only(1), limit_s=90)
    quick = scene.submit(cpu_only(1), limit_s=60)
    assert list(scene.plan()) == [quick]


def test_a_gpu_job_that_waits_for_cpu_slots_keeps_its_gpu_until_then() -> None:
    scene = Scene(1, cpus=2)
    scene.running(cpu_only(1), limit_s=60)
    scene.submit(whole(cpus=2))
    scene.submit(whole(), limit_s=90)
    quick = scene.submit(whole(), limit_s=60)
    assert scene.plan() == {quick: ("0",)}


def test_a_job_that_wants_more_slots_than_there_are_holds_nothing_back() -> None:
    scene = Scene(1, cpus=2)
    scene.submit(whole(cpus=3))
    other = scene.submit(whole(cpus=2))
    assert scene.plan() == {other: ("0",)}


def test_nothing_starts_while_fewer_slots_are_left_than_are_used() -> None:
    scene = Scene(0, cpus=4)
    scene.running(cpu_only(4))
    scene.apply(ev.CpusCounted(scene.now, 2))
    job = scene.submit(cpu_only(1))
    assert scene.plan() == {}
    scene.exited(1)
    assert list(scene.plan()) == [job]


# ---------------------------------------------------------------------- groups and pauses


def test_nothing_starts_while_the_queue_is_paused() -> None:
    scene = Scene(2)
    job = scene.submit()
    scene.apply(ev.QueuePaused(scene.now))
    assert scene.plan() == {}
    scene.apply(ev.QueueResumed(scene.now))
    assert list(scene.plan()) == [job]


def test_a_paused_group_lets_others_pass() -> None:
    scene = Scene(2)
    in_group = scene.submit(group="a")
    other = scene.submit(group="b")
    scene.apply(ev.QueuePaused(scene.now, "a"))
    assert list(scene.plan()) == [other]
    scene.apply(ev.QueueResumed(scene.now, "a"))
    assert list(scene.plan()) == [in_group]


def test_no_gpu_is_held_back_for_a_job_of_a_paused_group() -> None:
    scene = Scene(2)
    scene.running()
    scene.submit(whole(2), group="a")
    scene.apply(ev.QueuePaused(scene.now, "a"))
    small = scene.submit()
    assert list(scene.plan()) == [small]


def test_no_more_of_a_group_run_than_may() -> None:
    scene = Scene(4)
    scene.apply(ev.GroupLimited(scene.now, "a", 2))
    jobs = [scene.submit(group="a") for _ in range(4)]
    other = scene.submit()
    assert list(scene.plan()) == [*jobs[:2], other]
    scene.started(jobs[0])
    scene.exited(jobs[0])
    assert list(scene.plan()) == [jobs[2]]
    scene.apply(ev.GroupLimited(scene.now, "a", None))
    assert list(scene.plan()) == [jobs[3]]


def test_a_group_that_may_run_nothing_runs_nothing() -> None:
    scene = Scene(4)
    scene.apply(ev.GroupLimited(scene.now, "a", 0))
    scene.submit(group="a")
    assert scene.plan() == {}


def test_a_stopping_job_still_counts_for_its_group() -> None:
    scene = Scene(4)
    scene.apply(ev.GroupLimited(scene.now, "a", 1))
    first, second = scene.submit(group="a"), scene.submit(group="a")
    scene.plan()
    scene.started(first)
    scene.cancel(first)
    assert scene.plan() == {}
    scene.exited(first, code=143)
    assert list(scene.plan()) == [second]


# ---------------------------------------------------------------------- GPUs that change


def test_a_drained_gpu_gets_nothing_new_and_keeps_what_it_runs() -> None:
    scene = Scene(2)
    running = scene.running()
    scene.apply(ev.GpuDrained(scene.now, "0"), ev.GpuDrained(scene.now, "1"))
    scene.submit()
    assert scene.plan() == {}
    assert scene.attempt(running).gpus == ("0",)


def test_a_removed_gpu_finishes_what_it_runs_and_is_gone_afterwards() -> None:
    scene = Scene(2)
    running = scene.running()
    scene.apply(ev.GpuRemoved(scene.now, "0"), ev.GpuRemoved(scene.now, "1"))
    scene.submit()
    assert scene.plan() == {}
    assert list(scene.state.gpus) == ["0"]
    scene.exited(running)
    assert list(scene.state.gpus) == []
    assert scene.plan() == {}


def test_a_gpu_that_is_added_again_while_it_is_removed_is_used_again() -> None:
    scene = Scene(1)
    running = scene.running()
    scene.apply(ev.GpuRemoved(scene.now, "0"), ev.GpuAdded(scene.now, "0", 24 * GIB))
    scene.exited(running)
    job = scene.submit()
    assert scene.plan() == {job: ("0",)}


def test_an_added_gpu_stands_in_the_order_of_its_index() -> None:
    scene = Scene({"10": 24, "2": 24})
    scene.apply(ev.GpuAdded(scene.now, "3", 24 * GIB))
    assert list(scene.state.gpus) == ["2", "3", "10"]


def test_a_gpu_whose_memory_turns_out_to_be_larger_can_be_shared_further() -> None:
    scene = Scene(1, gib=24)
    scene.running(share(0.5))
    scene.submit(mem(13))
    assert scene.plan() == {}
    scene.apply(ev.GpuAdded(scene.now, "0", 48 * GIB))
    assert list(scene.plan()) == [2]


def test_a_plan_that_is_not_applied_as_it_is_made_is_refused() -> None:
    scene = Scene(2)
    first, second = scene.submit(), scene.submit()
    with pytest.raises(Contradiction, match=f"job {first} was to be placed"):
        Scan(scene.state).carry_out(lambda placed: None)
    assert scene.plan() == {first: ("0",), second: ("1",)}
