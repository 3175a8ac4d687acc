"""How long jobs that are alike took, and what that says of the next one.

Alike are jobs of one run kind (`Terms.run_kind`) on as many GPUs. Of each only the latest runs
count, so that a kind that has changed is known again soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_RUNS = 32  # that are kept of each

Runs = tuple[int, ...]
"""How long the latest runs took, in ms, the oldest first."""


@dataclass(slots=True)
class RunTimes:
    """What is known of all kinds, by the number of GPUs. What waits is in line by it."""

    _kinds: dict[str, dict[int, Runs]] = field(default_factory=dict)
    _means: dict[tuple[str, int], int] = field(default_factory=dict)  # those that were asked for
    _usual_ms: int | None = None

    def items(self) -> Iterator[tuple[str, int, Runs]]:
        """Each kind, number of GPUs, and its runs."""
        for kind, by_gpus in self._kinds.items():
            for gpus, runs in by_gpus.items():
                yield kind, gpus, runs

    def put(self, kind: str, gpus: int, runs: Runs) -> None:
        """Know these from now on."""
        self._kinds.setdefault(kind, {})[gpus] = runs
        self._means.clear()
        self._usual_ms = None

    def add(self, kind: str, gpus: int, ran_ms: int) -> None:
        """One more has run to its end."""
        self.put(kind, gpus, (*self._exactly(kind, gpus), ran_ms)[-MOST_RUNS:])

    def of(self, kind: str, gpus: int) -> Runs:
        """The runs that tell most of a job: those on as many GPUs, else on the next number."""
        known = self._kinds.get(kind)
        if not known:
            return ()
        return known.get(gpus) or known[min(known, key=lambda number: (abs(number - gpus), number))]

    def _exactly(self, kind: str, gpus: int) -> Runs:
        return self._kinds.get(kind, {}).get(gpus, ())

    def mean_ms(self, kind: str, gpus: int) -> int | None:
        """How long a job should take; None if nothing is known of its kind."""
        mean = self._means.get((kind, gpus))
        if mean is None:
            runs = self.of(kind, gpus)
            if not runs:
                return None
            mean = self._means[kind, gpus] = sum(runs) // len(runs)
        return mean

    @property
    def usual_ms(self) -> int:
        """What is supposed of kinds of which nothing is known: what the others take."""
        if self._usual_ms is None:
            means = [sum(runs) // len(runs) for _, _, runs in self.items()]
            self._usual_ms = sum(means) // len(means) if means else 0
        return self._usual_ms
