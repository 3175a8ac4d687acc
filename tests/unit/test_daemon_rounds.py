"""What is left of a turn when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from event_loops import run_apart
from stoker.core import events as ev
from stoker.core.change import Change, Ended
from stoker.core.model import CANCELLED, Cause, Job, Need, Outcome, Terms
from stoker.daemon.loop import TurnLoop
from stoker.engine import Answer, Decided, Engine


class OneJobATurn:
    """An engine that commits a job whenever somebody proposals for something."""

    failing = False
    committed = Change()

    def turn(self, proposals: list[Any]) -> list[Answer]:
        self.committed = Change()
        self.committed.submitted = [ev.JobSubmitted(1, 1, Need(), Terms()) for _ in proposals]
        return [Answer() for _ in proposals]

    def next_wakeup_ms(self) -> None:
        return None


def test_what_a_submission_has_brought_is_heard_by_all_and_then_not_kept() -> None:
    engine, heard = OneJobATurn(), []

    async def one_turn() -> None:
        turn_loop = TurnLoop(cast(Engine, engine), lambda: 1)
        turn_loop.after_turn.append(lambda: heard.append(len(engine.committed.submitted)))
        turn_loop.ask(lambda state: Decided([]), lambda answer: None)
        await asyncio.sleep(0)

    run_apart(one_turn())
    assert heard == [1]
    assert not engine.committed


def test_what_fails_beside_a_turn_is_logged_and_keeps_nothing_else_from_happening(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine, heard = OneJobATurn(), list[str]()

    def fails() -> None:
        raise RuntimeError("a bug")

    def hears(what: str) -> Callable[..., None]:
        return lambda *_: heard.append(what)

    async def two_turns() -> None:
        turn_loop = TurnLoop(cast(Engine, engine), lambda: 1)
        turn_loop.before_turn += [fails, hears("before")]
        turn_loop.after_turn += [fails, hears("after")]
        engine.next_wakeup_ms = lambda: 1  # type: ignore[method-assign, assignment]
        turn_loop.ask(lambda state: Decided([]), lambda answer: fails())
        turn_loop.ask(lambda state: Decided([]), hears("answered"))
        await asyncio.sleep(0)
        assert heard == ["before", "answered", "after"], "each once"
        while turn_loop.turns < 2:  # The alarm has rung.
            await asyncio.sleep(0.001)

    run_apart(two_turns())
    assert [record.exc_info is not None for record in caplog.records][:3] == [True] * 3
    assert "fails" in caplog.text


def test_one_watcher_that_fails_does_not_keep_the_others_waiting() -> None:
    engine, heard = OneJobATurn(), list[str]()
    job = Job(1, Need(), Terms())

    def fails() -> None:
        raise RuntimeError("a bug")

    async def one_turn() -> None:
        turn_loop = TurnLoop(cast(Engine, engine), lambda: 1)
        engine.state = SimpleNamespace(jobs={1: job})  # type: ignore[attr-defined]
        turn_loop.watch([1], fails)
        turn_loop.watch([1], lambda: heard.append("done"))
        engine.committed.ended.append(
            Ended(job, None, Outcome(CANCELLED, Cause.CANCELLED), 1, True)
        )
        engine.turn = lambda proposals: []  # type: ignore[method-assign]
        turn_loop.turn()

    run_apart(one_turn())
    assert heard == ["done"]
