"""A search in a W&B sweep file: `method: bayes`, `metric` and `early_terminate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.errors import UsageError
from stoker.search.spec import Objective
from stoker.search.stopping import Stopping
from stoker.sweep import filesearch
from stoker.sweep.axes import Axis, Choice, Drawn, Listed
from stoker.sweep.points import Space
from stoker.sweep.sweepfile import SweepFile


@dataclass(frozen=True, slots=True)
class OfFile:
    """What a file says of a search, as far as it was not said otherwise."""

    objectives: Sequence[Objective]
    until: str | None
    stopping: Stopping | None
    ignored: Sequence[str]
    is_bayes: bool

    def choosable(self, space: Space) -> Space:
        """The space with a choice for each list of values, as `bayes` takes them."""
        if not self.is_bayes:
            return space
        return replace(space, axes=tuple(_choice(axis) for axis in space.axes))


def read_file(file: SweepFile, path: str, *, has_goal: bool) -> OfFile:
    """What the file says; with a goal of the user's own, that of the file has no effect."""
    try:
        return _read(file, has_goal)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from None


def _read(file: SweepFile, has_goal: bool) -> OfFile:
    ignored = list(file.without_effect)
    objectives: list[Objective] = []
    until = stopping = None
    if has_goal:
        ignored += ["metric"] if "metric" in file.of_search else []
    else:
        wanted = filesearch.metric(file.of_search.get("metric"))
        objectives = [Objective(wanted.name, "max" if wanted.goal == "max" else "min")]
        if wanted.target is not None:
            until = f"{wanted.name} {'<' if wanted.goal == 'min' else '>'} {wanted.target!r}"
    if "early_terminate" in file.of_search:
        said = filesearch.hyperband(file.of_search["early_terminate"])
        stopping = Stopping("hyperband", said.min_steps, said.max_steps, said.eta)
        ignored += said.without_effect
    return OfFile(objectives, until, stopping, sorted(ignored), file.is_search)


def _choice(axis: Axis) -> Axis:
    if not isinstance(axis, Listed) or len(axis.names) > 1 or len(axis.rows) == 1:
        return axis
    return Drawn(axis.names[0], Choice(tuple(row[0] for row in axis.rows)))
