"""Columns of numbers as they are in a log: each is converted only if somebody looks at it.

To convert takes long in a large log, and of a long series few points are kept. If all numbers of a
column have as many digits before their dot, they are in the order of their text, so that the lowest
and the highest are found without converting the others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar, cast, overload

Point = tuple[float | None, float]  # a step, which is None where none was said, and a value

_T = TypeVar("_T")
_ZERO = bytes.maketrans(b"123456789", b"000000000")


class _Lazy(Sequence[float]):
    """Numbers of which each is made when it is asked for."""

    @abstractmethod
    def _at(self, index: int) -> float: ...

    def picked(self, indices: Sequence[int]) -> Sequence[float]:
        """Those at some places."""
        return [self._at(index) for index in indices]

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        if isinstance(index, slice):
            return self.picked(range(*index.indices(len(self))))
        return self._at(index)

    def __iter__(self) -> Iterator[float]:
        return map(self._at, range(len(self)))


class Texts(_Lazy):
    """Numbers as texts."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def _at(self, index: int) -> float:
        return float(self.texts[index])

    def picked(self, indices: Sequence[int]) -> Texts:
        """Those at some places."""
        return type(self)(picked(self.texts, indices))


class Ordered(Texts):
    """Finite numbers as texts that are in the order of their values."""

    def extremes(self) -> tuple[int, int]:
        """Where the lowest and the highest are."""
        return self.texts.index(min(self.texts)), self.texts.index(max(self.texts))


class Within(_Lazy):
    """Steps within epochs: how many of them are over, and which part of this one is done."""

    def __init__(
        self, epochs: Sequence[float], less: int, done: Sequence[float], of: Sequence[float]
    ) -> None:
        self._epochs, self._less, self._done, self._of = epochs, less, done, of

    def __len__(self) -> int:
        return len(self._epochs)

    def _at(self, index: int) -> float:
        return self._epochs[index] - self._less + ratio(self._done[index], self._of[index])

    def picked(self, indices: Sequence[int]) -> Within:
        """Those at some places."""
        epochs, done, of = (picked(one, indices) for one in (self._epochs, self._done, self._of))
        return Within(epochs, self._less, done, of)


class After(_Lazy):
    """Steps that each are one after the one before."""

    def __init__(self, before: float, count: int) -> None:
        self._before, self._count = before, count

    def __len__(self) -> int:
        return self._count

    def _at(self, index: int) -> float:
        return self._before + 1 + (index if index >= 0 else self._count + index)


class Run(Sequence[Point]):
    """Points in the order of the output: one or more pairs of columns, of steps and of values."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Sequence[float | None], Sequence[float]]] = []

    def add(self, steps: Sequence[float | None], values: Sequence[float]) -> None:
        """Add points that come after those that are there."""
        if len(values):
            self.pieces.append((steps, values))

    def __len__(self) -> int:
        return sum(len(values) for _, values in self.pieces)

    def __iter__(self) -> Iterator[Point]:
        for steps, values in self.pieces:
            yield from zip(steps, values, strict=True)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> list[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | list[Point]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))


def values_of(texts: Sequence[bytes]) -> Sequence[float]:
    """The numbers of a column; ValueError if one is none."""
    zeros = b",%b," % b",".join(texts).translate(_ZERO)
    count, example = len(texts), texts[0]
    before = example.find(b".")
    if before > 0 and zeros.count(b",%b." % (b"0" * before)) == count:
        if zeros.translate(None, b"0") == b",." * count + b",":
            return Ordered(texts)
    elif zeros == b",%b" % (b"0" * len(example)) * count + b",":
        return Ordered(texts)
    return list(map(float, texts))


def counts_of(texts: Sequence[bytes]) -> Sequence[float]:
    """The numbers of a column whose order is of no interest; ValueError if one is none."""
    return Texts(texts) if b"".join(texts).isdigit() else list(map(float, texts))


def picked(column: Sequence[_T], indices: Sequence[int]) -> Sequence[_T]:
    """The numbers of a column at some places."""
    if isinstance(column, _Lazy):
        return cast("Sequence[_T]", column.picked(indices))
    if isinstance(indices, range) and indices.step > 0:
        return column[indices.start : indices.stop : indices.step]
    return [column[at] for at in indices]


def ratio(value: float, of: float) -> float:
    """What a part is of a whole; the part itself if there is none."""
    return value / of if of else value
