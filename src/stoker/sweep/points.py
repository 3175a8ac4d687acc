"""The points of a space: the whole grid, some of it, or draws.

The same space and seed give the same points on every machine, and more samples only add points to
the fewer: a sweep can be extended.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import TYPE_CHECKING

from stoker.errors import UsageError
from stoker.sweep.axes import Axis, Drawn, Listed
from stoker.sweep.values import Point, Value

if TYPE_CHECKING:
    from stoker.sweep.where import Where

MOST_POINTS = 1_000_000
_MOST_LOOKED_AT = 10_000_000  # of a grid that --where then thins out
_MOST_REFUSED = 2_000_000
_MOST_MISSES = 100_000  # draws in a row that give no new point, after which there are no more
_MOST_SHUFFLED = 2**53  # as far as one random number tells all places of a grid apart


@dataclass(frozen=True, slots=True)
class Repeat:
    """Every point several times, told apart by one more parameter: 0, 1, 2..."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Space:
    """What is to be tried."""

    axes: tuple[Axis, ...]
    repeat: Repeat | None = None

    def __post_init__(self) -> None:
        names = [*self.base_names, *([self.repeat.name] if self.repeat else [])]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"the parameter {name} occurs twice", "name each parameter once")

    @property
    def base_names(self) -> tuple[str, ...]:
        """The parameters, the repeat's aside, in the order in which they were written."""
        return tuple(name for axis in self.axes for name in axis.names)

    @property
    def names(self) -> tuple[str, ...]:
        """All parameters."""
        return (*self.base_names, *((self.repeat.name,) if self.repeat else ()))

    @property
    def varied(self) -> tuple[str, ...]:
        """The parameters that have more than one value."""
        found = []
        for axis in self.axes:
            if isinstance(axis, Drawn):
                found.append(axis.name)
                continue
            for place, name in enumerate(axis.names):
                if len({row[place].key for row in axis.rows}) > 1:
                    found.append(name)
        if self.repeat is not None and self.repeat.count > 1:
            found.append(self.repeat.name)
        return tuple(found)

    @property
    def size(self) -> int | None:
        """How many points the grid has, repeats aside; None if values are drawn."""
        listed = _listed(self)
        if len(listed) < len(self.axes):
            return None
        return math.prod(len(axis.rows) for axis in listed)


@dataclass(frozen=True, slots=True)
class Choosing:
    """Which of a space's points are taken, and in which order."""

    samples: int | None = None  # how many at random; None: all
    most: int | None = None  # at most this many, the first ones
    shuffle: bool = False
    seed: int = 0
    where: Sequence[str] = ()


def in_turn(space: Space, choosing: Choosing) -> tuple[int, Iterator[Point]]:
    """How many points are chosen, and one after the other; of a whole grid, none is made before.

    Each comes once. The first parameter changes most slowly, repeats most quickly.
    """
    if space.size is None and choosing.samples is None:
        drawn = next(axis.name for axis in space.axes if isinstance(axis, Drawn))
        raise UsageError(
            f"{drawn} has a distribution, not a list of values",
            "set the number of points with --samples N",
        )
    copies = 1 if space.repeat is None else space.repeat.count
    limits = [n for n in (choosing.samples, choosing.most) if n is not None]
    known = limits if space.size is None else [*limits, space.size]
    if min(known) * copies > MOST_POINTS and not choosing.where:
        raise _too_many(min(known) * copies)
    if space.size is not None and not (limits or choosing.shuffle or choosing.where):
        return space.size * copies, _repeated(_grid(_listed(space)), space.repeat)
    points: list[Point] = []
    for point in _wanted(space, choosing):
        points.append(point)
        if len(points) * copies > MOST_POINTS:
            raise _too_many(None)
        if len(points) in limits:
            break
    if not points:
        raise UsageError("no point is left", "--where excludes all of them")
    return len(points) * copies, _repeated(points, space.repeat)


def _too_many(count: int | None) -> UsageError:
    said = f"{count} points" if count is not None else f"more than {MOST_POINTS} points"
    return UsageError(
        f"the sweep has {said}", f"at most {MOST_POINTS}; --samples N takes some of them"
    )


