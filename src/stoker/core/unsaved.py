"""Stops that are carried out although they could not be committed.

A full disk must not keep a job from being stopped: it may be the one that fills it. That a decision
is on disk before it is acted upon is law for the sake of what a crash would undo: a process that
no record knows of, a GPU given away twice. A stop that a crash forgets does no such harm. The
job then goes on or has ended, and both are seen as they are; at worst a user asks again.

Until they are on record they are remembered here, and come first in each turn: so a job that ends
by such a stop counts as stopped, and its grace time runs from the first order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeGuard

from stoker.core import events as ev
from stoker.core.model import PUTS_BACK
from stoker.core.state import State

Ending = ev.StopRequested | ev.JobCancelled


def is_ending(event: ev.Event) -> TypeGuard[Ending]:
    """Whether it may be carried out before it is on record.

    Not so what is to be put back: after a crash, an end by our signal would look like a failure.
    """
    if isinstance(event, ev.StopRequested):
        return event.cause not in PUTS_BACK
    return isinstance(event, ev.JobCancelled)


def is_easing(event: ev.Event) -> bool:
    """Whether it frees something, and so may have the room that is kept for that."""
    return is_ending(event) or isinstance(event, ev.JobsRemoved)


class UnsavedStops:
    """Which jobs are to end although no record says so."""

    def __init__(self) -> None:
        self._kept: dict[int, Ending] = {}  # by job

    def __bool__(self) -> bool:
        return bool(self._kept)

    def add(self, endings: Iterable[Ending]) -> None:
        """These could not be committed. The grace time runs from the first of several."""
        for ending in endings:
            known = self._kept.get(ending.job_id)
            if known is not None and _attempt_of(known) == _attempt_of(ending):
                ending = replace(ending, at_ms=known.at_ms)
            self._kept[ending.job_id] = ending

    def shift(self, by_ms: int) -> None:
        """The clock was set."""
        if by_ms:
            for job_id, ending in self._kept.items():
                self._kept[job_id] = replace(ending, at_ms=ending.at_ms + by_ms)

    def stops(self, state: State) -> list[ev.StopRequested]:
        """Those about attempts that are active."""
        return [
            ending
            for ending in self._kept.values()
            if isinstance(ending, ev.StopRequested)
            and state.is_current(ending.job_id, ending.attempt)
        ]

    def called_off(self, state: State) -> list[Ending]:
        """Those about jobs that waited when they were called off."""
        found: list[Ending] = []
        for ending in self._kept.values():
            job = state.jobs.get(ending.job_id)
            if job is None or isinstance(ending, ev.StopRequested):
                continue
            if job.active is None:
                found.append(ending)
            else:
                # It has taken over from another meanwhile.
                number = job.active.number
                found.append(ev.StopRequested(ending.at_ms, job.id, number, ending.cause))
        return found

    def job_ids(self) -> set[int]:
        """The jobs that are to end."""
        return set(self._kept)

    def saved(self) -> None:
        """They are on record, or there is nothing left to stop."""
        self._kept.clear()

    def value(self) -> frozenset[Ending]:
        """All of them, to be compared."""
        return frozenset(self._kept.values())


def _attempt_of(ending: Ending) -> int | None:
    return ending.attempt if isinstance(ending, ev.StopRequested) else None
