"""Learned memory on shared GPUs: margins that are kept once, and claims by what kinds take."""

from __future__ import annotations

from dataclasses import replace

from stoker.core import events as ev
from stoker.core.gpu import together_mib
from stoker.core.model import Need, Profile
from stoker.core.reasons import NeedsUse
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
    # Three of 5.5 GiB, each with one more of its own; and one that grows even more is provided for.
    assert list(scene.plan()) == [1, 2, 3]
    memory = scene.attempt(1).memory
    assert memory is not None and memory.mib == 5 * GIB + GIB // 2
    assert scene.state.gpus["0"].reserved_mib == 3 * 6 * GIB + 3 * GIB // 2
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
