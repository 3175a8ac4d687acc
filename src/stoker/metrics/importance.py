"""Which parameters matter for a metric, judged by the points that were run.

Pure. The importance of a parameter is the share of the differences between points that its values
alone go along with, from 0 to 1: points are put in groups of the same value (numbers of which there
are too many, in bins with equally many points), and it is asked how much of the variance lies
between the groups. What random groups of that number would explain is taken away, so a parameter
without influence is near 0, however many values it has.

Ranks stand for the values of the metric, so that one run that diverged does not decide alone, and
`inf` is just the worst. A point without a value (`nan`) is left out.

It is no more than that: a parameter that matters only together with another one may show little,
shares need not add up to 1, and of few points it is a hint.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FEWEST = 4  # Of fewer points nothing is said,
FEW = 20  # and of fewer than these it is said that they are few.
_OWN_GROUPS = 20  # Of more numbers than these, several are put in one bin.
_BINS = 10
_IN_A_BIN = 5


@dataclass(frozen=True, slots=True)
class Importance:
    """How much one parameter matters; None if that can't be told."""

    name: str
    share: float | None


@dataclass(frozen=True, slots=True)
class Importances:
    """That of each parameter, the largest first, and from how many points it was judged."""

    points: int
    of: list[Importance]

    @property
    def is_rough(self) -> bool:
        """Whether there are so few points that it is but a hint."""
        return self.points < FEW


def importances(
    params: Sequence[Mapping[str, Any]], values: Sequence[float | None], names: Sequence[str]
) -> Importances:
    """The importance of these parameters for a metric, of which each point has one value."""
    kept = [
        (point, value)
        for point, value in zip(params, values, strict=True)
        if value is not None and not math.isnan(value)
    ]
    points, ranks = [point for point, _ in kept], _ranks([value for _, value in kept])
    found = [Importance(name, _share(_groups(points, name), ranks)) for name in names]
    found.sort(key=lambda one: -1.0 if one.share is None else one.share, reverse=True)
    return Importances(len(kept), found)


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in their order; equal ones share the middle of their places."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or values[order[end]] != values[order[start]]:
            for place in order[start:end]:
                ranks[place] = (start + end - 1) / 2
            start = end
    return ranks


def _share(groups: Sequence[Hashable], ranks: Sequence[float]) -> float | None:
    """The share of the variance that lies between groups, less what chance would explain."""
    count, sizes = len(ranks), Counter(groups)
    if count < FEWEST or len(sizes) < 2 or len(sizes) >= count:
        return None
    middle = (count - 1) / 2
    total = math.fsum((rank - middle) ** 2 for rank in ranks)
    if not total:
        return None
    sums: dict[Hashable, float] = dict.fromkeys(sizes, 0.0)
    for group, rank in zip(groups, ranks, strict=True):
        sums[group] += rank - middle
    between = math.fsum(sums[group] ** 2 / size for group, size in sizes.items())
    left = (1 - between / total) * (count - 1) / (count - len(sizes))
    return min(1.0, max(0.0, 1 - left))


def _groups(points: Sequence[Mapping[str, Any]], name: str) -> list[Hashable]:
    """The group of each point: its value, or the bin that this is in. To have none is one, too."""
    has = [name in point for point in points]
    values = [point[name] for point in points if name in point]
    if all(_is_number(value) for value in values):
        of_values = _of_numbers(values)
    else:
        of_values = _of_words([json.dumps(value, sort_keys=True) for value in values])
    groups = iter(of_values)
    return [next(groups) if one else "" for one in has]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _of_numbers(values: Sequence[float]) -> list[Hashable]:
    """Each number by itself, or bins of equally many points if there are too many numbers."""
    count, different = len(values), len(set(values))
    if different <= _OWN_GROUPS and 2 * different <= count:
        return list(values)
    bins = max(2, min(_BINS, count // _IN_A_BIN))
    ranks = _ranks(values)
    return [min(bins - 1, int((rank + 0.5) * bins / count)) for rank in ranks]


def _of_words(values: Sequence[str]) -> list[Hashable]:
    """Each word by itself; those of one point each are one group."""
    counts = Counter(values)
    return [value if counts[value] > 1 else None for value in values]
