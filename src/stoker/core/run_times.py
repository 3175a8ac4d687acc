"""How long jobs that are alike took, and what that says of the next one.

Alike are jobs of one run kind (`Terms.run_kind`) on as many GPUs. Of each only the latest runs
count, so that a kind that has changed is known again soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from typing import NamedTuple

MOST_RUNS = 32  # that are kept of each

_MANY_RUNS = 12
_LEAST_KINDS = 3
_DOUBT = 4  # so many runs, or kinds, are as good as what is supposed of all
# Of the normal distribution, so many values that are equally likely.
_NORMAL = (-1.834, -1.282, -0.967, -0.728, -0.524, -0.341, -0.168, 0.0, 0.168, 0.341, 0.524, 0.728,
           0.967, 1.282, 1.834)  # fmt: skip

Runs = tuple[int, ...]
"""How long the latest runs took, in ms, the oldest first."""


class Usual(NamedTuple):
    """What is usual among all kinds, of the logarithms of what they take."""

    kinds: int = 0  # of which something is known
    middle: float = 0.0
    between: float = 0.25  # how much kinds differ: the variance
    within: float = 0.25  # how much runs of one kind do


@dataclass(slots=True)
class RunTimes:
    """What is known of all kinds, by the number of GPUs. What waits is in line by it."""

    _kinds: dict[str, dict[int, Runs]] = field(default_factory=dict)
    _means: dict[tuple[str, int], int] = field(default_factory=dict)  # those that were asked for
    _usual_ms: int | None = None
    _usual: Usual | None = None

    def items(self) -> Iterator[tuple[str, int, Runs]]:
        """Each kind, number of GPUs, and its runs."""
        for kind, by_gpus in self._kinds.items():
            for gpus, runs in by_gpus.items():
                yield kind, gpus, runs

    def put(self, kind: str, gpus: int, runs: Runs) -> None:
        """Know these from now on."""
        self._kinds.setdefault(kind, {})[gpus] = runs
        self._means.clear()
        self._usual_ms = self._usual = None

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

    @property
    def usual(self) -> Usual:
        """What is usual among all kinds."""
        if self._usual is None:
            kinds = [[log(max(1, one)) for one in runs] for _, _, runs in self.items()]
            self._usual = _usual(kinds)
        return self._usual


def _usual(kinds: Sequence[Sequence[float]]) -> Usual:
    """From the logarithms of what runs of each kind took. What few kinds tell counts little."""
    if not kinds:
        return Usual()
    means = [sum(runs) / len(runs) for runs in kinds]
    middle = sum(means) / len(means)
    runs_in_all = sum(map(len, kinds))
    squares = sum(
        (one - mean) ** 2 for mean, runs in zip(means, kinds, strict=True) for one in runs
    )
    doubt = _DOUBT * Usual().within
    within = (squares + doubt) / (runs_in_all - len(kinds) + _DOUBT)
    apart = sum((mean - middle) ** 2 for mean in means)
    between = (apart + doubt) / (len(kinds) - 1 + _DOUBT)
    return Usual(len(kinds), middle, between, within)


def likely(runs: Sequence[int], usual: Usual) -> Sequence[int]:
    """What a job may take of whose kind these runs are known, in order; empty if nothing is known.

    Many runs speak for themselves. Few do not show how much others differ, and happen to be quick
    or slow; so they count together with what is usual.
    """
    count = len(runs)
    if count >= _MANY_RUNS:
        return sorted(runs)
    if not count and usual.kinds < _LEAST_KINDS:
        return ()
    as_good_as = usual.within / usual.between  # so many runs what is usual is
    if not usual.kinds:
        as_good_as = 0.0
    known = sum(log(max(1, one)) for one in runs)
    middle = (known + as_good_as * usual.middle) / (count + as_good_as)
    spread = sqrt(usual.within * (1 + 1 / (count + as_good_as)))
    return [round(exp(middle + spread * part)) for part in _NORMAL]


def longer_than(runs: Iterable[int], ran_ms: int) -> list[int]:
    """Of these runs, those that say something of one that has run so long and goes on, in order.

    One that has outlived all of them is taken to be half way.
    """
    longer = sorted(one for one in runs if one > ran_ms)
    return longer or [2 * ran_ms]


def quantile(ordered: Sequence[int], part: float) -> int:
    """The value below which that part of them lies."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * (place - below))
