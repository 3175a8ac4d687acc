"""The best point of a sweep, for the message of its end: what `stoker results` would say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.errors import StokerError
from stoker.metrics.gathering import Sources, metrics_of, runs_of_sweep
from stoker.metrics.results import Objective, Result, only_objective, tabulate

_PATIENCE_S = 120.0  # for logs that were not read yet


class _TookTooLong(StokerError):
    pass


def best_point(sweep: str) -> str:
    """The best value with its point; nothing if no metric, or more than one, tells which is best.

    Of several goals of a search it is how many points are on the Pareto front. Neither is there one
    without the daemon, which may have been killed: the message comes anyway.
    """
    until_s = time.monotonic() + _PATIENCE_S

    def waiting(_: int) -> None:
        if time.monotonic() > until_s:
            raise _TookTooLong("the logs were not read in time")

    try:
        with Client(Home.from_environment(), autostart=False) as client:
            runs, repeat, goals = runs_of_sweep(client.call, sweep)
            metrics = metrics_of(client.call, {"group": sweep}, Sources(), waiting)
        for run in runs:
            run.metrics = metrics.get(run.id, {})
        names = list(dict.fromkeys(name for run in runs for name in run.metrics))
        wanted = goals or [only_objective(names)]
        front = tabulate(runs, wanted, repeat=repeat).best
    except (StokerError, OSError, ValueError):
        return ""
    return _text(front, wanted)


def _text(front: Sequence[Result], wanted: Sequence[Objective]) -> str:
    if not front:
        return ""
    if len(wanted) > 1:
        points = "1 point" if len(front) == 1 else f"{len(front)} points"
        return f"Pareto front of {', '.join(one.name for one in wanted)}: {points}"
    [best], [objective] = front, wanted
    figure = best.metrics[objective.name]
    of = f" (mean of {len(best.ids)} runs)" if len(best.ids) > 1 else ""
    point = ", ".join(f"{name}={_said(value)}" for name, value in best.params.items())
    return f"best: {objective.name} {figure.best:.6g}{of}, job {best.id}: {point}"


def _said(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
