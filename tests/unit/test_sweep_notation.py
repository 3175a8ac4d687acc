"""Parameters as they are typed: values, ranges, pairs, distributions; and slips that are caught."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import UsageError
from stoker.sweep import notation
from stoker.sweep.axes import Choice, Drawn, Listed, Numbers
from stoker.sweep.values import Data

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def data_of(word: str) -> list[Data]:
    axis = notation.parsed(word)
    assert isinstance(axis, Listed)
    assert len(axis.names) == 1
    return [row[0].data for row in axis.rows]


def texts_of(word: str) -> list[str]:
    axis = notation.parsed(word)
    assert isinstance(axis, Listed)
    return [row[0].text for row in axis.rows]


def distribution_of(word: str) -> Numbers | Choice:
    axis = notation.parsed(word)
    assert isinstance(axis, Drawn)
    return axis.distribution


def test_values_are_numbers_truths_or_text_by_their_looks() -> None:
    assert data_of("x=0.1,1e-3,16,-2,.5,adam,true,False") == [
        0.1, 0.001, 16, -2, 0.5, "adam", True, False,
    ]  # fmt: skip


def test_what_only_looks_like_a_number_is_text() -> None:
    words = "007,1_000,nan,inf,1e999,0x10,1.2.3,12345678901234567890123"
    assert data_of(f"x={words}") == words.split(",")


def test_a_value_keeps_the_text_that_was_typed() -> None:
    assert texts_of("lr=1e-3,0.10,TRUE") == ["1e-3", "0.10", "TRUE"]


def test_spaces_around_values_do_not_count() -> None:
    assert texts_of("lr= 0.1 , 0.01") == ["0.1", "0.01"]


def test_quotes_keep_commas_spaces_and_numbers_as_text() -> None:
    assert data_of("""x="a,b",' c ',"1","",it's,"say \\"hi\\"" """) == [
        "a,b", " c ", "1", "", "it's", 'say "hi"',
    ]  # fmt: skip


def test_a_list_in_brackets_is_one_value() -> None:
    assert data_of("layers=[64,64],[128],[]") == [[64, 64], [128], []]
    assert texts_of("layers=[64, 64]") == ["[64, 64]"]


def test_the_same_value_twice_is_taken_once_however_it_is_written() -> None:
    assert texts_of("lr=0.1,0.10,1e-1,0.2") == ["0.1", "0.2"]
    assert data_of("x=1,1.0,true") == [1, 1.0, True]


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("bs=range(16,65,16)", [16, 32, 48, 64]),
        ("x=range(3)", [0, 1, 2]),
        ("x=range(3,0,-1)", [3, 2, 1]),
        ("x=range(-0,2.0,1e0)", [0, 1]),
        ("x=range(999999999999999998,999999999999999999)", [999999999999999998]),
        ("x=range(0,1,0.25)", [0, 0.25, 0.5, 0.75]),
        ("x=range(0.1,0.4,0.1)", [0.1, 0.2, 0.3]),
        ("x=1,range(8,10),x", [1, 8, 9, "x"]),
    ],
)
def test_a_range_has_its_start_and_not_its_end(word: str, values: list[Data]) -> None:
    assert data_of(word) == values


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-9, 9).filter(bool))
def test_a_range_of_whole_numbers_is_the_one_of_python(start: int, stop: int, step: int) -> None:
    wanted = list(range(start, stop, step))
    word = f"x=range({start},{stop},{step})"
    if wanted:
        assert data_of(word) == wanted
    else:
        with pytest.raises(UsageError, match="empty"):
            notation.parsed(word)


def test_zip_pairs_values() -> None:
    axis = notation.parsed("m=zip(model=[vit,resnet],opt=[adamw,sgd],n=range(2))")
    assert isinstance(axis, Listed)
    assert axis.names == ("model", "opt", "n")
    assert [[value.data for value in row] for row in axis.rows] == [
        ["vit", "adamw", 0],
        ["resnet", "sgd", 1],
    ]


def test_distributions_are_known_by_name() -> None:
    assert distribution_of("x=uniform(0,1)") == Numbers("uniform", 0, 1)
    assert distribution_of("x=loguniform(1e-6,1e-2)") == Numbers("log", 1e-6, 1e-2)
    assert distribution_of("x=randint(1,6)") == Numbers("uniform", 1, 6, whole=True)
    assert distribution_of("x=normal(0,2)") == Numbers("normal", 0, 2)
    choice = distribution_of('x=choice(a,2,"b)")')
    assert isinstance(choice, Choice)
    assert [value.data for value in choice.values] == ["a", 2, "b)"]


def test_the_older_form_takes_every_word_as_it_is() -> None:
    axis = notation.of_words(["lr", "0.1", "uniform(0,1)", "a,b", "-1"])
    assert isinstance(axis, Listed)
    assert [row[0].data for row in axis.rows] == [0.1, "uniform(0,1)", "a,b", -1]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("lr", "not NAME=VALUES"),
        ("=1", "not a parameter's name"),
        ("a b=1", "not a parameter's name"),
        ("1x=1", "not a parameter's name"),
        ("lr=", "empty value"),
        ("lr=1,,2", "empty value"),
        ("lr=unifrom(0,1)", "no function 'unifrom'"),
        ("lr=uniform(0)", "two numbers"),
        ("lr=uniform(a,b)", "two numbers"),
        ("lr=uniform(1,0)", "not a range"),
        ("lr=uniform(1,1)", "not a range"),
        ("lr=loguniform(-6,-2)", "no logarithm"),
        ("lr=loguniform(0,1)", "no logarithm"),
        ("lr=randint(0.5,2)", "not a whole number"),
        ("lr=randint(5,2)", "more than"),
        ("lr=normal(0,0)", "standard deviation"),
        ("lr=choice()", "no values"),
        ("lr=0.1,uniform(0,1)", "can't stand beside"),
        ("lr=range(0,10,0)", "never ends"),
        ("lr=range(0,1e300)", "too many"),
        ("lr=range()", "one to three numbers"),
        ("m=zip(a=[1,2],b=[1])", "same number of values"),
        ("m=zip(a=[1,2],a=[3,4])", "twice"),
        ("m=zip()", "no parameters"),
        ("m=zip(1,2)", "not NAME="),
        ("m=zip(a=uniform(0,1))", "can't stand beside"),
        ("x=(1", "brackets"),
        ("x=1)", "brackets"),
        ('x="a', "does not end"),
        ('x="a"b', "after its quotes"),
        ("x=" + "[" * 100 + "]" * 100, "too deeply"),
    ],
)
def test_a_slip_is_named(word: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        notation.parsed(word)
    assert said in caught.value.message
    assert caught.value.hint


@given(ANY_TEXT)
def test_any_text_can_be_a_value_in_quotes(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    assert data_of(f'x="{quoted}",1') == ([text, 1])


@given(ANY_TEXT)
def test_any_word_is_a_parameter_or_a_usage_error(text: str) -> None:
    for word in (text, f"x={text}", f"x=zip({text})", f"x=uniform({text})", f"x=range({text})"):
        try:
            notation.parsed(word)
        except UsageError:
            pass
