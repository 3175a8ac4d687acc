"""A sweep's points with parameters and metrics, which is best, and which parameters matter.

Pure: made of what the daemon has found, in the page's own process. What is said of many points is
in columns; names are values, never keys, so that no name can be anything else in a browser.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from stoker.metrics.asking import Summary, summary
from stoker.metrics.gathering import runs_in
from stoker.metrics.importance import importances
from stoker.metrics.names import goal_of, in_likely_order
from stoker.metrics.overlay import likely
from stoker.metrics.result_columns import said
from stoker.metrics.results import Objective, Result, ResultTable, Run, mean, spread, tabulate
from stoker.text.searches import search_text
from stoker.web.bodies import SweepResultsQuestion
from stoker.web.deltas import change

Answer = dict[str, Any]
Numbers = list[float | None]

_PARTS: tuple[tuple[str, Callable[[Summary], float | None]], ...] = (
    ("last", lambda one: one.last), ("min", lambda one: one.min), ("max", lambda one: one.max),
)  # fmt: skip
# What is not said again if it has not changed since it was last asked for.
_LONG = ("columns", "params", "metrics", "importance")


def answer(found: Answer, read: Answer, question: SweepResultsQuestion) -> Answer:
    """What is asked, of the daemon's table of the sweep and the metrics of its jobs."""
    runs = {run.id: run for run in runs_in(found)}
    for row in read["rows"]:
        if row["job"] in runs:
            runs[row["job"]].metrics[row["name"]] = summary(row)
    names = Counter(name for run in runs.values() for name in run.metrics)
    question = _settled(question, names, found)
    table = _table(list(runs.values()), found, question, names)
    rows, varied = sorted(table.rows, key=lambda row: row.ids[0]), table.varied
    figures = {
        name: _figures([[runs[job_id] for job_id in row.ids] for row in rows], name)
        for name in names
        if question.all or name == question.metric
    }
    columns = _columns(rows, found["columns"])
    shown = _shown(columns, figures, question)
    front = [place for place, row in enumerate(rows) if row.is_best]
    search = found.get("search")
    judged = importances([row.params for row in rows], shown, varied)
    content = {
        "sweep": question.name,
        "total": found["total"],
        "counts": found["counts"],
        "varied": varied,
        "repeat": found.get("repeat"),
        "metric": question.metric,
        "goal": question.goal,
        "unread": read["unread"],
        "warnings": read.get("warnings", []),
        "columns": columns,
        "params": [_param(rows, name) for name in varied],
        "metrics": [
            {"name": name, "goal": goal_of(name)}
            | {part: [said(one) for one in of] for part, of in figures.get(name, {}).items()}
            for name in in_likely_order(names)
        ],
        # Of several objectives none is the best, but those on the front are better than the rest.
        "best": front[0] if front and len(table.objectives) == 1 else None,
        "front": front,
        "objectives": [one.name for one in table.objectives],
        "so_far": not table.is_settled,
        "why_no_best": table.why_no_best,
        "search": None if search is None else search_text(search),
        "searching": search is not None and search["state"] == "running",
        "importance": [{"name": one.name, "share": one.share} for one in judged.of],
        "judged_by": judged.points,
        "rough": judged.is_rough,
    }
    version = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:20]
    return {**content, "version": version, "changed": True, "delta": None}


def unless_known(content: Answer, known: str | None, before: Answer | None = None) -> Answer:
    """The same without its long parts if the one who asks has them.

    If what the one who asks has is `before`, it is told how its long parts have changed since.
    """
    if content["version"] != known and before is None:
        return content
    told = {**content, **{name: type(content[name])() for name in _LONG}}
    if before is None or content["version"] == known:
        return {**told, "changed": False}
    long = [{name: answer[name] for name in _LONG} for answer in (before, content)]
    return {**told, "delta": change(*long)}


