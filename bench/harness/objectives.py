"""Functions that a search is tried on: two well-known ones, and learning curves with noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Params = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Between:
    """A parameter between two bounds."""

    name: str
    low: float
    high: float
    log: bool = False

    @property
    def word(self) -> str:
        """As `stoker sweep` is given it."""
        return f"{self.name}={'log' * self.log}uniform({self.low!r},{self.high!r})"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be minimized."""

    space: tuple[Between, ...]
    least: float  # that there is
    value: Callable[[Params], float]  # how good a point is, without noise
    curve: Callable[[Params, random.Random], list[float]]  # what a run reports, step by step


def branin(_: int) -> Problem:
    """Two parameters, three places that are equally good."""

    def value(at: Params) -> float:
        x, y = at["x"], at["y"]
        bowl = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
        return bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10

    space = (Between("x", -5.0, 10.0), Between("y", 0.0, 15.0))
    return Problem(space, 0.39788735772973816, value, lambda at, _: [value(at)])


_WEIGHTS = (1.0, 1.2, 3.0, 3.2)
_STEEP = (
    (10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14),
)  # fmt: skip
_PLACES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann6(_: int) -> Problem:
    """Six parameters, six hollows of which one is the deepest."""

    def value(at: Params) -> float:
        x = list(at.values())
        found = 0.0
        for weight, steep, place in zip(_WEIGHTS, _STEEP, _PLACES, strict=True):
            away = sum(a * (b - p) ** 2 for a, b, p in zip(steep, x, place, strict=True))
            found -= weight * math.exp(-away)
        return found

    space = tuple(Between(f"x{n}", 0.0, 1.0) for n in range(6))
    return Problem(space, -3.32237, value, lambda at, _: [value(at)])


STEPS = 27
_NOISE = 0.01


def learning_curves(seed: int) -> Problem:
    """A training with four parameters, which reports its validation loss after each step.

    What is best differs by seed. A small learning rate learns slowly, and may end better than what
    was ahead of it for long; so does a high dropout.
    """
    chance = random.Random(seed)
    best_lr, best_decay = chance.uniform(-3.5, -2.0), chance.uniform(-5.0, -3.0)
    best_width, best_dropout = chance.uniform(0.3, 0.9), chance.uniform(0.1, 0.4)

    def value(at: Params) -> float:
        lr = math.log10(at["lr"]) - best_lr + (at["width"] - best_width)
        decay = math.log10(at["decay"]) - best_decay
        away = 0.12 * lr**2 + 0.02 * decay**2
        away += 0.4 * (at["width"] - best_width) ** 2 + 0.6 * (at["dropout"] - best_dropout) ** 2
        return 0.2 + 2 * away / (1 + away)  # the loss of what has learned nothing is bounded

    def curve(at: Params, chance: random.Random) -> list[float]:
        final = value(at)
        pace = min(1.6, max(0.4, 1.6 + 0.25 * (math.log10(at["lr"]) + 1) - at["dropout"] / 2))
        to_learn = max(0.0, 2.3 - final)
        last = STEPS**-pace
        return [
            final + to_learn * (step**-pace - last) + chance.gauss(0, _NOISE)
            for step in range(1, STEPS + 1)
        ]

    space = (
        Between("lr", 1e-5, 1e-1, log=True), Between("decay", 1e-6, 1e-2, log=True),
        Between("width", 0.0, 1.0), Between("dropout", 0.0, 0.6),
    )  # fmt: skip
    return Problem(space, 0.2, value, curve)


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "Branin": branin,
    "Hartmann-6": hartmann6,
    "learning curves": learning_curves,
}
