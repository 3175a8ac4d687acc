"""What was measured, what must be reached, and whether it is: values only.

A measure is shown by its `value`. What is compared with earlier results is `compared`: a ratio to
something that was measured in the same minutes, so that a slower machine does not look like a
slower Stoker.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 2


@dataclass(frozen=True, slots=True)
class Goal:
    """A value that is to be reached."""

    limit: float
    at_least: bool = False  # else at most

    def met(self, value: float) -> bool:
        """Whether that value reaches it."""
        return value >= self.limit if self.at_least else value <= self.limit

    def text(self, unit: str) -> str:
        """As in `≤ 1.6 x`."""
        return f"{'≥' if self.at_least else '≤'} {amount(self.limit, unit)}"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number, with its spread over the rounds."""

    name: str
    value: float  # the median
    unit: str
    least: float
    most: float
    samples: tuple[float, ...] = ()
    compared: float | None = None  # None: a peer's, or one that says nothing about Stoker
    more_is_better: bool = False
    slack: float = 0.0  # a change of `value` that is smaller is noise, whatever part it is
    must: Goal | None = None
    aim: Goal | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether what must be reached is; None if nothing must."""
        return None if self.must is None else self.must.met(self.value)


def measure(
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    yardstick: float | None = None,
    ours: bool = True,
    **more: Any,
) -> Measure:
    """The median of the samples and their spread.

    A `yardstick` (measured beside) makes a ratio of a value that is none: that is compared.
    """
    value = statistics.median(samples)
    compared = None
    if ours:
        compared = value if yardstick is None else value / yardstick
    return Measure(
        name,
        rounded(value),
        unit,
        rounded(min(samples)),
        rounded(max(samples)),
        tuple(rounded(one) for one in samples),
        None if compared is None else rounded(compared),
        **more,
    )


@dataclass(slots=True)
class Report:
    """What one row of the table came to."""

    row: str
    what: str
    measures: list[Measure]
    left_out: dict[str, str] = field(default_factory=dict)  # peers, and why
    curves: dict[str, list[list[float]]] = field(default_factory=dict)  # for a picture: points
    machine: dict[str, Any] = field(default_factory=dict)
    quick: bool = False


def rounded(number: float) -> float:
    """Four digits that count: more would be noise."""
    return float(f"{number:.4g}")


def amount(number: float, unit: str) -> str:
    """A number with its unit, as people write it."""
    if unit == "x":
        return f"{number:.2f} x"
    if unit in ("jobs/s", "B", "calls/s"):
        return f"{number:,.0f} {unit}"
    digits = 0 if abs(number) >= 1000 else 1 if abs(number) >= 100 else 2
    return f"{number:,.{digits}f} {unit}"


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that so many percent of all do not exceed."""
    ordered = sorted(samples)
    at = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, min(len(ordered) - 1, int(at) - 1))]


def beside_value(one: Measure, yes: str, missed: str, no: str) -> tuple[str, str, str]:
    """Its spread, what must be reached and what is aimed at, each with whether it is."""
    spread = must = aim = ""
    if one.least != one.most:
        spread = f"{amount(one.least, '').strip()} … {amount(one.most, '').strip()}"
    if one.must is not None:
        must = f"{one.must.text(one.unit)}{yes if one.met else missed}"
    if one.aim is not None:
        aim = f"{one.aim.text(one.unit)}{yes if one.aim.met(one.value) else no}"
    return spread, must, aim
