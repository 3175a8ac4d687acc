"""The points of a space: order, samples, seeds, repeats, and how draws fall."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import UsageError
from stoker.sweep import notation
from stoker.sweep.points import Choosing, Repeat, Space, in_turn
from stoker.sweep.values import Data, Point, Value


def space_of(*words: str, repeat: Repeat | None = None) -> Space:
    return Space(tuple(notation.parsed(word) for word in words), repeat)


def points_of(
    *words: str,
    samples: int | None = None,
    most: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    where: tuple[str, ...] = (),
    repeat: Repeat | None = None,
) -> list[dict[str, Data]]:
    choosing = Choosing(samples, most, shuffle, seed, where)
    _, points = in_turn(space_of(*words, repeat=repeat), choosing)
    return [{name: value.data for name, value in point.items()} for point in points]


def keys(points: list[dict[str, Data]]) -> list[tuple[str, ...]]:
    return [tuple(map(repr, point.values())) for point in points]


def test_in_a_grid_the_first_parameter_changes_most_slowly() -> None:
    assert points_of("a=1,2", "m=zip(x=[p,q],y=[r,s])", "b=3,4") == [
        {"a": a, "x": x, "y": y, "b": b}
        for a, (x, y), b in itertools.product((1, 2), (("p", "r"), ("q", "s")), (3, 4))
    ]


@pytest.mark.parametrize("repeat", [None, Repeat("run", 2)])
def test_points_in_turn_are_as_many_as_is_said_and_the_same_each_time(
    repeat: Repeat | None,
) -> None:
    space = space_of("a=range(3)", "b=x,y", repeat=repeat)
    for choosing in (Choosing(), Choosing(4), Choosing(most=3), Choosing(where=("a > 0",))):
        count, points = in_turn(space, choosing)
        first = list(points)
        assert len(first) == count
        assert first == list(in_turn(space, choosing)[1])


def test_of_a_whole_grid_no_point_is_made_before_it_is_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    def grid(axes: object) -> Iterator[Point]:
        for number in range(4):
            made.append(number)
            yield {"a": Value(number, str(number))}

    monkeypatch.setattr("stoker.sweep.points._grid", grid)
    count, points = in_turn(space_of("a=range(4)"), Choosing())
    assert (count, made) == (4, [])
    next(points)
    assert made == [0]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_a_shuffled_grid_has_the_same_points_in_another_order(sizes: list[int]) -> None:
    words = [f"p{place}=range({size})" for place, size in enumerate(sizes)]
    grid = points_of(*words)
    shuffled = points_of(*words, shuffle=True, seed=3)
    assert Counter(keys(grid)) == Counter(keys(shuffled))
    assert len(grid) == len(set(keys(grid)))


def test_a_shuffled_grid_is_in_every_order_about_as_often() -> None:
    orders = Counter(
        tuple(keys(points_of("a=1,2,3", shuffle=True, seed=seed))) for seed in range(600)
    )
    assert len(orders) == 6
    assert min(orders.values()) > 60


def test_the_same_seed_gives_the_same_points_and_another_one_others() -> None:
    words = ("a=uniform(0,1)", "b=normal(0,1)", "c=x,y,z")
    assert points_of(*words, samples=20, seed=7) == points_of(*words, samples=20, seed=7)
    assert points_of(*words, samples=20, seed=7) != points_of(*words, samples=20, seed=8)


def test_draws_are_the_same_on_every_machine() -> None:
    words = ("a=uniform(0,1)", "b=loguniform(1e-6,1e-2)", "c=randint(1,100)", "d=normal(0,1)")
    assert points_of(*words, samples=2) == [
        {"a": 0.844422, "b": 0.00107601, "c": 43, "d": -0.646689},
        {"a": 0.511275, "b": 4.16617e-05, "c": 79, "d": -0.514896},
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("a=uniform(0,1)", "b=x,y"),
        ("a=range(50)", "b=range(50)"),
        ("a=randint(0,9)", "b=randint(0,9)"),
    ],
)
def test_more_samples_only_add_points(words: tuple[str, ...]) -> None:
    few = points_of(*words, samples=20, where=("b != 3",))
    many = points_of(*words, samples=60, where=("b != 3",))
    assert (len(few), len(many)) == (20, 60)
    assert many[:20] == few


def test_samples_of_a_grid_are_different_points_of_it() -> None:
    points = points_of("a=range(10)", "b=range(10)", samples=40)
    assert len(set(keys(points))) == 40
    assert set(keys(points)) <= set(keys(points_of("a=range(10)", "b=range(10)")))


def test_more_samples_than_there_are_points_are_all_points() -> None:
    assert len(points_of("a=1,2,3", samples=10)) == 3
    assert len(points_of("a=randint(1,3)", samples=10)) == 3
    assert len(points_of("a=choice(x,y)", samples=10)) == 2


def test_a_few_of_astronomically_many_points_are_found_at_once() -> None:
    words = [f"p{n}=range(1000)" for n in range(8)]
    points = points_of(*words, samples=50)
    assert len(set(keys(points))) == 50


def test_a_distribution_without_samples_is_refused() -> None:
    with pytest.raises(UsageError, match="wd has a distribution") as caught:
        points_of("a=1,2", "wd=loguniform(1e-6,1e-2)")
    assert "--samples" in caught.value.hint


def test_where_thins_a_grid_and_samples() -> None:
    points = points_of("bs=range(16,65,16)", "accum=1,4,8", where=("bs*accum <= 256", "bs > 16"))
    assert points == [
        {"bs": bs, "accum": accum}
        for bs in (32, 48, 64)
        for accum in (1, 4, 8)
        if bs * accum <= 256
    ]
    drawn = points_of("x=uniform(0,1)", samples=30, where=("x < 0.1",))
    assert len(drawn) == 30
    assert all(isinstance(p["x"], float) and p["x"] < 0.1 for p in drawn)


@pytest.mark.parametrize("words", [("x=1,2",), ("x=uniform(0,1)",)])
def test_where_that_refuses_all_is_an_error(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="no point is left"):
        points_of(*words, samples=3, where=("x > 5",))


def test_every_point_is_repeated_with_a_parameter_that_counts() -> None:
    points = points_of("lr=0.1,0.2", repeat=Repeat("seed", 3))
    assert points == [{"lr": lr, "seed": seed} for lr in (0.1, 0.2) for seed in (0, 1, 2)]
    assert len(points_of("x=uniform(0,1)", samples=4, repeat=Repeat("seed", 3))) == 12


def test_a_parameter_that_is_there_twice_is_refused() -> None:
    for words, repeat in (
        (("lr=1", "lr=2"), None),
        (("lr=1", "m=zip(lr=[1],b=[2])"), None),
        (("seed=1",), Repeat("seed", 2)),
    ):
        with pytest.raises(UsageError, match="occurs twice"):
            space_of(*words, repeat=repeat)


def test_too_many_points_are_refused_before_they_are_made() -> None:
    for words, repeat in (
        (tuple(f"p{n}=range(1000)" for n in range(9)), None),
        (("a=range(1000)", "b=range(1000)"), Repeat("seed", 2)),
    ):
        with pytest.raises(UsageError, match="points"):
            points_of(*words, repeat=repeat)
    with pytest.raises(UsageError, match="2000000 points"):
        points_of("x=uniform(0,1)", samples=1_000_000, repeat=Repeat("seed", 2))


@pytest.mark.parametrize("where", [(), ("a >= 0",)])
def test_repeats_count_among_the_points_that_are_too_many(
    monkeypatch: pytest.MonkeyPatch, where: tuple[str, ...]
) -> None:
    monkeypatch.setattr("stoker.sweep.points.MOST_POINTS", 10)
    assert len(points_of("a=range(5)", where=where, repeat=Repeat("run", 2))) == 10
    with pytest.raises(UsageError, match="points"):
        points_of("a=range(6)", where=where, repeat=Repeat("run", 2))


def test_where_is_given_up_only_after_too_many_refusals_in_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stoker.sweep.points._MOST_REFUSED", 5)
    assert len(points_of("a=range(40)", where=("a % 5 == 0",))) == 8
    with pytest.raises(UsageError, match="excludes 5 points in a row"):
        points_of("a=range(40)", where=("a % 6 == 0",))


def test_only_the_first_points_are_taken_if_so_many_are_enough() -> None:
    assert points_of("a=range(1000)", "b=range(1000)", "c=range(100)", most=2) == [
        {"a": 0, "b": 0, "c": 0},
        {"a": 0, "b": 0, "c": 1},
    ]


def test_the_varied_parameters_are_those_with_more_than_one_value() -> None:
    space = space_of("a=1", "m=zip(x=[1,2],y=[3,3])", "z=uniform(0,1)", repeat=Repeat("seed", 2))
    assert space.varied == ("x", "z", "seed")
    assert space.names == ("a", "x", "y", "z", "seed")


@given(
    st.floats(-1e6, 1e6, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-6),
    st.floats(1e-3, 1e6),
    st.integers(0, 2**63 - 1),
)
def test_draws_stay_within_real_bounds(low: float, width: float, seed: int) -> None:
    high = low + width
    for point in points_of(f"x=uniform({low!r},{high!r})", samples=5, seed=seed):
        assert isinstance(point["x"], float)
        assert low <= point["x"] <= high
    small, large = abs(low) or 1e-3, (abs(low) or 1e-3) + width
    for point in points_of(f"x=loguniform({small!r},{large!r})", samples=5, seed=seed):
        assert isinstance(point["x"], float)
        assert small <= point["x"] <= large


def test_draws_have_the_shape_that_their_name_says() -> None:
    uniform = [p["x"] for p in points_of("x=uniform(0,10)", samples=2000)]
    log = [p["x"] for p in points_of("x=loguniform(1e-6,1e-2)", samples=2000)]
    normal = [p["x"] for p in points_of("x=normal(5,2)", samples=2000)]
    die = Counter(p["x"] for p in points_of("x=randint(1,6)", "y=range(1000)", samples=3000))

    def share(values: list[Data], low: float, high: float) -> float:
        inside = [x for x in values if isinstance(x, int | float) and low <= x < high]
        return len(inside) / len(values)

    assert share(uniform, 0, 5) == pytest.approx(0.5, abs=0.04)
    assert share(log, 1e-6, 1e-4) == pytest.approx(0.5, abs=0.04)
    assert share(normal, 3, 7) == pytest.approx(0.683, abs=0.04)
    assert set(die) == {1, 2, 3, 4, 5, 6}
    assert min(die.values()) > 400


def test_drawn_numbers_are_short_enough_to_read() -> None:
    for point in points_of("x=loguniform(1e-6,1e-2)", "y=uniform(0,1)", samples=50):
        for value in point.values():
            assert len(f"{value:.6g}") >= len(repr(value)) or float(f"{value:.6g}") == value
    wide = [p["x"] for p in points_of("x=uniform(1000000000,1000000001)", samples=50)]
    assert len(set(map(repr, wide))) == 50
