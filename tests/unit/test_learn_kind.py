"""The kind of a command is its program and options without their values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.learn.kind import MOST_CHARS, Kinds, kind_of


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("python train.py --lr 0.1", "python train.py --lr"),
        ("python train.py --lr=0.1", "python train.py --lr"),
        ("python train.py lr=0.1", "python train.py lr="),
        ("python train.py 17 resnet", "python train.py resnet"),
        ("python train.py --fast --shift -3 data", "python train.py --fast --shift data"),
        ("./run -n 4 ²", "./run -n ²"),
        ("", ""),
    ],
)
def test_values_are_left_out(command: str, kind: str) -> None:
    assert kind_of((), command) == kind
    assert kind_of(tuple(command.split()), None) == kind


def test_a_kind_is_not_longer_than_can_be_shown() -> None:
    assert len(kind_of(("x",) * 1000, None)) == MOST_CHARS


_WORDS = st.sampled_from(
    ["run", "--lr", "--lr=1", "-x", "-3", "-.5", "7", "42", "0.1", "1e5", "nan", "²", "٣", "a=b",
     "=", "-", "--", "name", "data", ""]
)  # fmt: skip


@given(st.lists(st.lists(_WORDS, min_size=1, max_size=4), max_size=12))
@settings(max_examples=300)
def test_commands_that_come_together_have_the_kinds_that_they_have_alone(
    commands: list[list[str]],
) -> None:
    words, lines = Kinds(), Kinds()
    for command in commands:
        line = " ".join(command)
        assert words.of(tuple(command), None) == kind_of(tuple(command), None)
        assert lines.of((), line) == kind_of((), line)
