"""Which parameters matter for a metric: what is said, and what is not."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.metrics.importance import FEW, FEWEST, Importances, importances

Points = list[dict[str, Any]]

VALUES = st.sampled_from([None, True, "a", "b", 1, 1.0, 2.5, math.inf, [1], {"k": 2}])
PARAMS = st.dictionaries(st.sampled_from(["a", "b", "__proto__"]), VALUES | st.floats())
METRIC = st.none() | st.floats() | st.sampled_from([0.0, 1.0, math.inf, -math.inf, math.nan])
ROWS = st.lists(st.tuples(PARAMS, METRIC), max_size=40)
NAMES = ("a", "b", "__proto__", "nowhere")


def grid(**values: list[Any]) -> Points:
    """All combinations."""
    return [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]


def shares(found: Importances) -> dict[str, float | None]:
    return {one.name: one.share for one in found.of}


def judged(points: Points, values: list[Any], *names: str) -> dict[str, float | None]:
    return shares(importances(points, values, names))


def test_a_parameter_that_decides_has_all_and_one_without_influence_nothing() -> None:
    points = grid(lr=[0.1, 0.2, 0.3], width=[1, 2, 3, 4])
    found = importances(points, [point["lr"] * 7 for point in points], ["width", "lr"])
    assert [one.name for one in found.of] == ["lr", "width"], "the largest is first"
    assert shares(found) == {"lr": 1.0, "width": 0.0}


def test_a_parameter_with_an_optimum_in_the_middle_matters() -> None:
    chance = random.Random(1)
    points: Points = [{"lr": chance.uniform(0, 1), "x": chance.random()} for _ in range(400)]
    found = judged(points, [(point["lr"] - 0.5) ** 2 for point in points], "lr", "x")
    assert found["lr"] is not None and found["lr"] > 0.85
    assert found["x"] is not None and found["x"] < 0.1


def test_many_values_alone_do_not_make_a_parameter_important() -> None:
    chance = random.Random(2)
    points: Points = [{"seed": f"s{number % 40}", "n": number} for number in range(80)]
    tries = [judged(points, [chance.random() for _ in points], "seed", "n") for _ in range(60)]
    for name in ("seed", "n"):
        found = [one[name] for one in tries]
        assert None not in found and sum(x or 0 for x in found) / len(found) < 0.12


def test_a_few_points_with_a_number_each_are_judged_in_bins() -> None:
    points: Points = [{"lr": 0.1 * number, "n": number % 2} for number in range(12)]
    found = judged(points, [float(number) for number in range(12)], "lr", "n")
    assert found["lr"] is not None and found["lr"] > 0.5 > (found["n"] or 0)


def test_words_of_one_point_each_are_one_value() -> None:
    values = [1.0, 2.0, 3.0, 8.0, 4.0, 5.0, 6.0, 7.0]
    alone: Points = [{"a": "usual"}] * 4 + [{"a": f"own {number}"} for number in range(4)]
    alike: Points = [{"a": "usual"}] * 4 + [{"a": "other"}] * 4
    assert judged(alone, values, "a") == judged(alike, values, "a")


def test_one_run_that_diverged_does_not_decide_alone() -> None:
    points = grid(lr=[1, 2, 3, 4], act=["relu", "gelu"], seed=[0, 1, 2])
    values = [float(point["lr"]) for point in points]
    values[0] = 1e300
    found = judged(points, values, "lr", "act")
    assert (found["lr"] or 0) > 0.5 > 0.1 > (found["act"] or 0)


def test_an_infinite_value_is_the_worst_and_nan_is_left_out() -> None:
    points = grid(lr=[1, 2], n=[1, 2, 3, 4])
    values = [1.0, 2.0, 1.0, math.nan, math.inf, math.inf, 9.0, None]
    found = importances(points, values, ["lr"])
    assert found.points == 6 and (found.of[0].share or 0) > 0.5


def test_a_parameter_that_some_points_do_not_have_is_judged_by_having_it() -> None:
    points: Points = [{"momentum": 0.9}] * 5 + [{}] * 5
    assert judged(points, [1.0] * 5 + [2.0] * 5, "momentum") == {"momentum": 1.0}


def test_true_and_1_are_two_values_where_not_all_are_numbers() -> None:
    points: Points = [{"a": True}] * 4 + [{"a": 1}] * 4
    assert judged(points, [1.0] * 4 + [2.0] * 4, "a") == {"a": 1.0}


@pytest.mark.parametrize(
    ("points", "values"),
    [
        ([], []),
        (grid(a=[1, 2, 3]), [1.0, 2.0, 3.0]),
        (grid(a=[1, 2], b=[1, 2, 3]), [5.0] * 6),
        ([{"a": 1}] * 8, [1.0, 2.0] * 4),
        ([{"a": f"word {number}"} for number in range(9)], [float(n) for n in range(9)]),
    ],
    ids=["no point", f"fewer than {FEWEST}", "all the same", "one value", "each its own word"],
)
def test_what_can_t_be_told_is_not_told(points: Points, values: list[Any]) -> None:
    assert judged(points, values, "a") == {"a": None}


def test_few_points_are_a_rough_hint() -> None:
    points: Points = [{"a": number % 2} for number in range(FEW)]
    values = [float(number) for number in range(FEW)]
    assert not importances(points, values, ["a"]).is_rough
    assert importances(points[1:], values[1:], ["a"]).is_rough


@given(ROWS)
def test_a_share_is_between_nothing_and_all_whatever_the_points_are(
    rows: list[tuple[dict[str, Any], float | None]],
) -> None:
    found = importances([one for one, _ in rows], [value for _, value in rows], NAMES)
    assert sorted(one.name for one in found.of) == sorted(NAMES)
    assert all(one.share is None or 0 <= one.share <= 1 for one in found.of)
    known = [one.share for one in found.of if one.share is not None]
    assert known == sorted(known, reverse=True)
    assert shares(found)["nowhere"] is None


@given(ROWS, st.randoms(use_true_random=False))
def test_neither_the_order_of_points_nor_the_scale_of_the_metric_matters(
    rows: list[tuple[dict[str, Any], float | None]], chance: random.Random
) -> None:
    # Other numbers in the same order, as a logarithm would give.
    values = [value for _, value in rows]
    known = sorted({value for value in values if value is not None and value == value})
    other = {value: place**3 - 7.0 for place, value in enumerate(known)}
    params = [one for one, _ in rows]
    expected = judged(params, values, *NAMES)
    found = judged(params, [other.get(v, v) if v is not None else v for v in values], *NAMES)
    assert found == pytest.approx(expected)
    mixed = list(rows)
    chance.shuffle(mixed)
    assert judged([one for one, _ in mixed], [v for _, v in mixed], *NAMES) == pytest.approx(
        expected
    )
