"""A call that can't be pickled is refused with the name of what can't, and what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from stoker.library.calling import Call, Chunk
from stoker.library.futures import JobFuture
from stoker.library.pickling import pickled_call
from stoker.library.task import TaskCall

LOCK = threading.Lock()


def use(value: Any = None, *, other: Any = None) -> None: ...


class Holder:
    def __init__(self) -> None:
        self.inner = {"lock": LOCK}

    def run(self) -> None: ...


def with_closure() -> Callable[..., Any]:
    guard = LOCK

    def inner() -> Any:
        return guard

    return inner


def with_default() -> Callable[..., Any]:
    def inner(guard: Any = LOCK) -> Any:
        return guard

    return inner


def with_later_default() -> Callable[..., Any]:
    def inner(first: int, second: Any = 1, third: Any = LOCK) -> Any:
        return first, second, third

    return inner


def with_keyword_default() -> Callable[..., Any]:
    def inner(*, guard: Any = LOCK) -> Any:
        return guard

    return inner


def with_global() -> Callable[..., Any]:
    scope: dict[str, Any] = {"__name__": "__main__", "THE_LOCK": LOCK}
    exec("def inner(): return THE_LOCK", scope)
    function: Callable[..., Any] = scope["inner"]
    return function


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (Call(use, (LOCK,), {}), "argument 1 (value)"),
        (Call(use, (1,), {"other": LOCK}), "the argument other"),
        (Call(use, ([1, {"a": LOCK}],), {}), "argument 1 (value)[1]['a']"),
        (Call(use, (Holder(),), {}), "argument 1 (value).inner['lock']"),
        (Call(Holder().run, (), {}), "the object of run.inner['lock']"),
        (Call(with_closure(), (), {}), "the variable guard of inner"),
        (Call(with_default(), (), {}), "the default of guard of inner"),
        (Call(with_later_default(), (1,), {}), "the default of third of inner"),
        (Call(with_keyword_default(), (), {}), "the default of guard of inner"),
        (Call(with_global(), (), {}), "the global variable THE_LOCK of inner"),
        (Call(partial(use, other=LOCK), (), {}), "the argument other of"),
        (Chunk(use, [(1,), (LOCK,)]), "argument 1 (value)"),
        (TaskCall(use, {"value": LOCK}, "folder"), "the argument value"),
    ],
)
def test_what_can_not_be_pickled_is_named(call: Any, named: str) -> None:
    with pytest.raises(TypeError, match="can't be pickled") as refused:
        pickled_call(call, call.target)
    said = str(refused.value)
    assert named in said and "(a _thread.lock)" in said and "inside the function" in said
    assert "\n" not in said


@pytest.mark.parametrize("future", [Future(), JobFuture()])
def test_a_future_as_an_argument_says_what_to_do(future: Future[Any]) -> None:
    for call in (Call(use, (future,), {}), Call(use, (), {"other": [future]})):
        with pytest.raises(TypeError, match="is a future") as refused:
            pickled_call(call, use)
        assert "future.result()" in str(refused.value) and "after=[future]" in str(refused.value)
