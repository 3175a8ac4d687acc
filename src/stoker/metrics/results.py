"""Which point was best: jobs with their parameters and metrics, as a table of results.

Pure. The best value of a run is the lowest or the highest of its series, by the goal of the metric.
Runs that differ only in the parameter of `--repeat` are one row: mean, spread and count.

Law: every front end marks what `tabulate` marks. The best point has ended well with a finite value,
in each of its runs; while there is no such point, one that has not ended may be the best so far.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.errors import NotFound, UsageError, quoted
from stoker.metrics.asking import Summary
from stoker.metrics.names import goal_of, in_likely_order, no_metric
from stoker.metrics.standing import BARRED, ENDED, standing_of
from stoker.text.suggest import nearest


@dataclass(slots=True)
class Run:
    """One job, as far as results need it."""

    id: int
    state: str
    params: dict[str, Any]
    run_time_s: float | None = None
    gpus: list[str] = field(default_factory=list)
    name: str | None = None
    metrics: dict[str, Summary] = field(default_factory=dict)


@dataclass(slots=True)
class Figure:
    """A metric of one row: of a run, or the means of several, with their spread.

    `goal` is "min", "max", or None where it is not known which is better; then there is no best.
    The spread is the sample standard deviation, of two runs or more. `best_step` is that of the
    run that is the best of its row.
    """

    goal: str | None = None
    runs: int = 0
    last: float | None = None
    last_spread: float | None = None
    best: float | None = None
    best_spread: float | None = None
    best_step: float | None = None


@dataclass(slots=True)
class Result:
    """One row: a point of a sweep, or a job. `ids` are its runs, `id` the best of them."""

    id: int
    ids: list[int]
    state: str
    params: dict[str, Any]
    run_time_s: float | None
    gpus: list[str]
    name: str | None = None
    metrics: dict[str, Figure] = field(default_factory=dict)
    is_best: bool = False
    standing: int = ENDED  # or GOING: it has not ended; BARRED: it can't be the best


@dataclass(frozen=True, slots=True)
class Objective:
    """What is wanted of a metric: little of it, or much."""

    name: str
    goal: str = "min"
    by_last: bool = False  # by the last value of each run, not by its best one

    def cost(self, row: Result) -> float | None:
        """The lower, the better; None if the row has no value."""
        figure = row.metrics.get(self.name)
        return None if figure is None else self._cost(figure.last if self.by_last else figure.best)

    def cost_of_run(self, run: Run) -> float | None:
        """The same of a single run."""
        found = run.metrics.get(self.name)
        last = None if found is None else found.last
        return self._cost(last if self.by_last else best_of(found, self.goal)[0])

    def _cost(self, value: float | None) -> float | None:
        if value is None or math.isnan(value):
            return None
        return -value if self.goal == "max" else value


@dataclass(slots=True)
class ResultTable:
    """The rows, and the names of what they have: varied parameters, metrics, objectives."""

    rows: list[Result]
    varied: list[str]
    metrics: list[str]
    objectives: list[Objective]
    repeat: str | None = None

    @property
    def best(self) -> list[Result]:
        """The best row; with several objectives, those that no other is better than in all."""
        return [row for row in self.rows if row.is_best]

    @property
    def is_settled(self) -> bool:
        """Whether the best has ended; otherwise it is the best so far."""
        return all(row.standing == ENDED for row in self.best)

    @property
    def why_no_best(self) -> str:
        """Why no row is marked, in words; nothing if one is, or if nothing was wanted."""
        if not self.objectives or self.best:
            return ""
        for one in self.objectives:
            if all(row.metrics[one.name].best is None for row in self.rows):
                return f"none has a value of {one.name}"
        names = " and ".join(one.name for one in self.objectives)
        where = ", in each of its runs" if self.repeat is not None else ""
        return f"none is best: no point ended well with a finite value of {names}{where}"


def tabulate(
    runs: Sequence[Run],
    objectives: Sequence[Objective] = (),
    *,
    repeat: str | None = None,
    names: Sequence[str] = (),
) -> ResultTable:
    """The table of these runs, best first if there is an objective, else in the order of ids.

    `names`: only these metrics, beside the objectives. NotFound for one that no run has.
    """
    there = list(dict.fromkeys(name for run in runs for name in run.metrics))
    wanted = list(dict.fromkeys([*(one.name for one in objectives), *names]))
    for name in wanted:
        if name not in there:
            raise no_metric(name, there)
    if not names:
        wanted = list(dict.fromkeys([*wanted, *in_likely_order(there)]))
    goals = {name: goal_of(name) for name in wanted} | {one.name: one.goal for one in objectives}
    first = objectives[0] if objectives else None
    varied = varied_names([run.params for run in runs])
    repeat = repeat if repeat in varied else None
    varied = [name for name in varied if name != repeat]
    groups = _groups(runs, varied) if repeat is not None else [[run] for run in runs]
    rows = [_row(group, varied, goals, first) for group in groups]
    for row, group in zip(rows, groups, strict=True):
        row.standing = _standing(row, group, objectives)
    for row in _front(rows, objectives):
        row.is_best = True
    if first is not None:
        rows.sort(
            key=lambda row: (not row.is_best, row.standing == BARRED, *_in_order(first.cost(row)))
        )
    return ResultTable(rows, varied, wanted, list(objectives), repeat)


def varied_names(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """The parameters that differ between jobs; all of them if there is but one job."""
    seen: dict[str, set[str]] = {}
    count: Counter[str] = Counter()
    for one in params:
        count.update(one.keys())
        for name, value in one.items():
            seen.setdefault(name, set()).add(_identity(value))
    if len(params) == 1:
        return list(seen)
    return [name for name, values in seen.items() if len(values) > 1 or count[name] < len(params)]


def _identity(value: Any) -> str:
    """What tells values apart: 1, 1.0 and true are three."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else repr(value)


