"""Attempts that take the place of others: who may, and who has."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from stoker.core import commands as cmd
from stoker.executors.ledger import Key


class Reliefs:
    """What was ordered, and what has come of it."""

    def __init__(self) -> None:
        self._may_be_relieved: set[Key] = set()
        self._standbys: deque[cmd.Standby] = deque()
        self._relieved_by: dict[Key, Key] = {}

    def order(self, commands: Iterable[cmd.Command]) -> None:
        """Take the order, if there is one; any other does not hold any more."""
        self._may_be_relieved.clear()
        self._standbys.clear()
        for command in commands:
            if isinstance(command, cmd.Relieve):
                self._may_be_relieved.update(command.attempts)
                self._standbys.extend(command.standbys)

    def __bool__(self) -> bool:
        """Whether anybody stands by."""
        return bool(self._standbys)

    def next_for(self, start: cmd.Start) -> cmd.Start | None:
        """The start of the next one in the place of an attempt that has ended well."""
        if not self._standbys or (start.job_id, start.attempt) not in self._may_be_relieved:
            return None
        standby = self._standbys.popleft()
        key = (standby.job_id, standby.attempt)
        if standby.may_be_relieved:
            self._may_be_relieved.add(key)
        return cmd.Start(*key, start.gpus, standby.grace_ms, start.labels, start.maker)

    def has_relieved(self, relieved: Key, by: Key) -> None:
        """One has taken the place of another."""
        self._relieved_by[relieved] = by

    def of(self, relieved: Key) -> Key | None:
        """Who has taken this one's place."""
        return self._relieved_by.get(relieved)

    def settled(self, relieved: Key) -> None:
        """Its end is committed, and with it who took its place."""
        self._relieved_by.pop(relieved, None)
