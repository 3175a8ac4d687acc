"""Results as plain columns: what CSV and a data frame have, by the same names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stoker.metrics.results import Result, ResultTable

_OWN = ("id", "ids", "best", "state", "run_time_s", "gpus", "runs", "name")


def columns_of(table: ResultTable, rows: Sequence[Result]) -> dict[str, list[Any]]:
    """Each column by its title, with None where there is nothing.

    Of a metric there are `loss` (its last value), `loss_best` and `loss_best_step`, and of repeats
    `loss_spread` and `loss_best_spread`. A parameter that has the name of another column is
    called `param_NAME`, and a metric that has the name of a parameter `metric_NAME`.
    """
    columns: dict[str, list[Any]] = {"id": [row.id for row in rows]}
    columns["state"] = [row.state for row in rows]
    if table.objectives:
        columns["best"] = [row.is_best for row in rows]
    if not table.varied:
        columns["name"] = [row.name for row in rows]
    for name in table.varied:
        title = _free(f"param_{name}" if name in _OWN else name, columns)
        columns[title] = [row.params.get(name) for row in rows]
    if table.repeat is not None:
        columns["runs"] = [len(row.ids) for row in rows]
    columns["run_time_s"] = [row.run_time_s for row in rows]
    columns["gpus"] = [",".join(row.gpus) for row in rows]
    for name in table.metrics:
        figures = [row.metrics[name] for row in rows]
        title = _free(f"metric_{name}" if name in columns or name in _OWN else name, columns)
        parts = ["last", "best", "best_step"]
        if table.repeat is not None:
            parts = ["last", "last_spread", "best", "best_spread", "best_step"]
        for part in parts:
            values = [getattr(figure, part) for figure in figures]
            if part == "last" or any(value is not None for value in values):
                own = title if part == "last" else f"{title}_{part.removeprefix('last_')}"
                columns[_free(own, columns)] = values
    return columns


def _free(title: str, columns: dict[str, list[Any]]) -> str:
    """A title that no column has yet: hostile names may be made to collide."""
    while title in columns:
        title += "_"
    return title


def as_json(table: ResultTable, rows: Sequence[Result]) -> dict[str, Any]:
    """Results for JSON, with nan and inf as text."""
    return {
        "varied": table.varied,
        "metrics": table.metrics,
        "objectives": [{"metric": one.name, "goal": one.goal} for one in table.objectives],
        "repeat": table.repeat,
        "results": [row_as_json(row) for row in rows],
    }


def row_as_json(row: Result) -> dict[str, Any]:
    """One row of them."""
    return {
        "id": row.id,
        "ids": row.ids,
        "name": row.name,
        "state": row.state,
        "best": row.is_best,
        "params": row.params,
        "run_time_s": row.run_time_s,
        "gpus": row.gpus,
        "metrics": {
            name: {
                "goal": figure.goal,
                "runs": figure.runs,
                "last": said(figure.last),
                "last_spread": said(figure.last_spread),
                "best": said(figure.best),
                "best_spread": said(figure.best_spread),
                "best_step": said(figure.best_step),
            }
            for name, figure in row.metrics.items()
        },
    }


def said(number: float | None) -> float | str | None:
    """A number for JSON, which has no nan and no inf."""
    return number if number is None or math.isfinite(number) else repr(number)
