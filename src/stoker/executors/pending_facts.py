"""Facts that are told again and again until they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from stoker.core import events as ev
from stoker.executors.ledger import Key

Ending = (
    ev.AttemptNotStarted
    | ev.AttemptPutBack
    | ev.AttemptExited
    | ev.AttemptVanished
    | ev.AttemptEvicted
)
_F = TypeVar("_F", bound=ev.Fact)


class PendingFacts:
    """What attempts have begun with, and what they have come to; the first word on each counts."""

    def __init__(self) -> None:
        self.begun: dict[Key, ev.AttemptStarted] = {}
        self.over_with: dict[Key, Ending] = {}
        self.warned: dict[Key, ev.WarningSent] = {}

    def tell(self, fact: ev.AttemptStarted | ev.WarningSent | Ending) -> None:
        """One more."""
        key = (fact.job_id, fact.attempt)
        if isinstance(fact, ev.AttemptStarted):
            self.begun.setdefault(key, fact)
        elif isinstance(fact, ev.WarningSent):
            self.warned.setdefault(key, fact)
        else:
            self.over_with.setdefault(key, fact)

    def all(self) -> list[ev.Fact]:
        """Those of an attempt in the order in which they came true."""
        return [*self.begun.values(), *self.warned.values(), *self.over_with.values()]

    def acknowledge(self, facts: Sequence[ev.Fact]) -> list[Key]:
        """These are committed; the attempts that are over with that."""
        over = []
        for fact in facts:
            key = (fact.job_id, fact.attempt)
            if isinstance(fact, ev.AttemptStarted):
                _drop(self.begun, key, fact)
            elif isinstance(fact, ev.WarningSent):
                _drop(self.warned, key, fact)
            else:
                _drop(self.over_with, key, fact)
                over.append(key)
        return over


def _drop(facts: dict[Key, _F], key: Key, fact: ev.Fact) -> None:
    """Forget a fact, unless another has taken its place."""
    if facts.get(key) is fact:
        del facts[key]