def _settled(
    question: SweepResultsQuestion, names: Mapping[str, int], found: Answer
) -> SweepResultsQuestion:
    """The same with a goal for its metric, and with the likely metric if that is wanted."""
    objectives = (found.get("search") or {}).get("objectives", ())
    metric = question.metric
    if metric is None and question.likely:
        metric = likely(names, objectives)
    goal = None
    if metric is not None:
        goal = question.goal or dict(objectives).get(metric) or goal_of(metric) or "min"
    return msgspec.structs.replace(question, metric=metric, goal=goal)


def _table(
    runs: Sequence[Run], found: Answer, question: SweepResultsQuestion, names: Mapping[str, int]
) -> ResultTable:
    """One row per point, repeats put together and the best marked as `stoker results` does."""
    wanted = _objectives(question, found, names)
    repeat = None if question.single else found.get("repeat")
    return tabulate(runs, wanted, repeat=repeat, names=[one.name for one in wanted])


def _objectives(
    question: SweepResultsQuestion, found: Answer, names: Mapping[str, int]
) -> list[Objective]:
    """The metric that is shown; if it is one of several goals of a search, all of these."""
    if question.metric is None:
        return []
    shown = Objective(question.metric, question.goal or "min", question.value == "last")
    goals = [Objective(*one) for one in (found.get("search") or {}).get("objectives", ())]
    if shown not in goals or not all(one.name in names for one in goals):
        return [shown]
    return [shown, *(one for one in goals if one != shown)]


def _figures(groups: Sequence[Sequence[Run]], name: str) -> dict[str, Numbers]:
    """The values of a metric, row by row: of one run, or the means of several and their spread."""
    found: dict[str, Numbers] = {}
    several = any(len(group) > 1 for group in groups)
    for part, of in _PARTS:
        column: Numbers = []
        spreads: Numbers = []
        for group in groups:
            values = [of(run.metrics[name]) for run in group if name in run.metrics]
            if len(group) > 1:  # nan in one run makes the mean nan.
                values = [math.nan if value is None else value for value in values]
            known = [value for value in values if value is not None]
            column.append(known[0] if len(known) == 1 else mean(known))
            spreads.append(spread(known))
        found[part] = column
        if several:
            found[f"{part}_spread"] = spreads
    return found


def _shown(
    columns: Mapping[str, Sequence[Any]],
    figures: Mapping[str, Mapping[str, Numbers]],
    question: SweepResultsQuestion,
) -> Numbers:
    """The values that are asked about."""
    if question.metric is None:
        rows = zip(columns["run_time_s"], columns["ended"], columns["runs"], strict=True)
        return [ran if ended == runs else None for ran, ended, runs in rows]
    part = question.goal or "min" if question.value == "best" else "last"
    return figures[question.metric][part]


def _columns(rows: Sequence[Result], jobs: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """What is said of each row beside its parameters and metrics; how it ended, of single runs."""
    places = {job_id: place for place, job_id in enumerate(jobs["id"])}
    of = [[places[job_id] for job_id in row.ids] for row in rows]
    return {
        "id": [row.id for row in rows],
        "runs": [len(row.ids) for row in rows],
        **({"ids": [row.ids for row in rows]} if any(len(its) > 1 for its in of) else {}),
        "state": [row.state for row in rows],
        "ended": [sum(jobs["ended_at_ms"][one] is not None for one in its) for its in of],
        "succeeded": [sum(jobs["state"][one] == "succeeded" for one in its) for its in of],
        "run_time_s": [row.run_time_s for row in rows],
        "gpus": [row.gpus for row in rows],
        "exit_code": [jobs["exit_code"][its[0]] if len(its) == 1 else None for its in of],
        "signal": [jobs["signal"][its[0]] if len(its) == 1 else None for its in of],
    }


def _param(rows: Sequence[Result], name: str) -> Answer:
    """The values of a parameter, and the rows in which it is not there at all."""
    return {
        "name": name,
        "values": [row.params.get(name) for row in rows],
        "absent": [place for place, row in enumerate(rows) if name not in row.params],
    }
