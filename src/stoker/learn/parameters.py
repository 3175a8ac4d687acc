"""Which parameters decide how long jobs of a kind take, and the runs that tell most of a job.

The model decides, the seed does not: a parameter matters if runs with the same value of it took
about the same time, and runs with other values did not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import NamedTuple

_LEAST_RUNS = 4
_EXPLAINS = 0.5  # of the variance of the logarithms, less what chance explains


class Run(NamedTuple):
    """One that came to its end."""

    ran_ms: int
    gpus: int
    params: Mapping[str, object]


def most_alike(runs: Sequence[Run], gpus: int, params: Mapping[str, object]) -> list[int]:
    """How long those ran that are most like such a job, in ms, in their order.

    On as many GPUs, if there are such; then with the same value, or else the nearest, of each
    parameter that matters.
    """
    left = [run for run in runs if run.gpus == gpus] or list(runs)
    for name in that_matter(left):
        if name not in params:
            continue
        value = _nearest([run.params.get(name) for run in left], params.get(name))
        left = [run for run in left if run.params.get(name) == value] or left
    return [run.ran_ms for run in left]


def that_matter(runs: Sequence[Run]) -> list[str]:
    """The parameters that matter, those that say most first."""
    if len(runs) < _LEAST_RUNS:
        return []
    names = sorted({name for run in runs for name in run.params})
    found = [(_explained(runs, name), name) for name in names]
    return [name for part, name in sorted(found, reverse=True) if part > _EXPLAINS]


def _explained(runs: Sequence[Run], name: str) -> float:
    """Which part of the differences comes of this parameter."""
    by_value: dict[object, list[float]] = defaultdict(list)
    for run in runs:
        by_value[run.params.get(name)].append(log(max(1, run.ran_ms)))
    count, values = len(runs), len(by_value)
    if not 1 < values < count:
        return 0.0
    everything = [one for some in by_value.values() for one in some]
    total = _squares(everything)
    if not total:
        return 0.0
    within = sum(_squares(some) for some in by_value.values())
    return 1 - (within / (count - values)) / (total / (count - 1))


def _squares(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((one - mean) ** 2 for one in values)


def _nearest(known: Iterable[object], wanted: object) -> object:
    """The known value that is nearest to the one that is wanted; names are not near each other."""
    size = _size(wanted)
    if not size:
        return wanted
    sizes = [(abs(log(other / size)), str(one), one) for one in known if (other := _size(one))]
    return min(sizes, default=(0.0, "", wanted))[2]


def _size(value: object) -> float:
    """A number that is more than nothing; else 0."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return max(0.0, float(value))
