"""What front ends ask the daemon about metrics, and the records that they get.

`call` is that of a client: `client.call("metrics", ...)`. The daemon answers from the series that
are kept; what is not among them is read first, by a process of its own. Where that takes long, the
answer says how many attempts are still to be read, and the question is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.metrics.series import Series

Call = Callable[..., dict[str, Any]]
Point = tuple[float, float]  # step and value

_NUMBERS = ("min", "min_step", "max", "max_step")


@dataclass(frozen=True, slots=True)
class Summary:
    """A metric of an attempt in short; `nan` is neither the minimum nor the maximum."""

    job: int
    attempt: int
    name: str
    count: int
    last: float
    last_step: float
    min: float | None  # None if all values are nan
    min_step: float | None
    max: float | None
    max_step: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric of an attempt with its thinned curve, from the first point to the last."""

    summary: Summary
    first: Point
    not_finite: int  # how many values are nan or infinite
    points: list[Point]


def metrics_of(
    call: Call,
    select: Mapping[str, Any],
    names: Sequence[str] = (),
    waiting: Callable[[int], None] = lambda unread: None,
) -> list[Summary]:
    """The metrics of jobs, of all names if none is given: those of each job's latest attempt.

    The latest attempt that has metrics counts: one that has just begun has none yet. `waiting` is
    told how many attempts are still to be read, each time before the question is repeated.
    """
    while True:
        answer = call("metrics", select=dict(select), names=list(names))
        if not answer["unread"]:
            return [summary(row) for row in answer["rows"]]
        waiting(answer["unread"])


def curves_of(call: Call, job_id: int, attempt: int | None = None) -> list[Curve]:
    """All metrics of an attempt with their curves; without its number, of the latest with any."""
    while True:
        answer = call("curve", job_id=job_id, attempt=attempt)
        if not answer["unread"]:
            return curves_in(answer)


def curves_in(answer: Mapping[str, Any]) -> list[Curve]:
    """The curves of one answer; there may be more of them in the next."""
    return [_curve(row) for row in answer["curves"]]


def summary(row: Mapping[str, Any]) -> Summary:
    """A row of the answer, in which `nan` and `inf` are text."""
    numbers = [None if row[name] is None else float(row[name]) for name in _NUMBERS]
    last, last_step = float(row["last"]), float(row["last_step"])
    return Summary(row["job"], row["attempt"], row["name"], row["count"], last, last_step, *numbers)


def curve_of(job: int, attempt: int, name: str, series: Series) -> Curve:
    """The same of a series that was read without the daemon, and which has a point."""
    assert series.first is not None
    assert series.last is not None
    low, high = ((None, None) if one is None else one for one in (series.lowest, series.highest))
    numbers = (low[1], low[0], high[1], high[0])
    short = Summary(job, attempt, name, series.count, series.last[1], series.last[0], *numbers)
    return Curve(short, series.first, series.not_finite, series.curve())


def _curve(row: Mapping[str, Any]) -> Curve:
    points = [(float(step), float(value)) for step, value in row["points"]]
    first = float(row["first"][0]), float(row["first"][1])
    return Curve(summary(row), first, row["not_finite"], points)
