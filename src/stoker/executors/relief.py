"""Attempts that take the place of others: who may, and who has."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile

from stoker.core import commands as cmd
from stoker.executors.ledger import Key


class Reliefs:
    """What was ordered, and what has come of it."""

    def __init__(self) -> None:
        self._may_be_relieved: set[Key] = set()
        self._standbys: deque[cmd.Standby] = deque()
        self._relieved_by: dict[Key, Key] = {}

    def order(self, commands: Iterable[cmd.Command], is_known: Callable[[Key], bool]) -> None:
        """Take the order, if there is one; any other does not hold any more.

        Some of the standbys may have taken over while it was committed, and are known.
        """
        self._may_be_relieved.clear()
        self._standbys.clear()
        for command in commands:
            if isinstance(command, cmd.Relieve):
                self._may_be_relieved.update(command.attempts)
                for standby in command.standbys:
                    key = (standby.job_id, standby.attempt)
                    if not is_known(key):
                        self._standbys.append(standby)
                    elif standby.may_be_relieved:
                        self._may_be_relieved.add(key)

    def keep_to(self, order: cmd.Relieve | None) -> None:
        """See ports.Executor. Those who are to be first must be first now."""
        if order is None:
            self._standbys.clear()
            return
        self._may_be_relieved.intersection_update(order.attempts)
        pairs = zip(self._standbys, order.standbys, strict=False)
        alike = takewhile(lambda pair: pair[0] == pair[1], pairs)
        self._standbys = deque([standby for standby, _ in alike])

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
