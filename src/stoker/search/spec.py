"""What a search is, as front ends ask for it and the daemon keeps it.

The daemon only keeps it: it is written by a front end and read by the searcher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stoker.errors import UsageError, quoted
from stoker.search.stopping import Stopping
from stoker.search.stopping import from_wire as stopping_from
from stoker.sweep.axes import Axis, Choice, Drawn, Listed, Numbers
from stoker.sweep.points import Repeat, Space
from stoker.sweep.template import Style
from stoker.sweep.values import Value

Goal = Literal["min", "max"]
MOST_TRIALS = 1_000_000
FIRST_FAILED = 8  # trials, if none has ended well, after which a search is given up
FIRST_WITHOUT_VALUE = 3  # succeeded points without a value, after which a search is given up


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric, and whether the least or the most of it is wanted."""

    name: str
    goal: Goal

    def is_met(self, value: float, bound: float) -> bool:
        """Whether a value is at least as good."""
        return value <= bound if self.goal == "min" else value >= bound


@dataclass(frozen=True, slots=True)
class Ends:
    """When a search is over; what comes first."""

    samples: int | None = None  # so many trials
    at_ms: int | None = None  # no trial is begun after that
    until: tuple[str, float] | None = None  # an objective is at least as good as that


@dataclass(frozen=True, slots=True)
class Search:
    """All that a searcher has to know."""

    name: str
    space: Space
    objectives: tuple[Objective, ...]
    ends: Ends
    sampler: str
    seed: int
    max_running: int | None
    words: tuple[str, ...]
    style: Style
    files: Mapping[str, str]
    request: Mapping[str, Any]  # a submission without its jobs
    shared: Mapping[str, Any]  # a job as far as all of them are alike
    where: tuple[str, ...] = ()  # conditions that points have to fulfil
    stopping: Stopping | None = None
    since: int = 0  # trials that were made before it was begun, or gone on with
    begun: int = 0  # how often it has begun anew, after its points were removed

    @property
    def repeats(self) -> int:
        """How many jobs a trial is."""
        return 1 if self.space.repeat is None else self.space.repeat.count

    @property
    def most_trials(self) -> int:
        """How many trials there may be, also if that was not said."""
        return self.ends.samples or MOST_TRIALS // self.repeats

    def to_wire(self) -> dict[str, Any]:
        """As it is kept."""
        repeat = self.space.repeat
        return {
            "axes": axes_to_wire(self.space.axes),
            "objectives": [[one.name, one.goal] for one in self.objectives],
            "samples": self.ends.samples,
            "ends_at_ms": self.ends.at_ms,
            "until": self.ends.until,
            "sampler": self.sampler,
            "seed": self.seed,
            "max_running": self.max_running,
            "words": list(self.words),
            "style": self.style,
            "files": dict(self.files),
            "request": dict(self.request),
            "shared": dict(self.shared),
            "where": list(self.where),
            "repeat": None if repeat is None else [repeat.name, repeat.count],
            "stopping": None if self.stopping is None else self.stopping.to_wire(),
            "since": self.since,
            "begun": self.begun,
        }


def from_wire(name: str, kept: Mapping[str, Any]) -> Search:
    """What `to_wire` has made."""
    until, repeat = kept["until"], kept.get("repeat")
    axes = tuple(_axis(one) for one in kept["axes"])
    return Search(
        name,
        Space(axes, None if repeat is None else Repeat(*repeat)),
        tuple(Objective(*one) for one in kept["objectives"]),
        Ends(kept["samples"], kept["ends_at_ms"], None if until is None else (until[0], until[1])),
        kept["sampler"],
        kept["seed"],
        kept["max_running"],
        tuple(kept["words"]),
        kept["style"],
        kept["files"],
        kept["request"],
        kept["shared"],
        tuple(kept.get("where", ())),
        stopping_from(kept.get("stopping")),
        kept.get("since", 0),
        kept.get("begun", 0),
    )


def axes_to_wire(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """A space as it is kept; equal for equal spaces."""
    return [_axis_to_wire(axis) for axis in axes]


def _axis_to_wire(axis: Axis) -> dict[str, Any]:
    if isinstance(axis, Listed):
        rows = [[[value.data, value.text] for value in row] for row in axis.rows]
        return {"names": list(axis.names), "rows": rows}
    drawn = axis.distribution
    if isinstance(drawn, Choice):
        values = [[value.data, value.text] for value in drawn.values]
        return {"name": axis.name, "values": values, "weights": drawn.weights}
    numbers = [drawn.shape, drawn.a, drawn.b, drawn.whole, drawn.step]
    return {"name": axis.name, "numbers": numbers}


def _axis(kept: Mapping[str, Any]) -> Axis:
    if "rows" in kept:
        rows = tuple(tuple(Value(*value) for value in row) for row in kept["rows"])
        return Listed(tuple(kept["names"]), rows)
    if "values" in kept:
        weights = kept["weights"]
        values = tuple(Value(*value) for value in kept["values"])
        return Drawn(kept["name"], Choice(values, None if weights is None else tuple(weights)))
    return Drawn(kept["name"], Numbers(*kept["numbers"]))


def until_of(text: str, objectives: Sequence[Objective]) -> tuple[str, float]:
    """`--until 'val_loss < 0.3'`: an objective, and how good it has to be."""
    for sign, goal in (("<=", "min"), ("<", "min"), (">=", "max"), (">", "max")):
        name, found, bound = text.partition(sign)
        if not found:
            continue
        wanted = [one for one in objectives if one.name == name.strip()]
        if not wanted:
            raise UsageError(
                f"--until: {quoted(name.strip())} is not what is searched for",
                f"name {' or '.join(one.name for one in objectives)}",
            )
        if wanted[0].goal != goal:
            less = "least" if wanted[0].goal == "min" else "most"
            raise UsageError(
                f"--until: the {less} of {name.strip()} is wanted, so {quoted(text)} is no end",
                f"write {'<' if wanted[0].goal == 'min' else '>'}",
            )
        try:
            number = float(bound)
        except ValueError:
            break
        if number - number == 0:
            return wanted[0].name, number
        break
    raise UsageError(f"--until: {quoted(text)} is no condition", "write e.g. --until 'loss < 0.3'")
