"""Attempts that take the place of others: who may, who has, and what is not told of them yet.

That one has taken another's place is told as a part of the other's end. Until that is settled
nothing else is told of it: who hears of its end first would not know what it is about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.executors.ledger import Key


class Reliefs:
    """What was ordered, and what has come of it."""

    def __init__(self) -> None:
        self._may_be_relieved: frozenset[Key] = frozenset()
        self._standbys: deque[tuple[int, int, int]] = deque()
        self._unsettled: dict[Key, Key] = {}  # who was relieved, by whom

    def order(self, commands: Iterable[cmd.Command]) -> None:
        """Take the order, if there is one; any other does not hold any more."""
        self._may_be_relieved = frozenset()
        self._standbys.clear()
        for command in commands:
            if isinstance(command, cmd.Relieve):
                self._may_be_relieved = frozenset(command.attempts)
                self._standbys.extend(command.standbys)

    def next_for(self, start: cmd.Start) -> cmd.Start | None:
        """The start of the next one in the place of an attempt that has ended well."""
        if not self._standbys or (start.job_id, start.attempt) not in self._may_be_relieved:
            return None
        job_id, attempt, grace_ms = self._standbys.popleft()
        return cmd.Start(job_id, attempt, start.gpus, grace_ms, start.labels, start.maker)

    def has_relieved(self, relieved: Key, by: Key) -> None:
        """One has taken the place of another."""
        self._unsettled[relieved] = by

    def of(self, relieved: Key) -> Key | None:
        """Who has taken this one's place."""
        return self._unsettled.get(relieved)

    def settled(self, relieved: Key) -> None:
        """Its end is committed, and with it who took its place."""
        self._unsettled.pop(relieved, None)

    def may_be_told(self, facts: Sequence[ev.Fact]) -> list[ev.Fact]:
        """The facts without those that are to be told later."""
        if not self._unsettled:
            return list(facts)
        untold = set(self._unsettled.values())
        return [fact for fact in facts if (fact.job_id, fact.attempt) not in untold]
