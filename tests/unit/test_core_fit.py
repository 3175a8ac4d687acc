"""Which GPUs: what fits beside what, and which of several is best."""

from __future__ import annotations

import pytest

from stoker.core.fit import best, could_ever_fit, eligible, fits_beside, has_room, reservation
from stoker.core.gpu import Gpu, Reservation
from stoker.core.model import Memory, Need
from unit.core_scene import GIB, mem, share, whole


def gpu(gpu_id: str = "0", gib: int | None = 24, *held: Need) -> Gpu:
    """A GPU on which these needs have been met."""
    made = Gpu(gpu_id, None if gib is None else gib * GIB)
    for job_id, need in enumerate(held):
        made.held_by[job_id] = reservation(need, made)
    return made


def test_a_whole_gpu_is_reserved_with_all_its_memory() -> None:
    assert reservation(whole(), gpu()) == Reservation(True, 1000, Memory(24 * GIB), None)


def test_a_share_takes_its_part_of_the_memory_too() -> None:
    assert reservation(share(0.25), gpu()) == Reservation(False, 250, Memory(6 * GIB), None)


def test_a_share_with_a_memory_of_its_own_takes_just_that() -> None:
    need = Need(1, share_milli=250, mem_mib=2 * GIB)
    assert reservation(need, gpu()) == Reservation(False, 250, Memory(2 * GIB), None)


def test_a_memory_reservation_takes_no_share() -> None:
    assert reservation(mem(8), gpu()) == Reservation(False, 0, Memory(8 * GIB), None)


def test_a_share_of_a_gpu_of_unknown_memory_takes_only_the_share() -> None:
    assert reservation(share(0.5), gpu(gib=None)) == Reservation(False, 500, Memory(0), None)


def test_anything_fits_on_an_empty_gpu() -> None:
    for need in (whole(), share(0.999), mem(24), Need(1, mem_mib=GIB, exclusive=True)):
        assert has_room(need, gpu()), need


@pytest.mark.parametrize("other", [share(0.1), mem(1), mem(0), whole()])
def test_a_whole_gpu_job_shares_with_nobody(other: Need) -> None:
    assert not has_room(whole(), gpu("0", 24, other))
    assert not has_room(other, gpu("0", 24, whole()))


@pytest.mark.parametrize("need", [mem(1), share(0.1)])
def test_exclusive_makes_a_small_need_whole(need: Need) -> None:
    exclusive = Need(1, need.share_milli, need.mem_mib, exclusive=True)
    assert exclusive.whole and not need.whole
    assert not has_room(exclusive, gpu("0", 24, mem(1)))
    assert not has_room(mem(1), gpu("0", 24, exclusive))


def test_shares_fit_until_they_make_one() -> None:
    assert has_room(share(0.5), gpu("0", 24, share(0.5)))
    assert not has_room(share(0.501), gpu("0", 24, share(0.5)))
    assert not has_room(share(0.4), gpu("0", 24, share(0.3), share(0.4)))


def test_memory_fits_until_it_is_full() -> None:
    assert has_room(mem(16), gpu("0", 24, mem(8)))
    assert not has_room(mem(17), gpu("0", 24, mem(8)))


def test_a_share_and_a_memory_reservation_compete_for_memory() -> None:
    assert has_room(mem(12), gpu("0", 24, share(0.5)))
    assert not has_room(mem(13), gpu("0", 24, share(0.5)))


def test_shares_are_counted_on_a_gpu_of_unknown_memory() -> None:
    assert has_room(share(0.5), gpu("0", None, share(0.5)))
    assert not has_room(share(0.6), gpu("0", None, share(0.5)))


def test_the_strictest_limit_on_attempts_per_gpu_counts_whoever_came_first() -> None:
    one_of_two = mem(1, max_per_gpu=2)
    assert has_room(one_of_two, gpu("0", 24, mem(1)))
    assert not has_room(one_of_two, gpu("0", 24, mem(1), mem(1)))
    assert not has_room(mem(1), gpu("0", 24, one_of_two, mem(1)))
    assert not has_room(mem(1, max_per_gpu=3), gpu("0", 24, one_of_two, mem(1)))


def test_reservations_beside_each_other_are_judged_together() -> None:
    held = [reservation(mem(8), gpu()), reservation(mem(8), gpu())]
    assert fits_beside(reservation(mem(8), gpu()), held, gpu())
    assert not fits_beside(reservation(mem(9), gpu()), held, gpu())


def test_a_need_for_more_memory_than_a_gpu_has_never_fits_it() -> None:
    assert could_ever_fit(mem(24), gpu())
    assert not could_ever_fit(mem(25), gpu())


def test_a_need_for_memory_never_fits_a_gpu_whose_memory_is_unknown() -> None:
    assert not could_ever_fit(mem(1), gpu(gib=None))
    assert could_ever_fit(whole(), gpu(gib=None))


def test_a_need_for_certain_gpus_fits_no_others() -> None:
    need = whole(on=("1", "2"))
    assert could_ever_fit(need, gpu("1"))
    assert not could_ever_fit(need, gpu("0"))


def test_a_drained_gpu_could_fit_but_is_not_eligible() -> None:
    drained = gpu()
    drained.drained = True
    assert could_ever_fit(whole(), drained)
    assert not eligible(whole(), drained)


def test_a_gpu_that_is_being_removed_fits_nothing_ever_again() -> None:
    removing = gpu()
    removing.removing = True
    assert not could_ever_fit(whole(), removing)
    assert not eligible(whole(), removing)


def ids(gpus: list[Gpu]) -> list[str]:
    return [g.id for g in gpus]


def test_equal_gpus_are_taken_by_index_and_ten_comes_after_two() -> None:
    assert ids(best(whole(), [gpu("10"), gpu("2"), gpu("GPU-x"), gpu("1")])) == [
        "1",
        "2",
        "10",
        "GPU-x",
    ]


def test_a_whole_gpu_job_takes_the_smallest_device_that_will_do() -> None:
    assert ids(best(whole(), [gpu("0", 80), gpu("1", 24), gpu("2", 48)])) == ["1", "2", "0"]


def test_a_memory_reservation_goes_where_the_least_is_left_over() -> None:
    candidates = [gpu("0", 24), gpu("1", 24, mem(16)), gpu("2", 24, mem(8)), gpu("3", 48)]
    assert ids(best(mem(4), candidates)) == ["1", "2", "0", "3"]


def test_a_share_goes_to_the_fullest_gpu_even_if_its_memory_is_unknown() -> None:
    candidates = [gpu("0", None), gpu("1", None, share(0.2)), gpu("2", None, share(0.6))]
    assert ids(best(share(0.3), candidates)) == ["2", "1", "0"]


def test_what_the_user_prefers_comes_before_the_best_fit_in_the_order_given() -> None:
    need = Need(1, prefer=("3", "2"))
    candidates = [gpu("0", 8), gpu("1", 24), gpu("2", 80), gpu("3", 80)]
    assert ids(best(need, candidates)) == ["3", "2", "0", "1"]


def test_a_preferred_gpu_that_is_not_there_is_no_hindrance() -> None:
    assert ids(best(Need(1, prefer=("9",)), [gpu("1"), gpu("0")])) == ["0", "1"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpus": -1},
        {"cpus": -1},
        {"gpus": 2, "share_milli": 500},
        {"gpus": 1, "share_milli": 1000},
        {"gpus": 1, "share_milli": 0},
    ],
)
def test_a_need_that_makes_no_sense_can_not_be_written_down(wrong: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        Need(**wrong)  # type: ignore[arg-type]
