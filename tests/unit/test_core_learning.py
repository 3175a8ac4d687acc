"""What readings teach and what they don't: stale ones, spreads, floors, margins, clocks."""

from __future__ import annotations

import statistics
from dataclasses import fields, replace

import pytest

from stoker.core import events as ev
from stoker.core.fit import held_reservation
from stoker.core.gpu import GpuReading
from stoker.core.learning import (
    Habits,
    after_out_of_memory,
    after_run,
    consequences,
    gpus_were_full,
    next_look_ms,
    use_alone,
)
from stoker.core.model import ALONE, Attempt, Exit, Memory, Need, Profile, Stop
from stoker.core.needs import learned_need
from stoker.core.reasons import WaitsForScout
from unit.core_scene import GIB, Scene, cpu_only, mem, whole


def profile(kind: str = "train", mib: int = 4 * GIB, count: int = 2) -> Profile:
    return Profile(kind, count, mib, float(mib), 0.0, 1_000, 10, 0, 0)


def measured(scene: Scene, job_id: int, mib: int, *, at_ms: int, used_mib: int = 0) -> None:
    """A reading of GPU 0."""
    reading = GpuReading(at_ms, used_mib or mib, {job_id: mib}, use_percent=50)
    scene.apply(ev.GpusMeasured(scene.now, {"0": reading}))


def test_what_one_teaches_of_its_kind_counts_for_those_after_it_by_their_ids() -> None:
    scene = Scene(2)
    first, second = scene.submit(mem(8)), scene.submit(mem(8))
    for job_id, gpu in ((second, "1"), (first, "0")):  # A restart would know them by their ids.
        scene.apply(ev.AttemptPlaced(scene.now, job_id, 1, (gpu,)))
        scene.apply(ev.AttemptStarted(scene.now, job_id, 1, 7))
    for job_id, gpu in ((first, "0"), (second, "1")):
        reading = GpuReading(scene.now, GIB, {job_id: GIB}, use_percent=50)
        scene.apply(ev.GpusMeasured(scene.now, {gpu: reading}))
    told = [event.job_id for event in learn(scene) if isinstance(event, ev.MemorySeen)]
    assert told == [first, second]


def learn(scene: Scene, habits: Habits | None = None) -> list[ev.Event]:
    """What follows from the readings, which comes true."""
    found = []
    for event in consequences(scene.state, habits or Habits()):
        scene.apply(event)
        found.append(event)
    return found


# ---------------------------------------------------------------------- stale readings


@pytest.mark.parametrize(("late_ms", "teaches"), [(-1, False), (0, True), (1_000, True)])
def test_a_reading_from_before_an_attempt_has_started_teaches_nothing_of_it(
    late_ms: int, teaches: bool
) -> None:
    scene = Scene(1)
    job = scene.running(mem(8))
    started = scene.attempt(job).started_at_ms
    assert started is not None
    measured(scene, job, 5 * GIB, at_ms=started + late_ms)
    assert bool(learn(scene)) is teaches
    assert scene.attempt(job).peak_mib == (5 * GIB if teaches else None)


@pytest.mark.parametrize(
    ("age_ms", "was_full"), [(0, True), (3_000, True), (3_001, False), (60_000, False)]
)
def test_only_a_fresh_reading_says_that_a_gpu_was_full(age_ms: int, was_full: bool) -> None:
    scene = Scene(1)
    job = scene.running(mem(8))
    scene.pass_s(100)
    measured(scene, job, GIB, at_ms=scene.now - age_ms, used_mib=24 * GIB)
    assert gpus_were_full(scene.state, scene.attempt(job)) is was_full


def test_a_gpu_that_was_full_before_the_attempt_was_placed_says_nothing_of_it() -> None:
    scene = Scene(1)
    measured(scene, 99, 24 * GIB, at_ms=scene.now)
    scene.pass_s(1)
    job = scene.submit(mem(8))
    scene.plan()
    scene.started(job)
    assert not gpus_were_full(scene.state, scene.attempt(job))
    measured(scene, job, 24 * GIB, at_ms=scene.now)
    assert gpus_were_full(scene.state, scene.attempt(job))


