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
_OF_SUSPENSION = (ev.AttemptSuspended, ev.AttemptContinued)


class PendingFacts:
    """What attempts have begun with, and what they have come to; the first word on each counts."""

    def __init__(self) -> None:
        self.begun: dict[Key, ev.AttemptStarted] = {}
        self.over_with: dict[Key, Ending] = {}
        self.warned: dict[Key, ev.WarningSent] = {}
        self.suspended: dict[Key, ev.AttemptSuspended | ev.AttemptContinued] = {}

    def tell(self, fact: ev.Fact) -> None:
        """One more."""
        if isinstance(fact, _OF_SUSPENSION):
            self.suspended[fact.job_id, fact.attempt] = fact  # Of these the last word counts.
            return
        self._like(fact).setdefault((fact.job_id, fact.attempt), fact)

    def _like(self, fact: ev.Fact) -> dict[Key, Any]:
        if isinstance(fact, ev.AttemptStarted):
            return self.begun
        if isinstance(fact, _OF_SUSPENSION):
            return self.suspended
        return self.warned if isinstance(fact, ev.WarningSent) else self.over_with

    def all(self) -> list[ev.Fact]:
        """Those of an attempt in the order in which they came true."""
        of_living = (self.begun, self.warned, self.suspended)
        living = [fact for facts in of_living for fact in facts.values()]
        return [*living, *self.over_with.values()]

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
