"""A metric of an attempt as it is kept: bounded, however many points it has.

Exact are the count, the first, last, lowest and highest value with their steps. The curve is
thinned: when it has too many buckets, each two neighbours become one, which keeps its lowest and
its highest point. So a million steps keep their shape, peaks included.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, cast

from stoker.metrics.columns import After, Ordered, Run

Point = tuple[float, float]  # step and value

MOST_BUCKETS = 256
_value: Callable[[Point], float] = itemgetter(1)
_FORM = 1  # of what `to_record` gives


class Series:
    """Points of one metric, in the order in which they came."""

    def __init__(self) -> None:
        self.count = 0
        self.first: Point | None = None
        self.last: Point | None = None
        self.lowest: Point | None = None  # nan is neither the lowest nor the highest
        self.highest: Point | None = None
        self.not_finite = 0
        self._buckets: list[list[Point]] = []  # of one or two points each, in order
        self._each = 1  # how many points a whole bucket stands for
        self._filled = 0  # how many points the last bucket stands for
        self.held: Point | None = None  # the next point, which may still be replaced
        self.counted = True  # no point had a step of its own

    def extend(self, points: Iterable[tuple[float | None, float]]) -> None:
        """Add points; one without a step is one step after the last."""
        if isinstance(points, Run):
            for steps, values in points.pieces:
                self._extend(steps, values)
            return
        given = list(points)
        if given:
            self._extend([step for step, _ in given], [value for _, value in given])

    def _extend(self, said: Sequence[float | None], values: Sequence[float]) -> None:
        steps = self._known(said)
        count = len(values)
        self.first = self.first or (steps[0], values[0])
        self.last = (steps[-1], values[-1])
        self.count += count
        at = 0
        while at < count:
            if not self._buckets or self._filled >= self._each:
                if len(self._buckets) >= MOST_BUCKETS:
                    self._halve()
                if not self._buckets or self._filled >= self._each:
                    self._buckets.append([])
                    self._filled = 0
            until = min(count, at + self._each - self._filled)
            whole = at == 0 and until == count
            self._take(steps, at, values if whole else values[at:until])
            self._filled += until - at
            at = until

    def _known(self, steps: Sequence[float | None]) -> Sequence[float]:
        if not isinstance(steps, list | tuple) or None not in steps:
            self.counted = False
            return cast("Sequence[float]", steps)
        before = -1.0 if self.last is None else self.last[0]
        if steps.count(None) == len(steps):
            return After(before, len(steps))
        self.counted = False
        known: list[float] = []
        for step in steps:
            before = before + 1 if step is None else step
            known.append(before)
        return known

    def _take(self, steps: Sequence[float], offset: int, values: Sequence[float]) -> None:
        """Add values to the last bucket; their steps begin at an offset."""
        kept = []
        for at in _extremes_at(values):
            point = steps[offset + at], values[at]
            kept.append(point)
            if point[1] == point[1]:
                if self.lowest is None or point[1] < self.lowest[1]:
                    self.lowest = point
                if self.highest is None or point[1] > self.highest[1]:
                    self.highest = point
        if not isinstance(values, Ordered) and not math.isfinite(sum(values)):
            self.not_finite += sum(not math.isfinite(value) for value in values)
        self._buckets[-1] = _extremes(self._buckets[-1] + kept)

    def _halve(self) -> None:
        buckets = self._buckets
        self._buckets = [
            _extremes([point for bucket in buckets[at : at + 2] for point in bucket])
            for at in range(0, len(buckets), 2)
        ]
        self._filled += self._each if len(buckets) % 2 == 0 else 0
        self._each *= 2

    def shown(self) -> Series:
        """The series with the point that is held, as it would be if nothing replaced that."""
        if self.held is None:
            return self
        it = copy.copy(self)
        it._buckets = list(self._buckets)
        it.extend([self.held])
        it.held = None
        return it

    def thinned(self, points: int) -> Series:
        """The series with a curve of at most so many points, and the first and the last."""
        it = copy.copy(self)
        while len(it._buckets) > 1 and sum(map(len, it._buckets)) > points:
            it._halve()
        return it

    # ------------------------------------------------------------------ of several attempts

    def going_on_from(self, earlier: Series) -> Series:
        """The series of both: of an earlier attempt that was put back, and of the one that went on.

        One that went back to an older checkpoint replaces what came after that: of the earlier one,
        what is before its first step counts. Points without steps are counted on.
        """
        own, earlier = copy.copy(self), earlier.shown()
        begins = own.first or own.held
        if begins is None or earlier.last is None:
            return own if earlier.last is None else earlier
        if own.counted and own.held is None:
            own = own._later(earlier.last[0] + 1)
        else:
            earlier = earlier._before(begins[0])
        if earlier.last is None:
            return own
        it = copy.copy(earlier)
        while it._each < own._each:
            it._halve()
        while own._each < it._each and own._buckets:
            own._halve()
        if own._buckets:
            it._buckets = it._buckets + own._buckets
            it._filled = own._filled
        while len(it._buckets) > MOST_BUCKETS:
            it._halve()
        it.count += own.count
        it.not_finite += own.not_finite
        it.last = own.last or it.last
        if own.lowest is not None and (it.lowest is None or own.lowest[1] < it.lowest[1]):
            it.lowest = own.lowest
        if own.highest is not None and (it.highest is None or own.highest[1] > it.highest[1]):
            it.highest = own.highest
        it.held, it.counted = own.held, own.counted and it.counted
        return it

    def _before(self, step: float) -> Series:
        """What came before a step was reached for good; of a thinned curve, nearly all of that."""
        it = copy.copy(self)
        if self.first is None or self.last is None or self.last[0] < step:
            return it
        buckets = [list(bucket) for bucket in self._buckets]
        while buckets and buckets[-1][-1][0] >= step:
            buckets[-1].pop()
            if not buckets[-1]:
                buckets.pop()
        if not buckets:
            return Series() if self.first[0] >= step else _of_one(self.first)
        points = [point for bucket in buckets for point in bucket]
        numbers = [point for point in points if point[1] == point[1]]
        it._buckets, it._filled = buckets, it._each
        it.last = points[-1]
        it.count = (len(buckets) - 1) * it._each + len(buckets[-1])
        it.not_finite = sum(not math.isfinite(value) for _, value in points)
        it.lowest, it.highest = (
            whole if whole in points else of(numbers, key=_value, default=None)
            for whole, of in ((self.lowest, min), (self.highest, max))
        )
        return it

    def _later(self, steps: float) -> Series:
        """The same so many steps later."""

        def moved(point: Point | None) -> Point | None:
            return None if point is None else (point[0] + steps, point[1])

        it = copy.copy(self)
        it.first, it.last = moved(it.first), moved(it.last)
        it.lowest, it.highest = moved(it.lowest), moved(it.highest)
        it._buckets = [[(step + steps, value) for step, value in one] for one in it._buckets]
        return it

    def curve(self) -> list[Point]:
        """The thinned curve, from the first point to the last."""
        points = [point for bucket in self._buckets for point in bucket]
        if self.first is None or self.last is None:
            return points
        if not _are_same(points[-1], self.last):
            points.append(self.last)
        if not _are_same(points[0], self.first):
            points.insert(0, self.first)
        return points

    def said_curve(self) -> list[list[float | str]]:
        """The curve for JSON, with `nan` and `inf` as text."""
        return [said(point) for point in self.curve()]

    # ------------------------------------------------------------------ for the record

    def to_record(self) -> dict[str, Any]:
        """What is stored: JSON, with `nan` and `inf` as text."""
        return {
            "form": _FORM,
            "count": self.count,
            "not_finite": self.not_finite,
            "first": said_if(self.first),
            "last": said_if(self.last),
            "lowest": said_if(self.lowest),
            "highest": said_if(self.highest),
            "each": self._each,
            "filled": self._filled,
            "held": said_if(self.held),
            "counted": self.counted,
            "buckets": [[said(point) for point in bucket] for bucket in self._buckets],
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Series:
        """The series that was stored; ValueError if this version can't read it."""
        if record.get("form") != _FORM:
            raise ValueError("a series of another version")
        it = cls()
        it.count, it.not_finite = record["count"], record["not_finite"]
        it.first, it.last = _read(record["first"]), _read(record["last"])
        it.lowest, it.highest = _read(record["lowest"]), _read(record["highest"])
        it.held = _read(record["held"])
        it.counted = record.get("counted", False)
        it._each, it._filled = record["each"], record["filled"]
        it._buckets = [[_point(said) for said in bucket] for bucket in record["buckets"]]
        return it