# ---------------------------------------------------------------------- the spread of peaks


@pytest.mark.parametrize("watched", [False, True], ids=["at its end", "before its end"])
@pytest.mark.parametrize("peaks", [[1000], [1000, 3000], [500, 4000, 700, 9000, 8999, 1]])
def test_the_mean_and_the_spread_are_those_of_all_peaks(peaks: list[int], watched: bool) -> None:
    scene = Scene(1)
    job = scene.job(scene.running(Need(kind="train")))
    assert job.active is not None
    known = profile(mib=77_777, count=0) if watched else None
    for peak in peaks:
        known = after_run(known, job, replace(job.active, peak_mib=peak), scene.now)
    assert known is not None and known.count == len(peaks)
    assert known.mean_mib == pytest.approx(statistics.fmean(peaks))
    assert known.deviation_mib == pytest.approx(statistics.pstdev(peaks))
    assert known.max_mib == max([*peaks, 77_777] if watched else peaks)


# ---------------------------------------------------------------------- after out of memory


@pytest.mark.parametrize(
    ("reserved_gib", "peak_mib", "floor_mib"),
    [
        (4, None, 6 * GIB),  # half as much again as it had
        (4, 3 * GIB, 6 * GIB),  # what it was seen to use is less than it had
        (4, 5 * GIB, 15 * GIB // 2),  # and where it is more, that counts
        (16, None, ALONE),  # so much would be a whole GPU
    ],
)
def test_the_next_attempt_gets_half_as_much_again_as_was_too_little(
    reserved_gib: int, peak_mib: int | None, floor_mib: int
) -> None:
    scene = Scene(1, gib=24)
    need = mem(reserved_gib)
    job = scene.running(need)
    scene.running(mem(1))
    scene.attempt(job).peak_mib = peak_mib
    after = after_out_of_memory(scene.state, scene.job(job), scene.attempt(job))
    assert after is not None and after.floor_mib == floor_mib


def test_a_wide_margin_is_a_higher_floor() -> None:
    scene = Scene(1, gib=24)
    job = scene.running(replace(mem(4), margin=(100, 0)))
    scene.running(mem(1))
    after = after_out_of_memory(scene.state, scene.job(job), scene.attempt(job))
    assert after is not None and after.floor_mib == 8 * GIB


def test_the_floor_holds_for_the_next_attempt_and_its_kind_is_known_to_need_more() -> None:
    scene = Scene(1, gib=24)
    scene.apply(ev.ProfileLearned(scene.now, profile(mib=4 * GIB)))
    job = scene.running(replace(Need(kind="train"), margin=(0, 0)))
    scene.running(mem(1))
    number = scene.attempt(job).number
    scene.apply(ev.AttemptExited(scene.now, job, number, _FAILED, out_of_memory=True))
    assert scene.job(job).floor_mib == 6 * GIB
    assert scene.state.need_of(scene.job(job)).mem_mib == 6 * GIB
    known = scene.state.profiles["train"]
    assert (known.max_mib, known.ooms) == (4 * GIB * 6 // 5, 1)


@pytest.mark.parametrize("said_mib", [None, 4 * GIB])
def test_a_first_run_that_ran_out_of_memory_tells_the_others_of_its_kind(
    said_mib: int | None,
) -> None:
    scene = Scene(1, gib=24)
    scene.running(mem(11))
    job = scene.running(Need(kind="train", mem_mib=said_mib))
    had = scene.gpu("0").held_by[job].memory.mib
    scene.apply(ev.AttemptExited(scene.now, job, 1, _FAILED, out_of_memory=True))
    known = scene.state.profiles["train"]
    assert (known.max_mib, known.count, known.ooms) == (had * 6 // 5, 0, 1)


def test_what_a_job_ran_out_of_counts_no_more_once_it_needs_something_else() -> None:
    scene = Scene(1, gib=24)
    job = scene.running(mem(4))
    scene.running(mem(1))
    number = scene.attempt(job).number
    scene.apply(ev.AttemptExited(scene.now, job, number, _FAILED, out_of_memory=True))
    assert (scene.job(job).ooms, scene.job(job).floor_mib) == (1, 6 * GIB)
    scene.edit(job, priority=1)
    assert (scene.job(job).ooms, scene.job(job).floor_mib) == (1, 6 * GIB)
    scene.edit(job, need=mem(5))
    assert (scene.job(job).ooms, scene.job(job).floor_mib) == (0, None)


_FAILED = Exit(code=1)


# ---------------------------------------------------------------------- growth


def test_memory_that_grows_anew_has_not_settled_until_it_rests_as_long_again() -> None:
    scene = Scene(1)
    job = scene.running(mem(8))
    habits = Habits(settle_ms=10_000)
    settled = []
    for gib in (2, 4, 4, 4):
        measured(scene, job, gib * GIB, at_ms=scene.now)
        learn(scene, habits)
        settled.append(scene.attempt(job).settled)
        scene.pass_s(6)
    assert settled == [False, False, False, True]


# ---------------------------------------------------------------------- scouts beside others


def beside(scene: Scene, scout: int, neighbours: dict[int, int], use: int, *, mib: int) -> None:
    """A reading of GPU 0, on which others are with so much memory each."""
    ours: dict[int, int | None] = {scout: mib, **neighbours}
    used_mib = mib + sum(neighbours.values())
    scene.apply(
        ev.GpusMeasured(scene.now, {"0": GpuReading(scene.now, used_mib, ours, use_percent=use)})
    )
    learn(scene)


def scout_beside(scene: Scene, use: int) -> tuple[int, dict[int, int]]:
    """A scout beside a job of a kind that uses so much of a GPU."""
    scene.apply(ev.ProfileLearned(scene.now, replace(profile("busy"), use_percent=use)))
    busy = scene.running(Need(kind="busy"))
    scene.apply(ev.MemorySeen(scene.now, busy, 1, 4 * GIB, True, True))
    return scene.running(Need(kind="new")), {busy: 4 * GIB}


@pytest.mark.parametrize("use", [40, 43, 100])
def test_a_scout_that_loads_beside_a_busy_job_has_not_settled(use: int) -> None:
    scene = Scene(1)
    scout, others = scout_beside(scene, 40 if use < 100 else 100)
    sibling = scene.submit(Need(kind="new"))
    for _ in range(3):
        beside(scene, scout, others, use, mib=400)
        scene.pass_s(31)
    assert not scene.attempt(scout).settled and "new" not in scene.state.profiles
    assert scene.plan() == {} and scene.why(sibling) == WaitsForScout(scout)
    # It begins its work.
    for _ in range(2):
        beside(scene, scout, others, min(100, use + 30), mib=6 * GIB)
        scene.pass_s(31)
    assert scene.attempt(scout).settled is (use < 100)


def test_a_scout_whose_work_is_hidden_by_its_neighbours_settles_later_by_its_memory() -> None:
    scene = Scene(1)
    scout, others = scout_beside(scene, 100)
    beside(scene, scout, others, 100, mib=6 * GIB)
    scene.pass_s(299)
    beside(scene, scout, others, 100, mib=6 * GIB)
    assert not scene.attempt(scout).settled
    assert next_look_ms(scene.state, Habits()) == scene.now + 1_000
    scene.pass_s(1)
    beside(scene, scout, others, 100, mib=6 * GIB)
    assert scene.attempt(scout).settled and scene.state.profiles["new"].use_percent is None


@pytest.mark.parametrize(
    ("rest", "settled", "reading", "own"),
    [
        (40, True, 75, 35),
        (40, True, 100, None),  # it may have been asked for much more
        (40, False, 75, None),  # the neighbour may still load
        (0, True, 100, 100),  # a neighbour that uses nothing takes nothing away
        (40, None, 75, None),  # the neighbour has just ended: this is not known yet
    ],
)
def test_use_is_learned_only_where_it_can_be_told_from_that_of_neighbours(
    rest: int, settled: bool | None, reading: int, own: int | None
) -> None:
    scene = Scene(1)
    scout, others = scout_beside(scene, rest)
    if settled is None:
        others = {}
    elif not settled:
        others = dict.fromkeys(others, 5 * GIB)  # It grows anew.
    beside(scene, scout, others, reading, mib=6 * GIB)
    assert use_alone(scene.state, scout, scene.attempt(scout)) == own
    scene.pass_s(1)
    scene.exited(next(i for i in scene.gpu("0").held_by if i != scout))
    assert use_alone(scene.state, scout, scene.attempt(scout)) is None, "the reading is older"


# ---------------------------------------------------------------------- margins


@pytest.mark.parametrize(
    ("peak_gib", "spare_gib"), [(0, 1), (3, 1), (3.5, 0.5), (4, 0), (5, 0), (30, 0)]
)
def test_a_margin_is_what_is_left_of_it_and_never_less_than_nothing(
    peak_gib: float, spare_gib: float
) -> None:
    scene = Scene(1)
    attempt = Attempt(1, ("0",), 0, memory=Memory(4 * GIB, GIB), peak_mib=int(peak_gib * GIB))
    held = held_reservation(Need(kind="train"), attempt, scene.gpu("0"))
    assert held.memory == Memory(4 * GIB, round(spare_gib * GIB))


def test_a_need_that_fills_the_largest_gpu_has_no_margin_less_than_nothing() -> None:
    scene = Scene(1, gib=8)
    need = Need(kind="train")
    for mib in (7 * GIB, 8 * GIB, 9 * GIB):
        for count in (0, 2):
            known = {"train": profile(mib=mib, count=count)}
            learned = learned_need(need, None, scene.state.gpus.values(), known)
            assert learned.mem_mib == min(8 * GIB, need.with_margin(mib))
            assert learned.margin_mib == max(0, learned.mem_mib - mib) >= 0
            assert learned.growth_mib >= 0


def test_a_reservation_for_which_there_is_no_room_has_no_margin_less_than_nothing() -> None:
    scene = Scene(1, gib=8)
    scene.apply(ev.ProfileLearned(scene.now, profile(mib=3 * GIB)))
    job = scene.running(Need(kind="train"))
    scene.running(mem(4))
    scene.apply(ev.ProfileLearned(scene.now, profile(mib=7 * GIB)))
    measured(scene, job, 3 * GIB, at_ms=scene.now)
    changed = [e for e in learn(scene) if isinstance(e, ev.ReservationChanged)]
    assert all(min(event.memory) >= 0 for event in changed)
    assert scene.gpu("0").held_by[job].memory.margin_mib >= 0
    assert scene.gpu("0").reserved_mib <= 8 * GIB


# ---------------------------------------------------------------------- clocks


@pytest.mark.parametrize("by_s", [3600, -3600])
def test_every_moment_of_an_attempt_moves_with_the_clock(by_s: int) -> None:
    scene = Scene(1)
    job = scene.running(mem(8), limit_s=1000)
    measured(scene, job, 5 * GIB, at_ms=scene.now)
    learn(scene)
    scene.apply(ev.WorkSaved(scene.now, job, 1, scene.now))
    scene.pass_s(7)
    scene.cancel(job)
    before = moments(scene.attempt(job))
    # A stop ends a suspension: test_core_suspending has that.
    assert before.pop("Attempt.suspended_at_ms") is None and None not in before.values()
    scene.apply(ev.ClockShifted(scene.now + by_s * 1000, by_s * 1000))
    after = moments(scene.attempt(job))
    del after["Attempt.suspended_at_ms"]
    assert after == {name: was + by_s * 1000 for name, was in before.items() if was is not None}


def moments(attempt: Attempt) -> dict[str, int | None]:
    """Every field of an attempt and of its stop that is a moment."""
    assert isinstance(attempt.stop, Stop)
    return {
        f"{type(one).__name__}.{field.name}": getattr(one, field.name)
        for one in (attempt, attempt.stop)
        for field in fields(one)
        if field.name.endswith("_at_ms") or field.name == "at_ms"
    }


def test_a_clock_that_jumps_settles_no_memory() -> None:
    scene = Scene(1)
    job = scene.running(Need(kind="train"))
    measured(scene, job, 5 * GIB, at_ms=scene.now)
    learn(scene)
    scene.apply(ev.ClockShifted(scene.now + 3_600_000, 3_600_000))
    measured(scene, job, 5 * GIB, at_ms=scene.now)
    assert learn(scene) == [] and not scene.attempt(job).settled
    scene.pass_s(30)
    measured(scene, job, 5 * GIB, at_ms=scene.now)
    learn(scene)
    assert scene.attempt(job).settled


@pytest.mark.parametrize("by_s", [3600, -3600])
def test_a_clock_that_jumps_makes_no_back_off_longer_or_shorter(by_s: int) -> None:
    scene = Scene(1)
    job = scene.submit(whole(), retries=1)
    scene.plan()
    scene.started(job)
    scene.exited(job, 1)
    before = scene.job(job).backoff_until_ms
    assert before is not None
    scene.apply(ev.ClockShifted(scene.now + by_s * 1000, by_s * 1000))
    assert scene.job(job).backoff_until_ms == before + by_s * 1000
    assert scene.plan() == {}
    scene.pass_s(1)
    assert list(scene.plan()) == [job]


# ---------------------------------------------------------------------- GPUs that were only named


@pytest.mark.parametrize("order", [(True, False), (False, True), (True, True)])
def test_a_gpu_that_was_declared_once_stays_declared(order: tuple[bool, bool]) -> None:
    scene = Scene({})
    for declared in order:
        scene.apply(ev.GpuAdded(scene.now, "7", None, declared=declared))
    assert scene.gpu("7").declared


def test_a_gpu_that_was_only_named_is_not_declared() -> None:
    scene = Scene({})
    scene.apply(ev.GpuAdded(scene.now, "7", None, declared=False))
    assert not scene.gpu("7").declared


@pytest.mark.parametrize("need", [whole(on=("9",)), replace(mem(1), on=("9",))])
def test_a_job_for_a_gpu_that_is_not_there_is_placed_on_no_other(need: Need) -> None:
    scene = Scene(2)
    job = scene.submit(need)
    behind = scene.submit(mem(1))
    assert list(scene.plan()) == [behind], "and holds nobody up"
    scene.apply(ev.GpuAdded(scene.now, "9", 24 * GIB))
    assert scene.plan() == {job: ("9",)}


def test_one_of_two_named_gpus_is_not_enough_for_two() -> None:
    scene = Scene(2)
    scene.submit(whole(2, on=("0", "9")))
    assert scene.plan() == {}


# ---------------------------------------------------------------------- CPU slots of a cluster


def test_cpus_of_cluster_jobs_are_not_those_of_this_machine() -> None:
    scene = Scene(0, cpus=8)
    far = scene.submit(cpu_only(8), on_cluster=True)
    here = scene.submit(cpu_only(8))
    assert set(scene.plan()) == {far, here}
    assert (scene.state.cpus_used, scene.state.at_cluster) == (8, 1)
    scene.accepted(far)
    scene.started(far, here)
    scene.exited(far)
    assert (scene.state.cpus_used, scene.state.at_cluster) == (8, 0)
    scene.exited(here)
    assert scene.state.cpus_used == 0


def test_a_cluster_job_that_ends_frees_no_slot_for_which_one_waits_here() -> None:
    scene = Scene(0, cpus=8)
    far = scene.submit(cpu_only(8), on_cluster=True, grace_s=10)
    near = scene.submit(cpu_only(6), limit_s=100, grace_s=0)
    assert set(scene.plan()) == {far, near}
    scene.accepted(far)
    scene.started(far, near)
    scene.cancel(far)
    scene.submit(cpu_only(8))
    # The slots for the large one are free in 100 s, and not when the cluster's job is gone.
    short = scene.submit(cpu_only(2), limit_s=50, grace_s=0)
    assert list(scene.plan()) == [short]
