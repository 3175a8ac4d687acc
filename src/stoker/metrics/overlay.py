"""One metric of many jobs in one picture: which metric, and the curves of which jobs.

Law: what is sent is bounded, however many jobs there are. The best of them are always there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.metrics.lookup import Lookup
from stoker.metrics.names import goal_of, in_likely_order
from stoker.metrics.standing import BARRED, ENDED, GOING, standing_of

_MOST_NAMES = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be seen; the metric and its goal are chosen where they are None."""

    name: str | None
    goal: str | None
    most: int
    points: int


def overlay(
    kept: Lookup,
    jobs: Mapping[int, str],
    wanted: Wanted,
    objectives: Sequence[Sequence[str]] = (),
) -> dict[str, Any]:
    """The answer to api.curve_messages.Curves, of jobs with their states.

    `objectives` are name and goal, of a search.
    """
    names = kept.names(jobs, _MOST_NAMES)
    name = likely(names, objectives) if wanted.name is None else wanted.name
    if name is None:
        return {"names": [], "name": None, "goal": None, "total": 0, "best": None, "curves": []}
    goal = wanted.goal or {one[0]: one[1] for one in objectives}.get(name) or goal_of(name) or "min"
    ranked, best = _ranked(kept.ranked(jobs, name, goal), jobs)
    return {
        "names": [[one, names[one]] for one in names],
        "name": name,
        "goal": goal,
        "total": len(ranked),
        "best": best,
        "curves": kept.curves_of(best_and_spread(ranked, wanted.most), name, wanted.points),
    }


def _ranked(
    values: Sequence[tuple[int, float | None]], states: Mapping[int, str]
) -> tuple[list[int], int | None]:
    """The best job first and those that can't be the best last; and the best one, if there is."""
    standing = {job: standing_of([states[job]], value) for job, value in values}
    best = next((job for one in (ENDED, GOING) for job in standing if standing[job] == one), None)
    return sorted(standing, key=lambda job: (job != best, standing[job] == BARRED)), best


def likely(names: Mapping[str, int], objectives: Sequence[Sequence[str]] = ()) -> str | None:
    """The metric that is shown if none was named: an objective, else a validation loss or so."""
    wanted = [name for name, _ in objectives if name in names]
    return next(iter(wanted or in_likely_order(names)), None)


def best_and_spread(ranked: Sequence[int], most: int) -> list[int]:
    """At most so many: the first half are the best, the others evenly from all of the rest."""
    if len(ranked) <= most:
        return list(ranked)
    best = (most + 1) // 2
    rest, room = ranked[best:], most - best
    last = len(rest) - 1
    spread = [rest[last * place // max(1, room - 1)] for place in range(room)]
    return [*ranked[:best], *spread]
