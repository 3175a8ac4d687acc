"""Jobs that wait for all of a range of others: one barrier for all who wait for the same range.

The end of a job costs what the number of barriers that it keeps shut costs, however many jobs wait
behind each and however wide the range is. What a barrier still waits for follows from the jobs that
are not final, so barriers are in no store: they are built from what waits behind them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from stoker.core.model import Requirement


@dataclass(slots=True)
class Barrier:
    """Opens when the last of some jobs has ended."""

    missing: dict[int, None]  # those of the range that have not ended
    behind: dict[int, None] = field(default_factory=dict)  # who waits


class Barriers:
    """All barriers that are shut."""

    def __init__(self, unfinished: Container[int]) -> None:
        self._unfinished = unfinished
        self._barriers: dict[Requirement, Barrier] = {}
        self._kept_shut_by: dict[int, list[Requirement]] = {}

    def __iter__(self) -> Iterator[tuple[Requirement, Barrier]]:
        return iter(self._barriers.items())

    def put_behind(self, job_id: int, requirement: Requirement) -> None:
        """Let a job wait, if there is anything to wait for."""
        barrier = self._barriers.get(requirement)
        if barrier is None:
            barrier = Barrier({i: None for i in requirement.ids if i in self._unfinished})
            if not barrier.missing:
                return
            self._barriers[requirement] = barrier
            for required_id in barrier.missing:
                self._kept_shut_by.setdefault(required_id, []).append(requirement)
        barrier.behind[job_id] = None

    def leave(self, job_id: int, requirement: Requirement) -> None:
        """A job waits no more: it was called off, or skipped."""
        if requirement in self._barriers:
            self._barriers[requirement].behind.pop(job_id, None)

    def ended(self, job_id: int) -> list[tuple[Requirement, Barrier]]:
        """The barriers that a job has kept shut until now; those with none missing are gone."""
        found = []
        for requirement in self._kept_shut_by.pop(job_id, ()):
            barrier = self._barriers[requirement]
            del barrier.missing[job_id]
            if not barrier.missing:
                del self._barriers[requirement]
            found.append((requirement, barrier))
        return found

    def kept_shut_by(self, job_id: int) -> Iterator[tuple[Requirement, Barrier]]:
        """The barriers that wait for a job."""
        for requirement in self._kept_shut_by.get(job_id, ()):
            yield requirement, self._barriers[requirement]

    def may_open(self, job_id: int, others: int) -> bool:
        """True if a barrier opens when a job has ended, and at most so many others have."""
        return any(
            barrier.behind and len(barrier.missing) <= 1 + others
            for _, barrier in self.kept_shut_by(job_id)
        )

    def retried(self, job_id: int) -> None:
        """A job that had ended runs again: barriers that are still shut wait for it once more."""
        for requirement, barrier in self._barriers.items():
            if job_id in requirement.ids:
                barrier.missing[job_id] = None
                self._kept_shut_by.setdefault(job_id, []).append(requirement)

    def missing(self, requirement: Requirement) -> Mapping[int, None]:
        """Those for which a barrier is shut; none if it has opened."""
        barrier = self._barriers.get(requirement)
        return {} if barrier is None else barrier.missing
