"""Facts that are told again and again until they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.core import events as ev
from stoker.executors.ledger import Key

Ending = (
    ev.AttemptNotStarted
    | ev.AttemptPutBack
    | ev.AttemptExited
    | ev.AttemptVanished
    | ev.AttemptEvicted
)


class PendingFacts:
    """What attempts have begun with, and what they have come to; the first word on each counts."""

    def __init__(self) -> None:
        self.begun: dict[Key, ev.AttemptStarted] = {}
        self.over_with: dict[Key, Ending] = {}
        self.warned: dict[Key, ev.WarningSent] = {}

    def tell(self, fact: ev.AttemptStarted | ev.WarningSent | Ending) -> None:
        """One more."""
        self._like(fact).setdefault((fact.job_id, fact.attempt), fact)

    def _like(self, fact: ev.Fact) -> dict[Key, Any]:
        if isinstance(fact, ev.AttemptStarted):
            return self.begun
        return self.warned if isinstance(fact, ev.WarningSent) else self.over_with

    def all(self) -> list[ev.Fact]:
        """Those of an attempt in the order in which they came true."""
        return [*self.begun.values(), *self.warned.values(), *self.over_with.values()]

    def acknowledge(self, facts: Sequence[ev.Fact]) -> list[Key]:
        """These are committed; the attempts that are over with that."""
        over = []
        for fact in facts:
            key, told = (fact.job_id, fact.attempt), self._like(fact)
            if told.get(key) is fact:  # Else another has taken its place.
                del told[key]
            if told is self.over_with:
                over.append(key)
        return over
