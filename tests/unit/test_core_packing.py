"""Learned memory on shared GPUs: margins that are kept once, and claims by what kinds take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.core import events as ev
from stoker.core.gpu import Reservation, together_mib
from stoker.core.model import Memory, Need, Profile
from stoker.core.reasons import NeedsUse, WaitsForScout
from unit.core_scene import GIB, Scene, mem, share


def known(scene: Scene, kind: str, gib: int, *, longest_s: int = 0) -> Need:
    """The need of a kind of which two runs were seen."""
    profile = Profile(
        kind, 2, gib * GIB, float(gib * GIB), 0.0, 1_000, 10, 0, scene.now, longest_s * 1000
    )
    scene.apply(ev.ProfileLearned(scene.now, profile))
    return Need(kind=kind)


def seen(scene: Scene, job_id: int, peak_mib: int) -> None:
    number = scene.attempt(job_id).number
    scene.apply(ev.MemorySeen(scene.now, job_id, number, peak_mib, True, False))


def test_jobs_on_a_gpu_share_one_margin_the_largest() -> None:
    scene = Scene(1, gib=24)
    need = known(scene, "train", 3)
    for _ in range(9):
        scene.submit(need)
    # Seven of 3 GiB and one margin of half a GiB; with a margin each it would be six.
    assert list(scene.plan()) == [1, 2, 3, 4, 5, 6, 7]
    assert scene.state.gpus["0"].reserved_mib == 7 * 3 * GIB + 512


def test_what_is_said_is_no_margin_and_is_kept_in_full() -> None:
    scene = Scene(1, gib=24)
    for _ in range(9):
        scene.submit(mem(3))
    assert len(scene.plan()) == 8
    assert scene.state.gpus["0"].reserved_mib == 24 * GIB


def test_a_margin_that_is_used_is_not_shared_any_more() -> None:
    scene = Scene(1, gib=24)
    need = known(scene, "train", 3)
    for _ in range(2):
        scene.submit(need)
    scene.plan()
    scene.started(1, 2)
    seen(scene, 1, 3 * GIB + 400)
    held = scene.state.gpus["0"].held_by
    assert (held[1].memory.margin_mib, held[2].memory.margin_mib) == (112, 512)
    assert together_mib(held.values()) == 6 * GIB + 400 + 512


def test_a_large_job_claims_the_gpu_on_which_those_in_its_way_should_end_first() -> None:
    scene = Scene(2, gib=24)
    slow = scene.running(replace(known(scene, "slow", 16, longest_s=1000), on=("0",)))
    quick = replace(known(scene, "quick", 8, longest_s=100), on=("1",))
    quicks = [scene.running(quick), scene.running(quick)]
    large = scene.submit(known(scene, "large", 16))
    # There is room for this one beside the quick ones, but not beside the large one.
    medium = scene.submit(known(scene, "medium", 7))
    assert scene.plan() == {}, "fewer are in the way on the other GPU, but for much longer"
    for job_id in quicks:
        scene.exited(job_id)
    assert scene.plan() == {large: ("1",)}
    scene.exited(slow)
    assert scene.plan() == {medium: ("0",)}


def test_one_that_takes_longer_than_any_of_its_kind_is_not_waited_for() -> None:
    scene = Scene(2, gib=24)
    scene.running(replace(known(scene, "short", 20, longest_s=100), on=("0",)))
    second = scene.running(replace(known(scene, "long", 20, longest_s=300), on=("1",)))
    large = scene.submit(known(scene, "large", 21))
    scene.pass_s(101)
    small = scene.submit(known(scene, "small", 1))
    assert scene.plan() == {small: ("0",)}, "nobody knows when the first ends: the claim is off it"
    scene.exited(second)
    assert scene.plan() == {large: ("1",)}


def test_what_a_run_took_is_learned_at_its_end() -> None:
    scene = Scene(1)
    known(scene, "train", 3, longest_s=40)
    job = scene.running(Need(kind="train"))
    seen(scene, job, 3 * GIB)
    scene.pass_s(90)
    scene.exited(job)
    assert scene.state.profiles["train"].longest_ms == 90_000


def test_until_a_run_was_seen_to_its_end_room_is_kept_for_the_kind_to_grow() -> None:
    scene = Scene(1, gib=24)
    need = known(scene, "train", 5)
    profile = scene.state.profiles["train"]
    scene.apply(ev.ProfileLearned(scene.now, replace(profile, count=0)))
    for _ in range(5):
        scene.submit(need)
    # Three of 5 GiB, two more for each of them, and half a GiB for one that grows even more.
    assert list(scene.plan()) == [1, 2, 3]
    memory = scene.attempt(1).memory
    assert memory is not None and memory.mib == 5 * GIB + GIB // 2
    assert scene.state.gpus["0"].reserved_mib == 3 * 7 * GIB + GIB // 2
    scene.started(1, 2, 3)
    seen(scene, 1, 5 * GIB)
    scene.exited(1)
    assert scene.state.profiles["train"].count == 1
    # Those that run keep what they were given until they are next looked at.
    assert {held.memory.growth_mib for held in scene.state.gpus["0"].held_by.values()} == {2 * GIB}


def test_a_margin_that_its_user_does_not_want_is_not_made_larger() -> None:
    scene = Scene(1, gib=24)
    need = replace(known(scene, "train", 6), margin=(0, 0))
    scene.apply(ev.ProfileLearned(scene.now, replace(scene.state.profiles["train"], count=0)))
    for _ in range(5):
        scene.submit(need)
    assert list(scene.plan()) == [1, 2, 3, 4]


def test_jobs_that_share_are_spread_over_idle_gpus_whatever_they_declare() -> None:
    for need in (mem(9), share(0.25), Need(1, mem_mib=9 * GIB, kind="big")):
        scene = Scene(4, gib=40)
        for _ in range(5):
            scene.submit(need)
        assert list(scene.plan().values()) == [("0",), ("1",), ("2",), ("3",), ("0",)], need


def test_jobs_that_use_little_of_a_gpu_go_where_they_leave_whole_gpus_free() -> None:
    scene = Scene(4, gib=24)
    need = known(scene, "small", 2)  # Each uses a tenth of a GPU.
    for _ in range(12):
        scene.submit(need)
    places = list(scene.plan().values())
    assert places == [("0",)] * 10 + [("1",)] * 2, "ten leave each other their full speed"


def test_use_that_is_known_counts_for_declared_memory_too() -> None:
    scene = Scene(1, gib=40)
    used = Profile("big", 2, GIB, float(GIB), 0.0, 1_000, 95, 0, scene.now)
    scene.apply(ev.ProfileLearned(scene.now, used))
    for _ in range(2):
        scene.submit(Need(1, mem_mib=9 * GIB, kind="big"))
    assert scene.plan() == {1: ("0",)}, "two would ask for 190 % of it"
    assert isinstance(scene.why(2), NeedsUse)


def test_room_to_grow_is_shared_by_kinds_but_not_within_one() -> None:
    def held(kind: str, growth_mib: int) -> Reservation:
        return Reservation(False, 0, Memory(1_000, 100, growth_mib), None, kind)

    assert together_mib([held("a", 400), held("a", 400)]) == 2 * 900 + 100 + 800
    assert together_mib([held("a", 400), held("a", 400), held("b", 500)]) == 3 * 900 + 100 + 800
    assert together_mib([held("a", 0), held("b", 500)]) == 2 * 900 + 100 + 500


# ---------------------------------------------------------------------- who is measured first


def test_the_first_of_a_kind_goes_before_others_that_could_start() -> None:
    scene = Scene(2, gib=24)
    need = known(scene, "old", 4)
    olds = [scene.submit(need) for _ in range(20)]
    first, second = (scene.submit(Need(kind=kind)) for kind in ("new", "other"))
    placed = scene.plan()
    assert first in placed and set(placed) - {first} < set(olds)
    assert second not in placed, "one GPU is enough to scout on"


@pytest.mark.parametrize("on", [(), ("0",)])
def test_no_stream_of_new_kinds_keeps_the_first_in_line_waiting(on: tuple[str, ...]) -> None:
    scene = Scene(1, gib=24)
    small = scene.running(known(scene, "small", 4))
    first = scene.submit(replace(known(scene, "large", 22), on=on))
    for number in range(3):
        scene.submit(Need(kind=f"new{number}"))
    assert scene.plan() == {}, "most of the GPU is free, and kept for the first in line"
    scene.exited(small)
    assert list(scene.plan()) == [first]


def test_a_small_first_in_line_is_passed_by_one_scout_at_most() -> None:
    scene = Scene(1, gib=24)
    first = scene.submit(known(scene, "small", 10))
    for number in range(3):
        scene.submit(Need(kind=f"new{number}"))
    (scout,) = scene.plan()
    assert scout != first
    scene.started(scout)
    known(scene, "new0", 1)  # It was measured, and half of the GPU is free again.
    scene.apply(ev.ReservationChanged(scene.now, scout, 1, Memory(GIB)))
    assert next(iter(scene.plan())) == first


def declared(scene: Scene) -> list[int]:
    """Jobs of a kind of which nothing is known, whose user says what they need."""
    scene.apply(ev.GpuAdded(scene.now, "0", 24 * GIB, vendor="stand-in"))
    return [scene.submit(Need(1, mem_mib=4 * GIB, kind="new")) for _ in range(3)]


def test_what_users_declare_is_believed_once_the_first_of_a_kind_has_shown_it() -> None:
    scene = Scene(1, gib=24)
    first, *others = declared(scene)
    assert list(scene.plan()) == [first]
    scene.started(first)
    assert scene.why(others[0]) == WaitsForScout(first)
    known(scene, "new", 11)
    assert list(scene.plan()) == others[:1], "it needs more than its user says"


def test_what_users_declare_is_believed_in_the_end_of_jobs_that_show_nothing() -> None:
    scene = Scene(1, gib=24)
    first, *others = declared(scene)
    scene.plan()
    scene.started(first)
    scene.pass_s(299)
    assert scene.plan() == {}
    scene.pass_s(1)
    assert list(scene.plan()) == others[:1], "one after the other: this one may show it"


def test_where_nothing_is_measured_users_are_believed_at_once() -> None:
    scene = Scene(1, gib=24)
    for _ in range(3):
        scene.submit(Need(1, mem_mib=4 * GIB, kind="new"))
    assert list(scene.plan()) == [1, 2, 3]
