"""`--where`: what it can say, and that nothing it says can do harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import UsageError
from stoker.sweep.values import Data
from stoker.sweep.where import MOST_CHARS, Where

POINT: dict[str, Data] = {
    "bs": 32, "accum": 4, "lr": 0.1, "model": "vit", "amp": True, "layers": [64, 64],
    "batch-size": 8, "opt.lr": 0.5, "nothing": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "bs*accum <= 256",
        "bs + 1 == 33 and accum - 1 == 3",
        "16 < bs < 64",
        "lr / 2 == 0.05 or False",
        "bs // 3 == 10 and bs % 3 == 2 and 2**5 == bs and -bs < +bs",
        "model in ('vit', 'resnet') and model not in ['mlp']",
        "'v' in model and model != 'resnet'",
        "amp and not (bs > 100)",
        "amp == true and amp != false",
        "min(bs, accum) == 4 and max(bs, accum, 50) == 50 and abs(-lr) == 0.1",
        "len(model) == 3 and len(layers) == 2 and 64 in layers",
        "round(lr) == 0 and round(lr * 3.14159, 2) == 0.31",
        "batch_size == 8 and opt_lr == 0.5",
        "nothing == None",
        "  bs == 32  ",
    ],
)
def test_a_condition_can_say(text: str) -> None:
    assert Where(text, POINT)(POINT) is True


@pytest.mark.parametrize(
    "text", ["bs > 32", "1 < accum < 3", "accum < bs < 16", "bs > accum > 1 > lr > lr"]
)
def test_a_condition_can_say_no(text: str) -> None:
    assert Where(text, POINT)(POINT) is False


def test_a_parameter_that_is_named_just_so_goes_before_one_that_is_only_spoken_so() -> None:
    point: dict[str, Data] = {"a-b": 1, "a_b": 2, "c_d": 3, "c-d": 4}
    assert Where("a_b == 2 and c_d == 3", point)(point) is True


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "model.upper() == 'VIT'",
        "model.__class__",
        "(lambda: 1)()",
        "[x for x in layers]",
        "open('x')",
        "layers[0] == 64",
        "f'{bs}' == '32'",
        "bs if amp else 1",
        "(x := 1) == 1",
        "{1: 2}",
        "{1, 2}",
        "bs is None",
        "bs << 1000 == 0",
        "~bs == 1",
        "bs @ 2 == 1",
        "max(*layers) == 64",
        "min(bs, key=1) == 1",
        "eval('1')",
        "sorted(layers) == 1",
        "b'x' == 1",
        "1j == 1",
        "... == 1",
        "await bs",
        "yield",
        "import os",
        "bs = 1",
        "bs ==",
        "",
        "bs\0",
        "(" * 500 + ")" * 500,
        "-" * 1900 + "1 == 1",
        "1 == " + "1" * MOST_CHARS,
    ],
)
def test_what_is_no_condition_is_refused_before_any_point_is_looked_at(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Where(text, POINT)(POINT)
    assert "--where" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10**10**10 > 1", "too large"),
        ("9**9**9 > 1", "too large"),
        ("(10**600) * (10**600) > 1", "too large"),
        ("10.0**400 > 1", "too large"),
        ("10**300 / 3 * 1e300 > 1e999 * 0 or 10**500 / 1 > 1", "too large"),
        ("model * 1000000000 == 1", "not a number"),
        ("'%9999999999d' % bs == 1", "not a number"),
        ("layers * 3 == 1", "not a number"),
        ("round(bs, -1000000000) == 1", "digits"),
        ("(-8) ** 0.5 == 1", "root of a negative"),
        ("bs / 0 == 1", "divides by zero"),
        ("bs % 0 == 1", "divides by zero"),
        ("model < 3", "compares"),
        ("bs in 3", "nothing can be in"),
        ("3 in model", "only text"),
        ("bs", "neither true nor false"),
        ("bs + 1", "neither true nor false"),
        ("len(bs) == 1", "compares"),
        ("min() == 1", "compares"),
    ],
)
def test_what_makes_no_sense_or_grows_without_bound_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Where(text, POINT)(POINT)
    assert said in caught.value.message


def test_a_name_that_is_no_parameter_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="there is no parameter warmup") as caught:
        Where("bs * warmup < 3", ["bs", "accum"])
    assert "accum, bs" in caught.value.hint


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_a_usage_error(text: str) -> None:
    try:
        assert Where(text, POINT)(POINT) in (True, False)
    except UsageError:
        pass


OPERANDS = st.sampled_from(["bs", "lr", "model", "layers", "7", "0", "'x'", "2.5", "(1,2)", "True"])
SIGNS = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "**", "<", "==", "in", "not in", "and", "or"]
)


@given(st.lists(st.tuples(OPERANDS, SIGNS), min_size=1, max_size=8), OPERANDS)
def test_any_expression_of_allowed_words_ends_soon(terms: list[tuple[str, str]], last: str) -> None:
    text = " ".join(f"{operand} {sign}" for operand, sign in terms) + f" {last}"
    try:
        assert Where(text, POINT)(POINT) in (True, False)
    except UsageError:
        pass
