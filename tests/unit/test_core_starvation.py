"""Nobody waits for ever: not behind jobs that can't start, nor behind a stream of others."""

from __future__ import annotations

import random

import pytest

from stoker.core import events as ev
from stoker.core.model import Need
from stoker.core.plan import MOST_BLOCKED_CLASSES, Scan
from stoker.core.ready import longest_step_ms
from unit.core_scene import GIB, Scene, mem, whole

MANY = MOST_BLOCKED_CLASSES + 10


def test_a_job_starts_behind_any_number_of_different_jobs_that_can_never_start() -> None:
    scene = Scene(2, gib=24)
    for extra in range(MANY):
        scene.submit(Need(1, mem_mib=100 * GIB + extra))
    possible = scene.submit(whole())
    assert scene.plan() == {possible: ("0",)}


def test_a_job_starts_behind_any_number_of_groups_that_are_paused_or_full() -> None:
    scene = Scene(2)
    for number in range(MANY):
        scene.submit(whole(), group=f"g{number}")
        scene.apply(ev.QueuePaused(scene.now, f"g{number}"))
    full = scene.submit(whole(), group="full")
    scene.apply(ev.GroupLimited(scene.now, "full", 1))
    assert list(scene.plan()) == [full]
    scene.submit(whole(), group="full")
    free = scene.submit(whole())
    assert list(scene.plan()) == [free]


def test_a_job_whose_group_goes_on_starts_in_its_turn_again() -> None:
    scene = Scene(1)
    first = scene.submit(whole(), group="g")
    scene.apply(ev.QueuePaused(scene.now, "g"))
    assert scene.plan() == {}
    second = scene.submit(whole(), group="g")
    third = scene.submit(whole())
    scene.apply(ev.QueueResumed(scene.now, "g"))
    assert list(scene.plan()) == [first]
    scene.exited(first)
    assert list(scene.plan()) == [second]
    scene.exited(second)
    assert list(scene.plan()) == [third]


def test_a_job_of_a_full_group_starts_when_another_of_it_ends_or_the_limit_is_raised() -> None:
    scene = Scene(4)
    scene.submit(whole(), group="g")
    scene.apply(ev.GroupLimited(scene.now, "g", 1))
    jobs = [scene.submit(whole(), group="g") for _ in range(3)]
    (running,) = scene.plan()
    assert scene.plan() == {}
    scene.exited(running)
    assert list(scene.plan()) == jobs[:1]
    scene.apply(ev.GroupLimited(scene.now, "g", None))
    assert list(scene.plan()) == jobs[1:]


@pytest.mark.parametrize("how", ["added", "resumed", "larger", "more cpus"])
def test_a_job_that_could_not_start_does_so_when_gpus_and_cpus_change(how: str) -> None:
    scene = Scene(1, gib=24, cpus=2)
    if how == "resumed":
        scene.apply(ev.GpuDrained(scene.now, "0"))
    need = {
        "added": whole(2),
        "resumed": whole(),
        "larger": mem(40),
        "more cpus": whole(cpus=4),
    }[how]
    job = scene.submit(need)
    assert scene.plan() == {}
    late = scene.submit(need)
    if how == "added":
        scene.apply(ev.GpuAdded(scene.now, "1", 24 * GIB))
    elif how == "resumed":
        scene.apply(ev.GpuResumed(scene.now, "0"))
    elif how == "larger":
        scene.apply(ev.GpuAdded(scene.now, "0", 48 * GIB))
    else:
        scene.apply(ev.CpusCounted(scene.now, 4))
    assert list(scene.plan()) == [job]
    scene.exited(job)
    assert list(scene.plan()) == [late]


def test_a_job_that_wants_most_of_a_gpu_keeps_its_claim_on_the_gpu_that_is_nearest_to_it() -> None:
    """If its claim moved to the GPU that is fuller by now, those behind would fill the other."""
    scene = Scene(2, gib=24)
    on = {job: (scene.attempt(job).gpus[0], 0) for job in [scene.running(mem(10)) for _ in "1234"]}
    big = scene.submit(mem(20))
    for step in range(100):
        for _ in range(4):
            scene.submit(mem(4))
        scan = Scan(scene.state)
        for placed in scan.carry_out(scene.apply):
            if placed.job_id == big:
                return
            on[placed.job_id] = (placed.gpus[0], step)
        # One ends where the big one has no claim, as long as nobody runs for too long: the worst
        # that can happen to it.
        ending = min(on, key=lambda job: (step - on[job][1] < 8, on[job][0] in scan.holds, job))
        del on[ending]
        scene.exited(ending)
    raise AssertionError("the big job never started")


@pytest.mark.parametrize("seed", range(40))
def test_whoever_is_first_starts_in_the_end_whatever_comes_after_it(seed: int) -> None:
    rng = random.Random(seed)
    scene = Scene(3, gib=24, cpus=6)
    small = [mem(4), mem(10), Need(1, share_milli=300), Need(1, cpus=2), mem(2, 2), Need(0, cpus=2)]
    ends: dict[int, int] = {}
    first = None
    for step in range(400):
        for _ in range(rng.randint(1, 4)):
            limit = rng.choice((None, None, 1, 5, 20))
            scene.submit(rng.choice(small), limit_s=limit, grace_s=0)
        if step == 20:
            need = rng.choice((mem(20), whole(), whole(3), mem(20, 3), Need(2, cpus=6)))
            first = scene.submit(need, priority=-1)
        for job in scene.plan():
            scene.started(job)
            limit_ms = scene.job(job).terms.time_limit_ms
            ends[job] = step + (rng.randint(1, 25) if limit_ms is None else limit_ms // 1000)
        if first in ends:
            return
        scene.pass_s(1)
        for job in [job for job, end in ends.items() if end <= step]:
            del ends[job]
            scene.exited(job)
    raise AssertionError(f"job {first} never started")


def test_any_number_of_jobs_for_one_gpu_hide_none_that_fits_on_another() -> None:
    scene = Scene(4, gib=24)
    scene.running(whole(on=("0",)))
    for extra in range(MANY):
        scene.submit(Need(1, mem_mib=GIB + extra, on=("0",)))
        scene.submit(Need(1, mem_mib=GIB + extra, on=("1", "0")), held=extra > 0)
    free = scene.submit(whole())
    placed = scene.plan()
    assert free in placed
    assert scene.submit(whole(on=("3",))) in scene.plan()


def test_jobs_with_time_limits_of_their_own_are_few_classes() -> None:
    scene = Scene(1)
    scene.running()
    jobs = [scene.submit(limit_s=3_600 + 10 * number) for number in range(MANY)]
    assert len(scene.state.ready.classes()) <= 6
    scene.exited(1)
    assert list(scene.plan()) == jobs[:1]


@pytest.mark.parametrize("longest_ms", [1, 5, 100, 61_000, 86_400_000, 10**13 + 7])
def test_a_class_knows_its_longest_time_to_a_quarter(longest_ms: int) -> None:
    step = longest_step_ms(longest_ms)
    assert step is not None and longest_ms <= step <= longest_ms * 1.25
    assert longest_step_ms(step) == step
