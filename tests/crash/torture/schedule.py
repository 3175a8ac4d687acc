"""What is done when: a list of steps that follows from the seed alone.

Law: pure. Each step has a seed of its own for what it decides when its time has come, so that what
one step meets does not change what the next ones do.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

# Of each hundred steps or so, this many.
WEIGHTS = {
    # Jobs, by front end.
    "add": 9.0,
    "run": 4.0,
    "run-cancel": 5.0,
    "sweep": 2.0,
    "batch": 2.0,
    "feed": 2.5,
    "http": 4.0,
    "library": 1.0,
    "warm": 1.5,
    "cancel": 7.0,
    "follow": 9.0,
    # Signals that can't be caught.
    "kill-daemon": 15.0,
    "kill-starting": 4.0,
    "kill-both": 2.0,
    "kill-keeper": 2.0,
    "kill-client": 22.0,
    "kill-page": 4.0,
    "stop-daemon": 2.0,
    "stop-keeper": 1.0,
    "stop-client": 4.0,
    "stop-page": 0.5,
    # Shortages.
    "full-disk": 1.0,
    "inodes": 1.0,
    "failing-writes": 2.0,
    "failing-forks": 1.5,
    "few-files": 1.5,
}
# What jobs may be like, beside plain ones.
SHAPES = frozenset((
    "shares", "memory", "several-gpus", "cpus", "dependencies", "retries", "time-limits", "groups",
    "children", "run-children", "leavers", "stubborn", "run-limits",
))  # fmt: skip
CLASSES = frozenset(WEIGHTS) | SHAPES

# A storm kills; in the calm between, jobs run, and are cancelled, stopped and starved.
_STEPS_A_SECOND = {"storm": 13.0, "calm": 5.0}
_LASTS_S = {"storm": (2.0, 5.0), "calm": (2.0, 7.0)}
_KILLS_IN_CALM = 0.12  # of those in a storm


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do."""

    at_s: float
    what: str
    seed: int


def schedule(seed: int, seconds: float, without: Collection[str] = ()) -> list[Step]:
    """All steps of a run. A class that is left out does not change when the others come."""
    chance = random.Random(seed)
    names = list(WEIGHTS)
    weights = {
        "storm": list(WEIGHTS.values()),
        "calm": [w * (_KILLS_IN_CALM if n.startswith("kill") else 1) for n, w in WEIGHTS.items()],
    }
    steps: list[Step] = []
    at_s, ends_s, weather = 0.0, 0.0, "storm"
    while True:
        if at_s >= ends_s:
            weather = "calm" if weather == "storm" else "storm"
            ends_s = at_s + chance.uniform(*_LASTS_S[weather])
        at_s += chance.expovariate(_STEPS_A_SECOND[weather])
        if at_s >= seconds:
            return steps
        step = Step(at_s, chance.choices(names, weights[weather])[0], chance.randrange(2**32))
        if step.what not in without:
            steps.append(step)
