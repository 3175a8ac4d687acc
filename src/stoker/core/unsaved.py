"""Wishes to stop that are carried out although they could not be committed.

A full disk must not keep a job from being stopped: it may be the one that fills it. That a decision
is on disk before it is acted upon is law for the sake of what a crash would undo: a process that
nobody knows of, a GPU given away twice. A wish to stop that a crash forgets does no such harm. The
job then goes on or has ended, and both are seen as they are; at worst somebody asks again.

Until they are on record they are remembered here, and come first in each turn: so a job that ends
by such a stop counts as stopped, and its grace time runs from the first order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stoker.core import events as ev
from stoker.core.state import State

Ending = ev.StopRequested | ev.JobCancelled


def is_easing(event: ev.Event) -> bool:
    """Whether it frees something, and so may have the room that is kept for that."""
    return isinstance(event, ev.StopRequested | ev.JobCancelled | ev.JobsRemoved)


class UnsavedStops:
    """Which jobs are to end although no record says so."""

    def __init__(self) -> None:
        self._wishes: dict[int, Ending] = {}  # by job

    def __bool__(self) -> bool:
        return bool(self._wishes)

    def add(self, wishes: Iterable[Ending]) -> None:
        """These could not be committed. The grace time runs from the first of several."""
        for wish in wishes:
            known = self._wishes.get(wish.job_id)
            if known is not None and _attempt_of(known) == _attempt_of(wish):
                wish = replace(wish, at_ms=known.at_ms)
            self._wishes[wish.job_id] = wish

    def shift(self, by_ms: int) -> None:
        """Somebody has set the clock."""
        if by_ms:
            for job_id, wish in self._wishes.items():
                self._wishes[job_id] = replace(wish, at_ms=wish.at_ms + by_ms)

    def stops(self, state: State) -> list[ev.StopRequested]:
        """Those about attempts that are active."""
        return [
            wish
            for wish in self._wishes.values()
            if isinstance(wish, ev.StopRequested) and state.is_current(wish.job_id, wish.attempt)
        ]

    def called_off(self, state: State) -> list[Ending]:
        """Those about jobs that waited when they were called off."""
        found: list[Ending] = []
        for wish in self._wishes.values():
            job = state.jobs.get(wish.job_id)
            if job is None or isinstance(wish, ev.StopRequested):
                continue
            if job.active is None:
                found.append(wish)
            else:
                # It has taken over from another meanwhile.
                number = job.active.number
                found.append(ev.StopRequested(wish.at_ms, job.id, number, wish.cause))
        return found

    def concern(self, job_id: int) -> bool:
        """Whether this job is to end."""
        return job_id in self._wishes

    def saved(self) -> None:
        """They are on record, or there is nothing left to stop."""
        self._wishes.clear()

    def value(self) -> frozenset[Ending]:
        """All of them, to be compared."""
        return frozenset(self._wishes.values())


def _attempt_of(wish: Ending) -> int | None:
    return wish.attempt if isinstance(wish, ev.StopRequested) else None
