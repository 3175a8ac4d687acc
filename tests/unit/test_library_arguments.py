"""The arguments of calls as they are shown: plain, bounded, and made without the user's code."""

from __future__ import annotations

import enum
import json
from functools import partial
from pathlib import Path
from typing import Any

from stoker.command_lines import call, shown_call
from stoker.library.arguments import arguments, parameters
from stoker.library.calling import Call, Chunk


def train(lr: float, bs: int = 16, *more: Any, **others: Any) -> None:
    """As a user has it."""


class Secret:
    def __repr__(self) -> str:
        raise AssertionError("it is never asked for its text")

    __str__ = __repr__


class Colour(enum.Enum):
    RED = 1


def test_arguments_have_the_names_of_their_parameters() -> None:
    assert arguments(Call(train, (0.1,), {"bs": 8, "data": "x"})) == {
        "lr": 0.1, "bs": 8, "data": "x",
    }  # fmt: skip
    assert arguments(Call(train, (1, 2, 3), {})) == {"lr": 1, "bs": 2, "more": [3]}
    assert arguments(Call(partial(train, 5), (6,), {})) == {"lr": 5, "bs": 6}
    assert arguments(Call(bytes, (7,), {})) == {"argument 1": 7}


def test_calls_that_share_a_job_show_the_values_of_each_parameter() -> None:
    assert arguments(Chunk(train, [(n,) for n in range(3)])) == {"lr": [0, 1, 2]}
    many = arguments(Chunk(train, [(n,) for n in range(50)]))
    assert many == {"lr": [0, 1, 2, 3, 4, 5, 6, 7, "… 42 more"]}


def test_what_is_not_plain_is_shown_by_its_type_and_nothing_of_it_is_run() -> None:
    values = [Secret(), Colour.RED, Path("/a"), b"abc", train, Secret, float("nan"), 10**30, "\n"]
    shown = list(parameters(dict(enumerate(values))).values())
    assert shown == [
        "<Secret>", "Colour.RED", "/a", "<3 bytes>", "train", "Secret", "nan", "<100 bits>", "�",
    ]  # fmt: skip
    assert parameters({"a": list(range(9)), "b": {1: 2}}) == {"a": "<list of 9>", "b": {"1": 2}}


def test_however_much_there_is_little_is_shown() -> None:
    deep: list[Any] = []
    deep.append(deep)
    for one in ("x" * 10**6, [["y" * 500] * 8] * 8, {n: n for n in range(10**4)}, deep):
        assert len(json.dumps(parameters({"a": one}))) < 8000
    assert len(json.dumps(parameters({f"name {n}": "z" * 100 for n in range(10**4)}))) < 5000


def test_a_call_is_shown_as_it_is_in_python() -> None:
    words = call("/x/stoker/library/worker.py", "/calls/1.call", "training.train", "torch")
    assert shown_call(words, {"lr": 0.1, "bs": 2}) == "training.train(lr=0.1, bs=2)"
    words = call("/x/stoker/library/worker.py", "/calls/1.call", "/home/ada/my:script.py:f", None)
    assert shown_call(words, None) == "f()"
    shown = shown_call(words, {"a": "x" * 5000})
    assert shown is not None and len(shown) < 210 and shown.endswith("…)")
    assert shown_call(["python", "train.py"], {"lr": 1}) is None
