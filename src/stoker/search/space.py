"""A space as a sampler sees it: one dimension per parameter, or per set of paired parameters.

A search samples numbers between bounds, and choices. What has one value only is no dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.errors import UsageError
from stoker.sweep.axes import Axis, Choice, Drawn, Listed, Numbers
from stoker.sweep.points import Space, condition
from stoker.sweep.values import Point, Value

Chosen = float | int | str


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two bounds, both included."""

    name: str
    numbers: Numbers
    low: float
    high: float
    log: bool = False
    step: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are meant."""
        return self.numbers.whole

    def point(self, chosen: Chosen) -> Point:
        """The parameter's value as commands have it."""
        return {self.name: self.numbers.near(float(chosen))}

    def chosen(self, params: Mapping[str, Any]) -> Chosen | None:
        """What was chosen for a point with these parameters; None if that can't have been."""
        number = params.get(self.name)
        if isinstance(number, bool) or not isinstance(number, int | float):
            return None
        return number if self.low <= number <= self.high else None


@dataclass(frozen=True, slots=True)
class Options:
    """One of some rows of values."""

    name: str
    names: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    @property
    def labels(self) -> list[str]:
        """What each row is called, each differently."""
        labels = [" ".join(value.text for value in row) for row in self.rows]
        if len(set(labels)) == len(labels):
            return labels
        return [" ".join(value.key for value in row) for row in self.rows]

    def point(self, chosen: Chosen) -> Point:
        """See Range."""
        return dict(zip(self.names, self.rows[self.labels.index(str(chosen))], strict=True))

    def chosen(self, params: Mapping[str, Any]) -> Chosen | None:
        """See Range."""
        if not all(name in params for name in self.names):
            return None
        keys = tuple(Value(params[name], "").key for name in self.names)
        for label, row in zip(self.labels, self.rows, strict=True):
            if tuple(value.key for value in row) == keys:
                return label
        return None


Dimension = Range | Options


def dimensions(space: Space) -> list[Dimension]:
    """What there is to choose; UsageError for what a search can't."""
    if not any(isinstance(axis, Drawn) for axis in space.axes):
        raise UsageError(
            "a search needs a distribution, and the parameters are lists of values",
            "write e.g. 'lr=loguniform(1e-5,1e-1)' or 'bs=choice(16,32)'; or leave out "
            "--minimize and --maximize to run all points",
        )
    found = [_dimension(axis) for axis in space.axes]
    return [one for one in found if not isinstance(one, Options) or len(one.rows) > 1]


def point_of(space: Space, chosen: Mapping[str, Chosen]) -> Point:
    """The point that was chosen, with all parameters in the order in which they were written."""
    point: Point = {}
    for axis in space.axes:
        one = _dimension(axis)
        if isinstance(one, Options) and len(one.rows) == 1:
            point |= one.point(one.labels[0])
        else:
            point |= one.point(chosen[one.name])
    return point


def acceptance(space: Space, where: Sequence[str]) -> Callable[[Mapping[str, Chosen]], bool] | None:
    """Whether what was chosen is a point that `--where` leaves; None if any is."""
    if not where:
        return None
    fulfils = condition(space, where)
    return lambda chosen: fulfils(point_of(space, chosen))


def chosen_of(dims: Sequence[Dimension], params: Mapping[str, Any]) -> dict[str, Chosen] | None:
    """What was chosen for a point with these parameters; None if the space is another one."""
    found = {one.name: one.chosen(params) for one in dims}
    whole = {name: chosen for name, chosen in found.items() if chosen is not None}
    return whole if len(whole) == len(found) else None


def _dimension(axis: Axis) -> Dimension:
    if isinstance(axis, Listed):
        return Options("+".join(axis.names), axis.names, axis.rows)
    drawn = axis.distribution
    if isinstance(drawn, Choice):
        if drawn.weights is not None:
            raise UsageError(
                f"{axis.name}: a search takes no probabilities", "leave them out: it learns them"
            )
        distinct = {value.key: (value,) for value in drawn.values}
        return Options(axis.name, (axis.name,), tuple(distinct.values()))
    if drawn.shape not in ("uniform", "log"):
        raise UsageError(
            f"{axis.name}: a search needs bounds, and {drawn.shape} has none that it could use",
            "use uniform(LOW,HIGH) or loguniform(LOW,HIGH)",
        )
    log = drawn.shape == "log"
    if drawn.step is None or log:
        return Range(axis.name, drawn, drawn.a, drawn.b, log)
    low = math.ceil(drawn.a / drawn.step - 1e-9) * drawn.step
    high = math.floor(drawn.b / drawn.step + 1e-9) * drawn.step
    if low >= high:
        return Range(axis.name, drawn, drawn.a, drawn.b)
    return Range(axis.name, drawn, low, high, step=drawn.step)
