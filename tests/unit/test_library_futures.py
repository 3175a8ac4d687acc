"""A future beside the end of its job: what `cancel` says is true of the future from then on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest

from stoker.api.paths import Home
from stoker.library.calls import Result
from stoker.library.futures import JobFuture


class Orders:
    """A channel whose daemon does something at the moment at which it takes an order."""

    def __init__(self, taken: bool, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._taken = taken
        self.home = Home("/home/ada/.stoker")
        self._meanwhile = meanwhile
        self.cancelled: list[int] = []

    def cancel(self, job_ids: list[int]) -> list[int]:
        self._meanwhile()
        self.cancelled += job_ids
        return job_ids if self._taken else []

    def job(self, job_id: int) -> dict[str, Any]:
        return {"id": job_id}

    def request(self, op: str, **fields: Any) -> dict[str, Any]:
        raise AssertionError(f"{op} is not asked for here")


def _future(taken: bool = True, meanwhile: Callable[[], None] = lambda: None) -> JobFuture[int]:
    future: JobFuture[int] = JobFuture(Orders(taken, meanwhile))
    future.job_id = 7
    return future


def test_a_call_that_ends_while_it_is_being_cancelled_was_not_cancelled() -> None:
    future = _future(meanwhile=lambda: future.resolve_result(Result(True, 42)))
    assert future.cancel() is False
    assert not future.cancelled() and future.result(0) == 42


def test_a_call_that_raises_while_it_is_being_cancelled_was_not_cancelled() -> None:
    future = _future(meanwhile=lambda: future.resolve_error(ValueError("too late")))
    assert future.cancel() is False
    with pytest.raises(ValueError, match="too late"):
        future.result(0)


def test_a_call_whose_job_has_ended_says_that_it_was_not_cancelled() -> None:
    future = _future(taken=False)
    assert future.cancel() is False
    assert not future.done()  # Its result is on its way.
    future.resolve_value(1)
    assert future.cancel() is False and future.result(0) == 1


def test_a_call_that_is_cancelled_stays_so_whatever_is_heard_later() -> None:
    future = _future()
    assert future.cancel() is True
    future.resolve_value(1)
    future.resolve_error(ValueError("too late"))
    future.resolve_cancelled()
    assert future.cancel() is True
    with pytest.raises(CancelledError):
        future.result(0)
    assert isinstance(future._requests, Orders) and future._requests.cancelled == [7]


def test_a_result_that_was_there_before_any_job_can_not_be_cancelled() -> None:
    future: JobFuture[int] = JobFuture()
    assert future.cancel() is False
    future.resolve_value(3)
    assert future.cancel() is False and future.result(0) == 3
