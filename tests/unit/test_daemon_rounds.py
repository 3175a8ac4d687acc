"""What is left of a turn when it is over."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from stoker.core import events as ev
from stoker.core.change import Change
from stoker.core.model import Need, Terms
from stoker.daemon.loop import Rounds
from stoker.engine import Answer, Decided, Engine


class OneJobATurn:
    """An engine that commits a job whenever somebody wishes for something."""

    failing = False
    committed = Change()

    def turn(self, wishes: list[Any]) -> list[Answer]:
        self.committed = Change()
        self.committed.submitted = [ev.JobSubmitted(1, 1, Need(), Terms()) for _ in wishes]
        return [Answer() for _ in wishes]

    def next_wakeup_ms(self) -> None:
        return None


def test_what_a_submission_has_brought_is_heard_by_all_and_then_not_kept() -> None:
    engine, heard = OneJobATurn(), []

    async def one_turn() -> None:
        rounds = Rounds(cast(Engine, engine), lambda: 1)
        rounds.after_turn.append(lambda: heard.append(len(engine.committed.submitted)))
        rounds.ask(lambda state: Decided([]), lambda answer: None)
        await asyncio.sleep(0)

    asyncio.run(one_turn())
    assert heard == [1]
    assert not engine.committed