def _groups(runs: Sequence[Run], varied: Sequence[str]) -> list[list[Run]]:
    found: dict[tuple[str | None, ...], list[Run]] = {}
    for run in runs:
        params = run.params
        key = tuple([_identity(params[name]) if name in params else None for name in varied])
        found.setdefault(key, []).append(run)
    return list(found.values())


def _row(
    group: list[Run],
    varied: Sequence[str],
    goals: Mapping[str, str | None],
    first: Objective | None,
) -> Result:
    best = group[0] if len(group) == 1 or first is None else _best_run(group, first)
    times = [run.run_time_s for run in group if run.run_time_s is not None]
    return Result(
        best.id,
        [run.id for run in group],
        _state(group),
        {name: best.params[name] for name in varied if name in best.params},
        mean(times),
        list(dict.fromkeys(gpu for run in group for gpu in run.gpus)),
        best.name,
        {name: _figure(group, best, name, goal) for name, goal in goals.items()},
    )


def _best_run(group: list[Run], objective: Objective) -> Run:
    def place(run: Run) -> tuple[bool, int, float]:
        return standing_of([run.state]) == BARRED, *_in_order(objective.cost_of_run(run))

    return min(group, key=place)


def _state(group: list[Run]) -> str:
    if len(group) == 1:
        return group[0].state
    counts = Counter(run.state for run in group)
    if len(counts) == 1:
        return group[0].state
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _figure(group: list[Run], best: Run, name: str, goal: str | None) -> Figure:
    summary = best.metrics.get(name)
    value, step = best_of(summary, goal)
    if len(group) == 1:  # By far the most, so they are not averaged.
        return (
            Figure(goal)
            if summary is None
            else Figure(goal, 1, summary.last, None, value, None, step)
        )
    found = [run.metrics[name] for run in group if name in run.metrics]
    last = [one.last for one in found]
    # A run of which all values are nan makes the mean nan, as it does that of the last values.
    its = [best_of(one, goal)[0] for one in found] if goal is not None else []
    bests = [math.nan if value is None else value for value in its]
    return Figure(goal, len(found), mean(last), spread(last), mean(bests), spread(bests), step)


def best_of(summary: Summary | None, goal: str | None) -> tuple[float | None, float | None]:
    """The best value of a run and its step; nothing where it is not known what is better."""
    if summary is None or goal is None:
        return None, None
    value, step = summary.min, summary.min_step
    if goal == "max":
        value, step = summary.max, summary.max_step
    return (None, None) if value is None or math.isnan(value) else (value, step)


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing. It does not overflow."""
    if not values:
        return None
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # of the sum, which is larger than any float
        return sum(value / len(values) for value in values)
    except ValueError:  # inf and -inf have no sum
        return math.nan


def spread(values: Sequence[float]) -> float | None:
    """The sample standard deviation; None of fewer than two values, or if one is not finite."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    middle = mean(values)
    assert middle is not None
    return math.hypot(*(value - middle for value in values)) / math.sqrt(len(values) - 1)


# ---------------------------------------------------------------------- which is best


def _standing(row: Result, group: Sequence[Run], objectives: Sequence[Objective]) -> int:
    """A diverged value is never the best, nor is the mean of some runs when all have ended.

    It would praise a point that was good by luck; a search takes it for failed, too.
    """
    states = [run.state for run in group]
    standing = standing_of(states)
    for one in objectives:
        standing = max(standing, standing_of(states, one.cost(row)))
        if standing == ENDED and row.metrics[one.name].runs < len(group):
            return BARRED
    return standing


