"""What a search can be asked for, and what it is told of one that makes no sense."""

from __future__ import annotations

import json

import pytest

from stoker.errors import UsageError
from stoker.search.space import Chosen, Options, Range, chosen_of, dimensions, point_of
from stoker.search.spec import Objective, axes_to_wire, from_wire, until_of
from stoker.search.stopping import Stopping
from stoker.sweep import identity, notation
from stoker.sweep.axes import Drawn, Numbers
from stoker.sweep.points import Repeat, Space

LOSS = Objective("loss", "min")


def _space(*words: str) -> Space:
    return Space(tuple(notation.parsed(word) for word in words))


def test_a_point_is_what_was_chosen_with_all_parameters_in_their_order() -> None:
    words = "opt=adam", "lr=loguniform(1e-5,1e-1)", "n=randint(1,8)", "bs=choice(16,32)"
    space = _space(*words, "m=zip(model=[vit,resnet],size=[1,2])")
    dims = dimensions(space)
    assert [one.name for one in dims] == ["lr", "n", "bs", "model+size"]
    chosen: dict[str, Chosen] = {"lr": 0.00123456789, "n": 3, "bs": "32", "model+size": "resnet 2"}
    point = point_of(space, chosen)
    assert {name: value.text for name, value in point.items()} == {
        "opt": "adam", "lr": "0.00123457", "n": "3", "bs": "32", "model": "resnet", "size": "2",
    }  # fmt: skip
    params = {name: value.data for name, value in point.items()}
    assert chosen_of(dims, params) == {**chosen, "lr": 0.00123457}
    assert chosen_of(dims, params | {"bs": 64}) is None
    assert chosen_of(dims, params | {"lr": 1.0}) is None
    for number in (1e-5, 1e-1):
        found = chosen_of(dims, params | {"lr": number})
        assert found is not None and found["lr"] == number, "both bounds belong to it"


def test_numbers_with_a_step_are_its_multiples_between_the_bounds() -> None:
    [one] = dimensions(Space((Drawn("x", Numbers("uniform", 0.1, 1.0, step=0.3)),)))
    assert isinstance(one, Range)
    assert (one.low, one.high) == pytest.approx((0.3, 0.9))
    [one] = dimensions(Space((Drawn("x", Numbers("uniform", 0.3, 0.9, step=0.3)),)))
    assert isinstance(one, Range)
    assert (one.low, one.high) == pytest.approx((0.3, 0.9))


def test_values_that_are_written_alike_and_differ_are_told_apart() -> None:
    space = _space('x=choice(1,"1",true)', "lr=uniform(0,1)")
    one = dimensions(space)[0]
    assert isinstance(one, Options)
    found = [one.point(label)["x"].data for label in one.labels]
    assert [type(value) for value in found] == [int, str, bool]


def test_a_search_is_read_as_it_was_kept() -> None:
    words = "lr=loguniform(1e-5,1e-1)", "x=normal(0,1)", "b=choice(1,2)", "c=3,4", "n=randint(1,9)"
    space = Space(_space(*words).axes, Repeat("seed", 3))
    kept = {
        "axes": axes_to_wire(space.axes), "objectives": [["loss", "min"]], "samples": 3,
        "ends_at_ms": None, "until": ["loss", 0.5], "sampler": "tpe", "seed": 7,
        "max_running": 2, "words": ["true"], "style": "flags", "files": {}, "request": {},
        "shared": {}, "where": ["b < 2"], "repeat": ["seed", 3],
        "stopping": Stopping("hyperband", 3, 27, 3).to_wire(), "begun": 1, "since": 4,
    }  # fmt: skip
    search = from_wire("s", json.loads(json.dumps(kept)))
    assert (search.space, search.repeats) == (space, 3)
    assert json.loads(json.dumps(search.to_wire())) == json.loads(json.dumps(kept))
    del kept["stopping"]  # One that was kept before there was any.
    assert from_wire("s", json.loads(json.dumps(kept))).stopping is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lr=0.1,0.01",), "a search needs a distribution"),
        (("lr=normal(0,1)",), "lr: a search needs bounds"),
    ],
)
def test_a_space_that_can_not_be_searched_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        dimensions(_space(*words))


def test_until_is_an_objective_and_how_good_it_has_to_be() -> None:
    accuracy = Objective("acc", "max")
    assert until_of("loss < 0.3", [LOSS]) == ("loss", 0.3)
    assert until_of("acc>=0.9", [LOSS, accuracy]) == ("acc", 0.9)
    assert LOSS.is_met(0.3, 0.3)
    assert not accuracy.is_met(0.8, 0.9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loss", "no condition"),
        ("loss < much", "no condition"),
        ("loss < nan", "no condition"),
        ("acc > 0.9", "not what is searched for"),
        ("loss > 0.3", "the least of loss is wanted"),
    ],
)
def test_an_until_that_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        until_of(text, [LOSS])


def test_a_trials_number_is_in_the_name_of_its_point_and_in_what_stands_for_it() -> None:
    names = [identity.trial_name("s", number) for number in range(300)]
    assert [identity.trial_number("s", name) for name in names] == list(range(300))
    assert len({identity.short(name) for name in names}) == 300
    assert identity.trial_number("other", names[3]) is None
    assert identity.trial_number("s", "sweep:abc") is None
