"""The axes of a parameter space: listed values (one parameter, or several paired), or draws."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.sweep.values import Value

MOST_VALUES = 1_000_000
_DRAWN_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Listed:
    """Values that are known beforehand; each row has one value for each of the names."""

    names: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def listed(names: Sequence[str], rows: Sequence[Sequence[Value]]) -> Listed:
    """An axis of these rows; what is there twice is taken once."""
    if not rows:
        raise UsageError(f"{names[0]} has no values", f"write e.g. {names[0]}=1,2")
    if len(rows) > MOST_VALUES:
        raise UsageError(f"{names[0]} has {len(rows)} values", f"at most {MOST_VALUES}")
    distinct = {tuple(value.key for value in row): tuple(row) for row in reversed(rows)}
    return Listed(tuple(names), tuple(reversed(distinct.values())))


@dataclass(frozen=True, slots=True)
class Drawn:
    """Values that are drawn from a distribution; one random number makes one draw."""

    name: str
    distribution: Distribution

    @property
    def names(self) -> tuple[str, ...]:
        """The one name, for symmetry with `Listed`."""
        return (self.name,)


Axis = Listed | Drawn


@dataclass(frozen=True, slots=True)
class Numbers:
    """A distribution of numbers: a shape between two bounds, or around a middle.

    The bounds of the logarithmic shapes are the values themselves, never their exponents.
    """

    shape: Literal["uniform", "log", "inverse-log", "normal", "log-normal", "beta"]
    a: float  # the lower bound, the mean, or beta's first parameter
    b: float  # the upper bound, the standard deviation, or beta's second
    whole: bool = False  # whole numbers, both bounds included
    step: float | None = None  # multiples of this only

    def at(self, rng: random.Random) -> Value:
        """One draw."""
        if self.whole:
            low, high = int(self.a), int(self.b)
            # random() alone is promised to stay the same in later versions of Python.
            number = low + min(int(rng.random() * (high - low + 1)), high - low)
            return Value(number, str(number))
        return self.near(self._between(rng))

    def near(self, x: float) -> Value:
        """The number as it is written in commands: whole, a multiple of the step, or readable."""
        if self.whole:
            return Value(round(x), str(round(x)))
        if self.step is not None:
            steps = round(x / self.step)
            x = steps * self.step
            if float(self.step).is_integer() and abs(x) < 1e15:
                return Value(int(x), str(int(x)))
            # 3 * 0.1 is meant to be 0.3.
            x = float(f"{x:.12g}")
            return Value(x, repr(x))
        x = self._readable(x)
        return Value(x, repr(x))

    def _between(self, rng: random.Random) -> float:
        a, b = self.a, self.b
        match self.shape:
            case "uniform":
                return a + (b - a) * rng.random()
            case "log":
                return math.exp(math.log(a) + (math.log(b) - math.log(a)) * rng.random())
            case "inverse-log":
                # Dense near the upper bound where the logarithmic one is near the lower.
                low, high = math.log(1 / b), math.log(1 / a)
                return 1 / math.exp(low + (high - low) * rng.random())
            case "normal" | "log-normal":
                from statistics import NormalDist  # It is slow to import, and rarely needed.

                x = NormalDist(a, b).inv_cdf(rng.random() or 0.5)
                return x if self.shape == "normal" else math.exp(x)
            case "beta":
                return rng.betavariate(a, b)

    def _readable(self, x: float) -> float:
        """Six digits of the width of the range: commands and names stay readable."""
        digits = _DRAWN_DIGITS
        if self.shape not in ("log-normal", "beta"):
            width = self.b if self.shape == "normal" else self.b - self.a
            largest = max(abs(self.a), abs(self.b), abs(x))
            digits += max(0, math.floor(math.log10(largest / width)))
        rounded = float(f"{x:.{min(digits, 17)}g}")
        if self.shape in ("uniform", "log", "inverse-log"):
            return min(max(rounded, self.a), self.b)
        return rounded


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values, each as likely as its weight."""

    values: tuple[Value, ...]
    weights: tuple[float, ...] | None = None

    def at(self, rng: random.Random) -> Value:
        """One draw."""
        if self.weights is None:
            return self.values[min(int(rng.random() * len(self.values)), len(self.values) - 1)]
        sums = list(accumulate(self.weights))
        place = bisect_right(sums, rng.random() * sums[-1])
        return self.values[min(place, len(self.values) - 1)]


