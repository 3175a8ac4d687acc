"""Jobs that wait for all of a range of others: one gate for all who wait for the same range.

The end of a job costs what the number of gates that it keeps shut costs, however many jobs wait
behind each and however wide the range is. Whom a gate still waits for follows from the jobs that
are not final, so gates are in no store: they are built from what waits behind them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from stoker.core.model import Requirement


@dataclass(slots=True)
class Gate:
    """Opens when the last of some jobs has ended."""

    missing: dict[int, None]  # those of the range that have not ended
    behind: dict[int, None] = field(default_factory=dict)  # who waits


class Gates:
    """All gates that are shut."""

    def __init__(self, unfinished: Container[int]) -> None:
        self._unfinished = unfinished
        self._gates: dict[Requirement, Gate] = {}
        self._kept_shut_by: dict[int, list[Requirement]] = {}

    def __iter__(self) -> Iterator[tuple[Requirement, Gate]]:
        return iter(self._gates.items())

    def put_behind(self, job_id: int, requirement: Requirement) -> None:
        """Let a job wait, if there is anything to wait for."""
        gate = self._gates.get(requirement)
        if gate is None:
            gate = Gate({i: None for i in requirement.ids if i in self._unfinished})
            if not gate.missing:
                return
            self._gates[requirement] = gate
            for required_id in gate.missing:
                self._kept_shut_by.setdefault(required_id, []).append(requirement)
        gate.behind[job_id] = None

    def leave(self, job_id: int, requirement: Requirement) -> None:
        """A job waits no more: it was called off, or skipped."""
        if requirement in self._gates:
            self._gates[requirement].behind.pop(job_id, None)

    def ended(self, job_id: int) -> list[tuple[Requirement, Gate]]:
        """The gates that a job has kept shut until now; those with none missing are gone."""
        found = []
        for requirement in self._kept_shut_by.pop(job_id, ()):
            gate = self._gates[requirement]
            del gate.missing[job_id]
            if not gate.missing:
                del self._gates[requirement]
            found.append((requirement, gate))
        return found

    def may_open(self, job_id: int, others: int) -> bool:
        """True if a gate opens when a job has ended, and at most so many others have."""
        shut = [self._gates[requirement] for requirement in self._kept_shut_by.get(job_id, ())]
        return any(gate.behind and len(gate.missing) <= 1 + others for gate in shut)

    def retried(self, job_id: int) -> None:
        """A job that had ended runs again, and gates that are still shut wait for it once more."""
        for requirement, gate in self._gates.items():
            if job_id in requirement.ids:
                gate.missing[job_id] = None
                self._kept_shut_by.setdefault(job_id, []).append(requirement)

    def missing(self, requirement: Requirement) -> Mapping[int, None]:
        """Those for whom a gate is shut; none if it has opened."""
        gate = self._gates.get(requirement)
        return {} if gate is None else gate.missing