def _front(rows: Sequence[Result], objectives: Sequence[Objective]) -> Iterable[Result]:
    """The best row; of several objectives, the Pareto front: what no other row is better than.

    A row is better than another if it is worse in no objective and better in one.
    """
    if not objectives:
        return []
    standing = min((row.standing for row in rows), default=BARRED)
    if standing == BARRED:
        return []
    costs = [
        (tuple([one.cost(row) or 0.0 for one in objectives]), row)
        for row in rows
        if row.standing == standing
    ]
    costs.sort(key=lambda one: one[0])
    if len(objectives) == 1:
        return [costs[0][1]]
    # In this order only an earlier row can be better than a later one.
    front: list[tuple[tuple[float, ...], Result]] = []
    for cost, row in costs:
        # Of two objectives, the second falls along the front: its last row tells.
        rivals = front[-1:] if len(objectives) == 2 else front
        if not any(_is_better(other, cost) for other, _ in rivals):
            front.append((cost, row))
    return [row for _, row in front]


def _is_better(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


# ---------------------------------------------------------------------- in which order

_OWN: dict[str, Callable[[Result], Any]] = {
    "id": lambda row: row.id,
    "state": lambda row: row.state,
    "time": lambda row: row.run_time_s,
    "gpus": lambda row: ",".join(row.gpus),
    "runs": lambda row: len(row.ids),
    "name": lambda row: row.name,
}


def arranged(
    results: ResultTable, sort: str | None, reverse: bool = False, top: int | None = None
) -> list[Result]:
    """The rows in the order of a column, those without a value last; `top`: the first so many.

    By a metric, those that can't be the best come last, and the best comes first. A column is a
    parameter, a metric (its best value, the best first; `last NAME` for the last one), or one of
    the table's own. UsageError for one that is not there.
    """
    rows = list(results.rows)
    if sort is not None:
        of, downwards = _column(results, sort)
        found = [(_rank(of(row)), row) for row in rows]
        there = [one for one in found if one[0] is not None]
        there.sort(key=lambda one: one[0] or (), reverse=downwards != reverse)
        if _is_metric(results, sort):
            leads = [one.name for one in results.objectives] == [
                _metric(results, sort)
            ] and not reverse
            there.sort(key=lambda one: (not (leads and one[1].is_best), _is_last(*one)))
        rows = [row for _, row in there] + [row for rank, row in found if rank is None]
    elif reverse:
        rows.reverse()
    return rows if top is None else rows[:top]


def _is_metric(results: ResultTable, column: str) -> bool:
    metric = _metric(results, column.removeprefix("last "))
    return column not in results.varied and metric in results.metrics


def title_of(metric: str, params: Sequence[str]) -> str:
    """What the column of a metric is called: `metric_lr` where a parameter is called `lr`."""
    return f"metric_{metric}" if metric in params else metric


def _metric(results: ResultTable, title: str) -> str:
    """The metric whose column is called so."""
    return next((one for one in results.metrics if title_of(one, results.varied) == title), title)


def _is_last(rank: tuple[int, float, str] | None, row: Result) -> bool:
    return row.standing == BARRED or rank is None or not math.isfinite(rank[1])


def _column(results: ResultTable, name: str) -> tuple[Callable[[Result], Any], bool]:
    """What a column has of a row, and whether it goes downwards, as it does for the best first."""
    if name in results.varied:
        return lambda row: row.params.get(name), False
    metric = _metric(results, name.removeprefix("last "))
    if metric in results.metrics:
        goal = next((row.metrics[metric].goal for row in results.rows), None)
        if not name.startswith("last ") and goal is not None:
            return lambda row: row.metrics[metric].best, goal == "max"
        return lambda row: row.metrics[metric].last, goal == "max"
    if name.lower() in _OWN:
        return _OWN[name.lower()], False
    metrics = [title_of(one, results.varied) for one in results.metrics]
    known = [*results.varied, *metrics, *_OWN]
    guess = nearest(name, known)
    hint = f"did you mean {guess}?" if guess else f"there are {', '.join(known[:20])}"
    raise UsageError(f"there is no column {quoted(name)}", hint)


def _rank(value: Any) -> tuple[int, float, str] | None:
    """Numbers by their size, then text by the alphabet; None for what has no place in an order."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float):
        return 0, value, ""
    return 1, 0.0, value if isinstance(value, str) else _identity(value)


def _in_order(cost: float | None) -> tuple[int, float]:
    """What is finite comes first, then what has diverged, then what has no value."""
    if cost is None:
        return 2, 0.0
    return (0, cost) if math.isfinite(cost) else (1, 0.0)


def only_objective(names: Sequence[str]) -> Objective:
    """What is to be minimized or maximized if that was not said: if only one metric tells it."""
    if not names:
        raise NotFound("there are no metrics in these jobs", "`stoker metrics --help` says more")
    told = [Objective(name, goal) for name in names if (goal := goal_of(name)) is not None]
    if len(told) == 1:
        return told[0]
    shown = ", ".join(names[:20])
    first = told[0] if told else Objective(names[0])
    raise UsageError(
        f"which of these metrics is to be low or high: {shown}",
        f"write e.g. --{first.goal}imize {first.name}",
    )
