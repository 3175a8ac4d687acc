"""The order of a file's jobs: batches by priority, and nobody before what he waits for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.batch.sequence import Circle, batches, behind_what_they_need


def test_fifty_rows_in_batches_of_twenty_are_two_of_twenty_and_one_of_ten() -> None:
    assert [len(batch) for batch in batches([0] * 50, 20)] == [20, 20, 10]


def test_a_batch_is_sorted_by_priority_and_rows_of_the_same_stay_as_they_were() -> None:
    assert batches([3, 1, 2, 1, 0], 4) == [[1, 3, 2, 0], [4]]


def test_a_low_priority_never_crosses_into_a_later_batch() -> None:
    assert batches([9, 9, 1, 1], 2) == [[0, 1], [2, 3]]


def test_within_a_batch_a_job_goes_behind_one_that_it_waits_for() -> None:
    cut = batches([5, 1, 4, 2, 3, 0], 2)
    assert cut == [[1, 0], [3, 2], [5, 4]]
    assert behind_what_they_need(cut, {1: [0], 5: [4], 3: [1]}) == [0, 1, 3, 2, 4, 5]


def test_a_job_that_waits_for_one_of_a_later_batch_is_in_a_circle() -> None:
    with pytest.raises(Circle) as caught:
        behind_what_they_need([[0, 1], [2, 3]], {1: [3]})
    assert caught.value.place == 1


def test_jobs_that_wait_for_each_other_are_a_circle() -> None:
    with pytest.raises(Circle) as caught:
        behind_what_they_need([[0, 1, 2]], {1: [2], 2: [1]})
    assert caught.value.place == 1
    with pytest.raises(Circle):
        behind_what_they_need([[0]], {0: [0]})


@given(st.data())
def test_every_job_stands_behind_all_that_it_waits_for(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 12))
    hidden = data.draw(st.permutations(range(count)))
    requires = {
        place: data.draw(st.sets(st.sampled_from(hidden[:position]))) if position else set()
        for position, place in enumerate(hidden)
    }
    wanted = data.draw(st.permutations(range(count)))
    ordered = behind_what_they_need([wanted], requires)
    assert sorted(ordered) == list(range(count))
    at = {place: position for position, place in enumerate(ordered)}
    assert all(at[other] < at[place] for place, others in requires.items() for other in others)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 12))
def test_batches_stay_one_after_the_other(priorities: list[int], size: int) -> None:
    cut = batches(priorities, size)
    assert behind_what_they_need(cut, {}) == [place for batch in cut for place in batch]


@given(st.permutations(range(8)))
def test_where_nobody_waits_the_wanted_order_stays(wanted: list[int]) -> None:
    assert behind_what_they_need([wanted], {}) == wanted
