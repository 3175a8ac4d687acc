"""How far a training is, by what its lines say: an epoch is often a line of its own."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import compress, count, islice, pairwise
from operator import ne
from typing import Any

from stoker.metrics.columns import Within, counts_of, values_of
from stoker.metrics.templates import Columns

_Mark = tuple[float, float | None, int]  # the place of a line, its epoch, 1 if they count from 1
_END: _Mark = (math.inf, None, 0)
_ZERO = bytes.maketrans(b"123456789", b"000000000")
# Steps of so many digits are as different as their texts; those within an epoch, if there are not
# too many epochs.
_EXACT = 15
_EXACT_PART = 8
_EXACT_EPOCH = 6


class Batch:
    """Lines of a block that mean the same: their places in it, and their numbers by column."""

    def __init__(
        self, columns: Columns, places: Sequence[int], texts: Sequence[Sequence[bytes]]
    ) -> None:
        """ValueError if something that should be a number is none."""
        self.columns = columns
        self.places = places
        self.texts = texts
        axes = columns.axes()
        self.numbers: list[Sequence[float]] = [
            () if at in columns.names else counts_of(one) if at in axes else values_of(one)
            for at, one in enumerate(texts)
        ]
        self.steps: Sequence[float | None] = ()
        self.before: Sequence[float] = ()  # epochs before those of the lines of a bar
        self._differ: list[bool] | None = None

    def differ(self) -> list[bool]:
        """Whether the step of each line, once all are known, is another than that of the next."""
        if self._differ is None:
            self._differ = self._compared()
        return self._differ

    def _compared(self) -> list[bool]:
        """See `differ`; texts are compared where they tell as much: to convert takes longer."""
        step, epoch, done, of = self.columns.axes()
        if step is not None:
            if _are_short(self.texts[step], _EXACT):
                return _changes(self.texts[step])
        elif done is not None and of is not None and (epoch is not None or self.before):
            epochs: Sequence[object] = self.before if epoch is None else self.texts[epoch]
            if self._are_exact(epoch, done, of):
                differ = _changes(self.texts[done])
                for at in {*_places(epochs), *_places(self.texts[of])}:
                    differ[at] = self.steps[at] != self.steps[at + 1]
                return differ
        return _changes(list(self.steps))

    def _are_exact(self, epoch: int | None, done: int, of: int) -> bool:
        """Whether all that is another text is another number, too."""
        if epoch is None:
            few = max(map(abs, self.before)) < 10**_EXACT_EPOCH
        else:
            few = _are_short(self.texts[epoch], _EXACT_EPOCH)
        return few and all(_are_short(self.texts[at], _EXACT_PART) for at in (done, of))


class Progress:
    """The epoch and the bar of the lines so far."""

    def __init__(self) -> None:
        self._last_mark: _Mark = (-1, None, 0)
        self._marks: list[_Mark] = []  # of the block whose steps were put last
        self._said: list[Batch] = []  # the lines from which these come, until one is asked for
        self._last_done = 0.0
        self._before = 0.0  # steps of earlier bars

    def state(self) -> list[Any]:
        """All that it knows. A number may be nan, which JSON has only as text."""
        _, epoch, from_one = self._last_mark
        known = None if epoch is None else repr(epoch)
        return [known, from_one, repr(self._last_done), repr(self._before)]

    def go_on(self, state: Sequence[Any]) -> None:
        """Know what was known."""
        epoch, from_one, last_done, before = state
        self._last_mark = (-1, None if epoch is None else float(epoch), from_one)
        self._last_done, self._before = float(last_done), float(before)

    def put_steps(self, batches: Sequence[Batch]) -> None:
        """Set the steps of all lines of a block: what they name, or what was said before them."""
        self._marks = [self._last_mark]
        self._said = [batch for batch in batches if batch.columns.epoch is not None]
        waiting = []
        for batch in batches:
            step, epoch, done, of = batch.columns.axes()
            if step is not None:
                batch.steps = batch.numbers[step]
            elif epoch is None:
                waiting.append(batch)
            elif done is None or of is None:
                batch.steps = batch.numbers[epoch]
            else:
                batch.steps = Within(
                    batch.numbers[epoch],
                    int(batch.columns.has_epochs),
                    batch.numbers[done],
                    batch.numbers[of],
                )
        if self._said:
            last = max(self._said, key=lambda batch: batch.places[-1])
            self._last_mark = (-1, *_epoch(last, -1))
        if waiting:
            self._wait(waiting)

    def epoch_at(self, place: int) -> float | None:
        """The epoch of a line of the block whose steps were put last."""
        return self._mark(place)[1]

    def _mark(self, place: int) -> _Mark:
        self._find_marks()
        return self._marks[bisect_right(self._marks, (place, math.inf)) - 1]

    def _marks_of(self, places: Sequence[int]) -> list[_Mark]:
        """The marks of several lines, which are in order."""
        self._find_marks()
        found: list[_Mark] = []
        for mark, then in pairwise([*self._marks, _END]):
            found += [mark] * (bisect_left(places, then[0]) - len(found))
        return found

    def _find_marks(self) -> None:
        if self._said:
            for batch in self._said:
                lines: Iterable[int] = range(len(batch.places))
                if len(self._said) == 1:  # Only where the epoch changes.
                    said = batch.texts[batch.columns.epoch or 0]
                    lines = (at for at in lines if not at or said[at] != said[at - 1])
                self._marks += ((batch.places[at], *_epoch(batch, at)) for at in lines)
            self._said = []
            self._marks.sort()

    def _wait(self, batches: list[Batch]) -> None:
        """Set the steps of lines that name none."""
        bars: list[tuple[int, int, int]] = []
        for number, batch in enumerate(batches):
            marks = self._marks_of(batch.places)
            done, of = batch.columns.done, batch.columns.of
            if done is None or of is None:
                batch.steps = [epoch for _, epoch, _ in marks]
                continue
            before = [-1.0 if epoch is None else epoch - from_one for _, epoch, from_one in marks]
            batch.before = before
            batch.steps = Within(before, 0, batch.numbers[done], batch.numbers[of])
            if any(epoch is None for _, epoch, _ in marks):
                steps = zip(marks, batch.steps, strict=True)
                batch.steps = [None if mark[1] is None else step for mark, step in steps]
                batch.before = ()
                bars += ((place, number, at) for at, place in enumerate(batch.places))
        for _, number, at in sorted(bars):
            batch = batches[number]
            if batch.steps[at] is None:
                assert isinstance(batch.steps, list) and batch.columns.done is not None
                batch.steps[at] = self._counted(batch.numbers[batch.columns.done][at])

    def _counted(self, done: float) -> float:
        if done * 2 < self._last_done:  # The next bar has begun; those of several processes differ.
            self._before += self._last_done
        self._last_done = done
        return self._before + done


def _epoch(batch: Batch, at: int) -> tuple[float, int]:
    """The epoch that a line names, and 1 if they count from 1."""
    assert batch.columns.epoch is not None
    return batch.numbers[batch.columns.epoch][at], int(batch.columns.has_epochs)


def _are_short(texts: Sequence[bytes], most: int) -> bool:
    """Whether counts have at most so many digits, and each is written in one way only."""
    if texts.count(texts[0]) == len(texts):
        texts = texts[:1]
    whole = b",%b," % b",".join(texts)
    if whole.count(b",0") != whole.count(b",0,") or not whole.translate(None, b",").isdigit():
        return False
    return b"0" * (most + 1) not in whole.translate(_ZERO)


def _changes(column: Sequence[object]) -> list[bool]:
    return [*map(ne, column, islice(column, 1, None)), True]


def _places(column: Sequence[object]) -> list[int]:
    """Where a column changes, which is at few places."""
    if column.count(column[0]) == len(column):
        return []
    return list(compress(count(), map(ne, column, islice(column, 1, None))))