def _of_one(point: Point) -> Series:
    it = Series()
    it.extend([point])
    return it


def _extremes_at(values: Sequence[float]) -> list[int]:
    """Where the lowest and the highest of some values are, in their order."""
    if isinstance(values, Ordered):
        return sorted({*values.extremes()})
    numbers = values
    if math.isnan(sum(values)):  # inf - inf is nan, too
        numbers = [value for value in values if value == value]
        if not numbers:
            return [0]
    return sorted({values.index(min(numbers)), values.index(max(numbers))})


def _extremes(points: list[Point]) -> list[Point]:
    """The lowest and the highest of some points, in their order; nan only where nothing else is."""
    if len(points) == 1:
        return points
    if math.isnan(sum(map(_value, points))):  # inf - inf is nan, too
        points = [point for point in points if point[1] == point[1]] or points[:1]
    low, high = min(points, key=_value), max(points, key=_value)
    if low is high:
        return [low]
    return [low, high] if points.index(low) <= points.index(high) else [high, low]


def _are_same(one: Point, other: Point) -> bool:
    return repr(one) == repr(other)  # nan is not equal to itself


def said(point: Point) -> list[float | str]:
    """A point for JSON, with `nan` and `inf` as text."""
    return [number if math.isfinite(number) else repr(number) for number in point]


def said_if(point: Point | None) -> list[float | str] | None:
    """The same of a point that there may not be."""
    return None if point is None else said(point)


def _read(said: list[float | str] | None) -> Point | None:
    return None if said is None else _point(said)


def _point(said: list[float | str]) -> Point:
    step, value = map(float, said)
    return step, value