Distribution = Numbers | Choice


def uniform(name: str, low: float, high: float, step: float | None = None) -> Drawn:
    """Every number between two bounds alike."""
    _require_bounds(name, low, high)
    return Drawn(name, Numbers("uniform", low, high, step=_step(name, step)))


def log_uniform(
    name: str, low: float, high: float, step: float | None = None, *, inverse: bool = False
) -> Drawn:
    """Every order of magnitude between two bounds alike."""
    if low <= 0:
        raise UsageError(
            f"{name}: {low:g} has no logarithm",
            "the bounds are the values themselves, not exponents, e.g. loguniform(1e-6,1e-2)",
        )
    _require_bounds(name, low, high)
    shape: Literal["log", "inverse-log"] = "inverse-log" if inverse else "log"
    return Drawn(name, Numbers(shape, low, high, step=_step(name, step)))


def whole_numbers(name: str, low: float, high: float) -> Drawn:
    """Whole numbers, both bounds included."""
    for bound in (low, high):
        if not float(bound).is_integer():
            raise UsageError(f"{name}: {bound:g} is not a whole number", "use uniform instead")
    if low > high:
        raise UsageError(f"{name}: {low:g} is more than {high:g}", "write the lower bound first")
    if high - low >= 2**52:
        raise UsageError(f"{name}: the bounds are too far apart", "use uniform instead")
    return Drawn(name, Numbers("uniform", low, high, whole=True))


def normal(
    name: str, mean: float, deviation: float, step: float | None = None, *, log: bool = False
) -> Drawn:
    """The bell curve around a mean; with `log`, of the logarithm."""
    if deviation <= 0 or not math.isfinite(mean) or not math.isfinite(deviation):
        raise UsageError(
            f"{name}: {deviation:g} is not a standard deviation", "write normal(MEAN,DEVIATION)"
        )
    shape: Literal["normal", "log-normal"] = "log-normal" if log else "normal"
    return Drawn(name, Numbers(shape, mean, deviation, step=_step(name, step)))


def beta(name: str, a: float, b: float, step: float | None = None) -> Drawn:
    """The beta distribution, between 0 and 1."""
    if a <= 0 or b <= 0:
        raise UsageError(f"{name}: the parameters of beta must be above 0", "e.g. a: 2, b: 5")
    return Drawn(name, Numbers("beta", a, b, step=_step(name, step)))


def choice(name: str, values: Sequence[Value], weights: Sequence[float] | None = None) -> Drawn:
    """One of some values."""
    if not values:
        raise UsageError(f"{name} has no values", "write e.g. choice(a,b)")
    if weights is not None:
        bad = len(weights) != len(values) or not all(0 <= w < math.inf for w in weights)
        if bad or sum(weights) <= 0:
            raise UsageError(
                f"{name}: the probabilities don't fit the values", "write one for each value"
            )
        return Drawn(name, Choice(tuple(values), tuple(weights)))
    return Drawn(name, Choice(tuple(values)))


def _require_bounds(name: str, low: float, high: float) -> None:
    if not math.isfinite(low) or not math.isfinite(high) or not low < high:
        raise UsageError(
            f"{name}: {low:g} to {high:g} is not a range", "write the lower bound first"
        )


def _step(name: str, step: float | None) -> float | None:
    if step is not None and not 0 < step < math.inf:
        raise UsageError(f"{name}: {quoted(f'{step:g}')} is not a step", "write e.g. q: 0.1")
    return step
