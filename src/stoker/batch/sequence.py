"""In which order the jobs of a file are queued, and which of them wait for which.

A job is known by its place in the file. Law: in the order that comes out, a job stands behind
everything that it waits for.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence


def batches(priorities: Sequence[int], size: int) -> list[list[int]]:
    """Places cut into batches of `size` as they come, each sorted by priority, lower first."""
    found = []
    for first in range(0, len(priorities), size):
        places = range(first, min(first + size, len(priorities)))
        found.append(sorted(places, key=lambda place: (priorities[place], place)))
    return found


def behind_what_they_need(
    cut: Iterable[Sequence[int]], requires: Mapping[int, Iterable[int]]
) -> list[int]:
    """One batch behind the other; in each, no job before one that it waits for."""
    ordered: dict[int, None] = {}
    for batch in cut:
        missing = {p: {o for o in requires.get(p, ()) if o not in ordered} for p in batch}
        ordered |= dict.fromkeys(_sorted(batch, missing))
    return list(ordered)


def _sorted(wanted: Sequence[int], missing: dict[int, set[int]]) -> list[int]:
    rank = {place: position for position, place in enumerate(wanted)}
    dependents: dict[int, list[int]] = {}
    for place, needed in missing.items():
        for other in needed:
            dependents.setdefault(other, []).append(place)
    ready = [rank[place] for place in wanted if not missing[place]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        place = wanted[heapq.heappop(ready)]
        ordered.append(place)
        for dependent in dependents.get(place, ()):
            missing[dependent].discard(place)
            if not missing[dependent]:
                heapq.heappush(ready, rank[dependent])
    if len(ordered) < len(wanted):
        circle = min(place for place in wanted if missing[place])
        raise Circle(circle)
    return ordered


class Circle(Exception):
    """Jobs wait for each other; `place` is one of them."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place
