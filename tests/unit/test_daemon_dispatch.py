"""Each request has one function, in a table: none is left out, nor answered by another one's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from stoker.api import messages as msg
from stoker.core.learning import Habits
from stoker.core.state import State
from stoker.daemon.disk_room import LeastRoom
from stoker.daemon.main import Daemon
from stoker.daemon.requests.config import take_settings
from stoker.daemon.requests.dispatch import ANSWERS, STAYS, Dispatcher
from stoker.daemon.requests.reply import AfterTurn
from stoker.daemon.retention import Retention
from stoker.daemon.server import Connection
from stoker.engine import Answer, Decided, Proposal


def test_every_request_is_in_one_table() -> None:
    assert not ANSWERS.keys() & STAYS.keys()
    assert ANSWERS.keys() | STAYS.keys() == set(get_args(msg.AnyRequest))


def test_each_function_is_for_its_own_request() -> None:
    functions: dict[type[msg.Request], Callable[..., Any]] = {**ANSWERS, **STAYS}
    for request, function in functions.items():
        said = inspect.signature(function).parameters["request"].annotation
        assert said.rpartition(".")[2] == request.__name__, function


def test_what_a_user_should_know_besides_is_told_after_the_warnings_of_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def proposal(state: State) -> Decided:
        return Decided([], {"ids": [7], "warnings": ["first"]})

    def ask(proposal: Proposal, reply: Callable[[Answer], None]) -> None:
        reply(Answer(proposal(State(0)).answer, note="not on record yet"))

    told: dict[str, Any] = {}
    answers: dict[Any, Any] = {msg.Cancel: lambda daemon, request: AfterTurn(proposal)}
    monkeypatch.setattr("stoker.daemon.requests.dispatch.ANSWERS", answers)
    daemon = SimpleNamespace(turn_loop=SimpleNamespace(ask=ask))
    connection = SimpleNamespace(answer=told.update)
    request = msg.Cancel(select=msg.Select(ids=["7"]))
    Dispatcher(cast(Daemon, daemon)).handle(request, cast(Connection, connection))
    assert told == {"ids": [7], "warnings": ["first", "not on record yet"]}


def test_what_was_set_reaches_the_parts_that_act_on_it() -> None:
    told: dict[str, Any] = {}

    def part(*names: str) -> SimpleNamespace:
        return SimpleNamespace(**{n: lambda *said, n=n: told.update({n: said}) for n in names})

    engine = SimpleNamespace(habits=Habits())
    values = {
        "cpus": "3", "foreign": "wait", "poll": "250ms", "settle": "7s", "disk-stop": "3G",
        "keep-logs": "1d", "max-log": "2G",
    }  # fmt: skip
    told_rooms: list[Any] = []
    told_kept: list[Any] = []
    daemon = SimpleNamespace(
        store=SimpleNamespace(settings=lambda: values),
        inventory=part("set_cpus", "set_foreign", "set_interval"),
        turn_loop=SimpleNamespace(engine=engine),
        disk_watch=SimpleNamespace(take=lambda *said: told_rooms.extend(said)),
        log_caps=SimpleNamespace(take=told_kept.append),
        clearing=SimpleNamespace(take=told_kept.append),
        slurm=part("configure"),
        notices=SimpleNamespace(wake=lambda: told_kept.append("notices")),
    )
    take_settings(cast(Daemon, daemon))
    assert told.pop("configure")[1] is None
    assert told == {"set_cpus": (3,), "set_foreign": ("wait",), "set_interval": (0.25,)}
    assert engine.habits == Habits(settle_ms=7_000)
    assert told_rooms == [LeastRoom(5, 20 * 1024), LeastRoom(mib=3 * 1024)]
    kept = Retention(logs_ms=86_400_000, results_ms=7 * 86_400_000, results_bytes=10 << 30)
    assert told_kept == [2 * 1024, kept, "notices"]
