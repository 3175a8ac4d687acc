"""A curve of block characters has the shape of its points, whatever these are."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from stoker.text.curve import curve_rows
from stoker.text.terminal import width_of


def rows(*values: float, width: int = 8, height: int = 1) -> list[str]:
    return curve_rows([(float(n), value) for n, value in enumerate(values)], width, height)


def test_a_curve_rises_and_falls_with_its_values() -> None:
    assert rows(0, 1, 2, 3, 4, 5, 6, 7) == ["▁▂▃▄▅▆▇█"]
    assert rows(7, 0, 7) == ["█▁█"]
    assert rows(5, 5, 5) == ["▄▄▄"] and rows(3) == ["▄"] and rows() == []


def test_many_points_are_averaged_and_few_leave_no_holes() -> None:
    assert rows(*range(800)) == ["▁▂▃▄▅▆▇█"]
    assert curve_rows([(0, 0), (1, 1), (2, 2), (1000, 9)], 4) == ["▁▁▁█"]


def test_a_curve_may_have_several_rows() -> None:
    assert rows(0, 1, 2, 3, height=2) == ["  ▃█", "▁▆██"]


def test_what_is_not_finite_is_a_gap() -> None:
    assert rows(1, math.nan, 0) == ["█ ▁"] and rows(math.inf, 1, 0) == [" █▁"]
    assert rows(math.nan, math.inf) == []
    assert curve_rows([(math.nan, 1), (0, 2)], 8) == ["▄"]


@given(st.lists(st.tuples(st.floats(), st.floats())), st.integers(1, 60), st.integers(1, 5))
def test_whatever_the_points_are_it_fits(
    points: list[tuple[float, float]], width: int, height: int
) -> None:
    drawn = curve_rows(points, width, height)
    assert len(drawn) in (0, height) and all(width_of(row) <= width for row in drawn)
    assert len({len(row) for row in drawn}) <= 1 and set("".join(drawn)) <= set(" ▁▂▃▄▅▆▇█")
