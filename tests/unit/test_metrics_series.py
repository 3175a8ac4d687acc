"""A series is small however long it is, and keeps what matters of it."""

from __future__ import annotations

import json
import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stoker.metrics.series import MOST_BUCKETS, Series

VALUES = st.lists(st.floats(-1e9, 1e9) | st.sampled_from([math.nan, math.inf]), max_size=1500)


def series(*points: tuple[float | None, float]) -> Series:
    it = Series()
    it.extend(points)
    return it


def test_a_million_steps_keep_their_shape() -> None:
    it = Series()
    it.extend((float(n), math.sin(n / 1e5) + (5 if n == 654_321 else 0)) for n in range(1_000_000))
    curve = it.curve()
    assert it.count == 1_000_000 and len(curve) <= 2 * MOST_BUCKETS + 2
    assert it.highest == (654_321, math.sin(6.54321) + 5) and it.highest in curve
    assert curve[0] == (0, 0) and curve[-1][0] == 999_999
    assert all(a[0] < b[0] for a, b in pairwise(curve))
    assert max(b[0] - a[0] for a, b in pairwise(curve)) < 20_000, "no part of it is left out"
    assert len(json.dumps(it.to_record())) < 64_000


@given(VALUES)
def test_lowest_highest_last_and_count_are_exact(values: list[float]) -> None:
    it = series(*((None, value) for value in values))
    numbers = [value for value in values if not math.isnan(value)]
    assert it.count == len(values)
    assert it.not_finite == sum(not math.isfinite(value) for value in values)
    if numbers:
        assert it.lowest == (values.index(min(numbers)), min(numbers))
        assert it.highest == (values.index(max(numbers)), max(numbers))
    if values:
        assert repr(it.last) == repr((float(len(values) - 1), values[-1]))


@given(VALUES, st.integers(0, 1500))
def test_a_series_that_was_stored_goes_on_as_if_it_had_not_been(
    values: list[float], cut: int
) -> None:
    points = [(float(n), value) for n, value in enumerate(values)]
    whole, first = series(*points), series(*points[:cut])
    stored = json.loads(json.dumps(first.to_record(), allow_nan=False))
    again = Series.from_record(stored)
    again.extend(points[cut:])
    assert again.to_record() == whole.to_record()
    assert repr(again.curve()) == repr(whole.curve())


def test_a_value_that_is_not_a_number_is_never_the_best() -> None:
    it = series((1, math.nan), (2, 0.5), (3, math.nan))
    assert it.lowest == it.highest == (2, 0.5)
    assert it.last is not None and math.isnan(it.last[1])


def test_an_attempt_that_goes_on_adds_to_what_was_before_its_first_step() -> None:
    first = series((1, 0.9), (2, 0.5), (3, 0.1), (4, 0.3))
    one = series((4, 0.8), (5, 0.7)).going_on_from(first)
    assert one.curve() == [(1, 0.9), (2, 0.5), (3, 0.1), (4, 0.8), (5, 0.7)]
    assert (one.count, one.first, one.last) == (5, (1, 0.9), (5, 0.7))
    assert (one.lowest, one.highest) == ((3, 0.1), (1, 0.9))
    back = series((2, 0.6)).going_on_from(first)
    assert back.curve() == [(1, 0.9), (2, 0.6)], "it went back to an older checkpoint"
    assert (back.count, back.lowest) == (2, (2, 0.6))
    assert series((1, 0.8)).going_on_from(first).curve() == [(1, 0.8)], "it began anew"
    assert series().going_on_from(first).curve() == first.curve()
    assert series((7, 1.0)).going_on_from(series()).curve() == [(7, 1.0)]


def test_an_attempt_that_names_no_steps_counts_on_where_the_earlier_one_was() -> None:
    first, then = series((None, 5.0), (None, 4.0)), series((None, 3.0), (None, 6.0))
    again = series((None, 2.0)).going_on_from(then.going_on_from(first))
    assert again.curve() == [(0, 5), (1, 4), (2, 3), (3, 6), (4, 2)]
    assert (again.lowest, again.highest) == ((4, 2), (3, 6))
    kept = Series.from_record(json.loads(json.dumps(then.to_record())))
    assert kept.going_on_from(first).last == (3, 6), "what is stored knows that it counted"


def test_only_the_last_time_that_steps_began_anew_is_replaced() -> None:
    epochs = series((0, 9.0), (1, 8.0), (2, 7.0), (0, 6.0), (1, 5.0), (2, 4.0))
    one = series((2, 3.5)).going_on_from(epochs)
    assert [value for _, value in one.curve()] == [9, 8, 7, 6, 5, 3.5]


def test_what_may_still_be_replaced_of_a_bar_replaces_what_it_went_back_to() -> None:
    bar = Series()
    bar.held = (2.0, 0.4)
    one = bar.going_on_from(series((1, 0.9), (2, 0.1), (3, 0.2)))
    assert (one.count, one.held, one.lowest) == (1, (2, 0.4), (1, 0.9))
    assert one.shown().curve() == [(1, 0.9), (2, 0.4)]


@given(VALUES, VALUES, st.integers(0, 1500))
def test_two_attempts_are_about_what_one_would_have_been(
    before: list[float], after: list[float], begins: int
) -> None:
    first = series(*((float(step), value) for step, value in enumerate(before)))
    then = series(*((float(step), value) for step, value in enumerate(after, begins)))
    one = then.going_on_from(first)
    left = before[:begins] if after else before
    both = [*left, *after]
    numbers = [value for value in both if not math.isnan(value)]
    assert len(one.curve()) <= 2 * MOST_BUCKETS + 2
    assert all(a[0] < b[0] for a, b in pairwise(one.curve()))
    assert all(point[1] in both or math.isnan(point[1]) for point in one.curve())
    assert Series.from_record(json.loads(json.dumps(one.to_record()))).curve() == one.curve() or (
        any(math.isnan(value) for value in both)
    )
    if begins >= len(before) or len(before) <= MOST_BUCKETS:
        assert one.count == len(both)
        assert (one.lowest is None) == (not numbers)
        assert one.lowest is None or one.lowest[1] == min(numbers)
        assert one.highest is None or one.highest[1] == max(numbers)
