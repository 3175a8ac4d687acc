"""Metrics in the output of a program, as it comes: bytes in, points out.

Pure and incremental: however the output is cut into pieces, the points are those of the whole. A
line ends at `\\n` or `\\r`; terminal sequences are taken out wherever they are. Memory is bounded,
whatever comes: a line that is too long to be one of a training is left out, and so are names after
the first thousand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stoker.metrics.patterns import MetricPattern
from stoker.metrics.shapes import NOTHING, Metric, Plan, may_have_words, name_of, plan_of

LONGEST_LINE = 16 * 1024
MOST_NAMES = 1000
_BLOCK = 256 * 1024
_FEW = 4  # lines of one shape that are faster taken one by one
_MOST_SHAPES_BYTES = 4 << 20
_LINE_END = re.compile(rb"[\r\n]")
_SHAPE = bytes.maketrans(b"123456789\r", b"000000000\n")
# What a terminal takes as a move elsewhere begins a new line; colours and the like are nothing.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*(?P<final>[@-~])|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])"
    rb"|(?P<back>\x08+)"
)
_MOVES = frozenset(b"ABCDEFGHSTf")

Point = tuple[float | None, float]  # a step, which is None where none was said, and a value


class Points(NamedTuple):
    """Values of one metric, in the order of the output."""

    name: str
    points: list[Point]


class Extractor:
    """Finds the points of one attempt's output; `patterns` are the user's own."""

    def __init__(self, patterns: Sequence[MetricPattern] = ()) -> None:
        self._patterns = patterns
        self._own = frozenset(pattern.name for pattern in patterns)
        self._pending = b""
        self._skips = False  # within a line that is too long
        self._plans: dict[bytes, Plan] = {}
        self._plans_bytes = 0
        self._progress = _Progress()
        # The user's own have their place, however many names come before them.
        self._points: dict[str, list[Point]] = {pattern.name: [] for pattern in patterns}

    def state(self) -> dict[str, Any]:
        """What an extractor has to know that goes on here, as JSON; all points were taken."""
        pending = self._pending.decode("latin-1")
        return {"pending": pending, "skips": self._skips, "progress": self._progress.state()}

    def go_on(self, state: Mapping[str, Any], names: Iterable[str]) -> None:
        """Be as the one was whose state this is, and which had found these names."""
        self._pending, self._skips = state["pending"].encode("latin-1"), state["skips"]
        self._progress.go_on(state["progress"])
        self._points |= {name: [] for name in names if name not in self._points}

    def feed(self, data: bytes) -> list[Points]:
        """The points of all lines that have ended with this piece of the output."""
        for start in range(0, len(data), _BLOCK):
            self._take(data[start : start + _BLOCK])
        return self._found()

    def end(self) -> list[Points]:
        """The points of the last line, if it has no end."""
        last, self._pending = self._pending, b""
        if last:
            self._lines(last)
        return self._found()

    def _found(self) -> list[Points]:
        found = [Points(name, points[:]) for name, points in self._points.items() if points]
        for points in self._points.values():
            points.clear()
        return found

    def _take(self, data: bytes) -> None:
        if self._skips:
            end = _LINE_END.search(data)
            if end is None:
                return
            data, self._skips = data[end.end() :], False
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if cut:
            self._lines(self._pending + data[:cut] if self._pending else data[:cut])
            self._pending = data[cut:]
        else:
            self._pending += data
        if len(self._pending) > LONGEST_LINE:
            self._pending, self._skips = b"", True

    def _lines(self, block: bytes) -> None:
        if b"\r" in block:
            block = block.replace(b"\r", b"\n")
        if b"\x1b" in block or b"\x08" in block:
            # What a move divides is one line still, by which its length is judged.
            block = b"\n".join(
                _SEQUENCE.sub(_cleaned, line)
                for line in block.split(b"\n")
                if len(line) <= LONGEST_LINE
            )
        lines, shapes = block.split(b"\n"), block.translate(_SHAPE).split(b"\n")
        plans = self._plans
        digits_only = not self._patterns and not may_have_words(block)
        at, count = 0, len(lines)
        while at < count:
            shape, start = shapes[at], at
            plan = plans.get(shape)
            at += 1
            if plan is None:
                if digits_only and b"0" not in shape:
                    continue
                plan = self._examined(shape)
            if plan is not NOTHING:
                while at < count and shapes[at] == shape:
                    at += 1
                if at - start < _FEW and not self._patterns:
                    for line in lines[start:at]:
                        self._one(plan, line)
                else:
                    self._alike(plan, lines[start:at])
            elif self._patterns:
                self._alike(plan, lines[start:at])

    def _one(self, plan: Plan, line: bytes) -> None:
        """Take in one line."""
        place = plan.step
        step = self._progress.step(plan, line) if place is None else float(line[place])
        for name, name_at, place, over in plan.metrics:
            value = float(line[place])
            if over is not None:
                value = _ratio(value, float(line[over]))
            self._of(name or name_of(line[name_at])).append((step, value))

    def _alike(self, plan: Plan, lines: list[bytes]) -> None:
        """Take in lines that follow each other and are of one shape."""
        place = plan.step
        steps: list[float | None]
        if place is not None:
            steps = [float(line[place]) for line in lines]
        else:
            steps = [self._progress.step(plan, line) for line in lines]
        for name, name_at, place, over in plan.metrics:
            values = [float(line[place]) for line in lines]
            if over is not None:
                values = [
                    _ratio(n, float(line[over])) for n, line in zip(values, lines, strict=True)
                ]
            if name is not None:
                self._of(name).extend(zip(steps, values, strict=True))
            else:
                for line, step, value in zip(lines, steps, values, strict=True):
                    said = name_of(line[name_at])
                    if said not in self._own:
                        self._of(said).append((step, value))
        for pattern in self._patterns:
            points = self._of(pattern.name)
            for line, step in zip(lines, steps, strict=True):
                for own_step, value in pattern.values(line):
                    points.append((step if own_step is None else own_step, value))

    def _of(self, name: str) -> list[Point]:
        points = self._points.get(name)
        if points is None:
            points = []
            if len(self._points) < MOST_NAMES:
                self._points[name] = points
        return points

    def _examined(self, shape: bytes) -> Plan:
        if len(shape) > LONGEST_LINE:
            return NOTHING
        plan = plan_of(shape)
        if self._own and plan.metrics:
            plan = plan._replace(metrics=tuple(filter(self._is_wanted, plan.metrics)))
        if plan is not NOTHING or b"0" in shape:
            if self._plans_bytes > _MOST_SHAPES_BYTES:
                self._plans.clear()
                self._plans_bytes = 0
            self._plans_bytes += len(shape) + 500 * (1 + len(plan.metrics))
            self._plans[shape] = plan
        return plan

    def _is_wanted(self, metric: Metric) -> bool:
        return metric.name not in self._own


class _Progress:
    """How far the training is, by what its lines say: an epoch is often a line of its own."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._counts_from_one = False
        self._last_done = 0.0
        self._before = 0.0  # steps of earlier bars

    def state(self) -> list[Any]:
        """All that it knows. A number may be nan, which JSON has only as text."""
        epoch = None if self._epoch is None else repr(self._epoch)
        return [epoch, self._counts_from_one, repr(self._last_done), repr(self._before)]

    def go_on(self, state: Sequence[Any]) -> None:
        """Know what was known."""
        epoch, self._counts_from_one, last_done, before = state
        self._epoch = None if epoch is None else float(epoch)
        self._last_done, self._before = float(last_done), float(before)

    def step(self, plan: Plan, line: bytes) -> float | None:
        """The place on the x axis of what such a line says, if it names no step."""
        epoch, from_one = self._epoch, self._counts_from_one
        if plan.epoch is not None:
            epoch, from_one = float(line[plan.epoch]), plan.has_epochs
            if not plan.metrics:
                self._epoch, self._counts_from_one = epoch, from_one
        if plan.done is None or plan.of is None:
            return epoch
        done, of = float(line[plan.done]), float(line[plan.of])
        if epoch is not None:
            return epoch - from_one + _ratio(done, of)
        if done * 2 < self._last_done:  # The next bar has begun; those of several processes differ.
            self._before += self._last_done
        self._last_done = done
        return self._before + done


def _ratio(value: float, of: float) -> float:
    return value / of if of else value


def _cleaned(found: re.Match[bytes]) -> bytes:
    final = found["final"]
    return b"\n" if found["back"] or (final and final[0] in _MOVES) else b""
