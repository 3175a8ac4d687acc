"""Each request has one function, in a table: none is left out, nor answered by another one's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

from stoker.api import messages as msg
from stoker.daemon.requests.dispatch import ANSWERS, STAYS


def test_every_request_is_in_one_table() -> None:
    assert not ANSWERS.keys() & STAYS.keys()
    assert ANSWERS.keys() | STAYS.keys() == set(get_args(msg.AnyRequest))


def test_each_function_is_for_its_own_request() -> None:
    functions: dict[type[msg.Request], Callable[..., Any]] = {**ANSWERS, **STAYS}
    for request, function in functions.items():
        said = inspect.signature(function).parameters["request"].annotation
        assert said == f"msg.{request.__name__}", function
