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
