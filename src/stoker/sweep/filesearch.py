"""What a sweep file says of a search, in W&B's words: its metric, and when runs are stopped early.

W&B's hyperband stops a run at min_iter, min_iter * eta, min_iter * eta^2 and so on, or at max_iter
divided by powers of eta (`s` of them), unless it is among the best 1/eta there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.errors import UsageError
from stoker.quantities import quoted

_USUAL_ETA = 3
_GOALS = {"minimize": "min", "maximize": "max"}


@dataclass(frozen=True, slots=True)
class FileMetric:
    """What is searched for."""

    name: str
    goal: str  # min or max
    target: float | None  # good enough


@dataclass(frozen=True, slots=True)
class Hyperband:
    """When runs are stopped early."""

    min_steps: int
    max_steps: int | None
    eta: int
    without_effect: tuple[str, ...]  # keys that change nothing here


def metric(said: object) -> FileMetric:
    """What `metric` says."""
    if not isinstance(said, Mapping) or not isinstance(said.get("name"), str) or not said["name"]:
        raise UsageError(
            "the method bayes needs a metric", "write metric: {name: val_loss, goal: minimize}"
        )
    _refuse_unknown("metric", said, ("name", "goal", "target"))
    goal, target = said.get("goal", "minimize"), said.get("target")
    if goal not in _GOALS:
        raise UsageError(f"metric: there is no goal {quoted(str(goal))}", "minimize or maximize")
    if target is not None and (isinstance(target, bool) or not isinstance(target, int | float)):
        raise UsageError(f"metric: the target {quoted(str(target))} is no number", "e.g. 0.3")
    return FileMetric(said["name"], _GOALS[goal], None if target is None else float(target))


def hyperband(said: object) -> Hyperband:
    """What `early_terminate` says."""
    kind = said.get("type") if isinstance(said, Mapping) else None
    if not isinstance(said, Mapping) or kind != "hyperband":
        raise UsageError(
            f"early_terminate: there is no type {quoted(str(kind))}",
            "write early_terminate: {type: hyperband, min_iter: 3}",
        )
    _refuse_unknown("early_terminate", said, ("type", "min_iter", "max_iter", "s", "eta", "strict"))
    eta = _count(said, "eta", 2) or _USUAL_ETA
    least, most, brackets = (_count(said, key) for key in ("min_iter", "max_iter", "s"))
    if least is None and most is None:
        raise UsageError("early_terminate: it has neither min_iter nor max_iter", "write min_iter")
    if least is None:
        least = 1 if brackets is None or most is None else max(1, most // eta ** min(brackets, 64))
    elif brackets is not None:
        raise UsageError("early_terminate: s is about max_iter", "leave out s or min_iter")
    if most is not None and most < least:
        raise UsageError("early_terminate: max_iter is less than min_iter", "write the larger one")
    return Hyperband(least, most, eta, ("early_terminate.strict",) if said.get("strict") else ())


def _refuse_unknown(what: str, said: Mapping[Any, Any], known: tuple[str, ...]) -> None:
    for key in said:
        if key not in known:
            hint = f"the keys are {', '.join(known)}"
            raise UsageError(f"{what}: there is no key {quoted(str(key))}", hint)


def _count(said: Mapping[Any, Any], key: str, lowest: int = 1) -> int | None:
    value = said.get(key)
    if value is None:
        return None
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    if isinstance(value, bool) or not (isinstance(value, int) or whole) or value < lowest:
        raise UsageError(
            f"early_terminate: {key}: {quoted(str(value))} is not a whole number of at least "
            f"{lowest}", f"write e.g. {key}: 3",
        )  # fmt: skip
    return int(value)