def _wanted(space: Space, choosing: Choosing) -> Iterator[Point]:
    conditions = _conditions(space, choosing.where) if choosing.where else []
    misses = 0
    for point in _candidates(space, choosing):
        if point is not None and _fulfils(point, conditions):
            misses = 0
            yield point
            continue
        misses += 1
        if misses >= _MOST_MISSES and space.size is None:
            return
        if misses >= _MOST_REFUSED:
            raise UsageError(
                f"--where excludes {misses} points in a row", "narrow the parameters instead"
            )


def _conditions(space: Space, where: Sequence[str]) -> list[Where]:
    from stoker.sweep.where import Where  # It is slow to import, and most sweeps are whole grids.

    return [Where(text, space.base_names) for text in where]


def condition(space: Space, where: Sequence[str]) -> Callable[[Point], bool]:
    """Whether a point is one that --where leaves."""
    conditions = _conditions(space, where)
    return lambda point: _fulfils(point, conditions)


def _fulfils(point: Point, conditions: Sequence[Where]) -> bool:
    if not conditions:
        return True
    data = {name: value.data for name, value in point.items()}
    return all(condition(data) for condition in conditions)


def _candidates(space: Space, choosing: Choosing) -> Iterator[Point | None]:
    """Points in the order in which they are tried; None for a draw that came before."""
    rng = random.Random(choosing.seed)
    size = space.size
    at_random = choosing.shuffle or choosing.samples is not None
    if size is None or (at_random and size > _MOST_SHUFFLED):
        yield from _draws(space, rng)
        return
    if size > _MOST_LOOKED_AT and choosing.samples is None and choosing.most is None:
        raise _too_many(size)
    listed = _listed(space)
    if not at_random:
        yield from _grid(listed)
        return
    for place in _shuffled(size, rng):
        yield _at(listed, place)


def _listed(space: Space) -> list[Listed]:
    return [axis for axis in space.axes if isinstance(axis, Listed)]


def _grid(axes: Sequence[Listed]) -> Iterator[Point]:
    names = tuple(name for axis in axes for name in axis.names)
    for rows in product(*[axis.rows for axis in axes]):
        yield dict(zip(names, chain.from_iterable(rows), strict=True))


def _at(axes: Sequence[Listed], place: int) -> Point:
    """The point at a place of the grid; the last axis is the one that changes first."""
    rows = []
    for axis in reversed(axes):
        place, row = divmod(place, len(axis.rows))
        rows.append(axis.rows[row])
    point: Point = {}
    for axis, values in zip(axes, reversed(rows), strict=True):
        for name, value in zip(axis.names, values, strict=True):
            point[name] = value
    return point


def _shuffled(size: int, rng: random.Random) -> Iterator[int]:
    """All places in random order, made one by one: a few of very many cost only a few."""
    moved: dict[int, int] = {}
    for place in range(size):
        other = min(place + int(rng.random() * (size - place)), size - 1)
        yield moved.get(other, other)
        moved[other] = moved.get(place, place)
        moved.pop(place, None)


def _draws(space: Space, rng: random.Random) -> Iterator[Point | None]:
    """Points drawn one by one; None for one that was drawn before."""
    seen: set[tuple[str, ...]] = set()
    while True:
        point: Point = {}
        for axis in space.axes:
            if isinstance(axis, Drawn):
                point[axis.name] = axis.distribution.at(rng)
            else:
                row = axis.rows[min(int(rng.random() * len(axis.rows)), len(axis.rows) - 1)]
                point.update(zip(axis.names, row, strict=True))
        key = tuple(value.key for value in point.values())
        yield None if key in seen else point
        seen.add(key)


def _repeated(points: Iterable[Point], repeat: Repeat | None) -> Iterator[Point]:
    if repeat is None:
        yield from points
        return
    numbers = [Value(number, str(number)) for number in range(repeat.count)]
    for point in points:
        for number in numbers:
            yield {**point, repeat.name: number}
