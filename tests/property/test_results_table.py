"""Whatever jobs and metrics there are, the table says of them what plain code would."""

from __future__ import annotations

import math
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from stoker.metrics.asking import Summary
from stoker.metrics.result_columns import as_json, columns_of
from stoker.metrics.results import Objective, Result, Run, arranged, tabulate

NAMES = ("loss", "acc", "q")
NUMBERS = st.sampled_from([0.0, 1.0, 2.0, -1.0, math.inf, -math.inf, math.nan]) | st.floats()
PARAMS = st.fixed_dictionaries(
    {}, optional={"lr": st.sampled_from([1, 1.0, True, "1", [1]]), "seed": st.integers(0, 2)}
)


@st.composite
def summaries(draw: st.DrawFn) -> Summary:
    values = draw(st.lists(NUMBERS, min_size=1, max_size=4))
    numbers = [value for value in values if not math.isnan(value)]
    low, high = (min(numbers), max(numbers)) if numbers else (None, None)
    return Summary(1, 1, "", len(values), values[-1], 0, low, 1, high, 2)


METRICS = st.dictionaries(st.sampled_from(NAMES), summaries())
STATES = st.sampled_from(["succeeded", "stopped", "running", "failed"])
RUNS = st.lists(st.tuples(PARAMS, METRICS, STATES), max_size=9).map(
    lambda rows: [
        Run(number, state, params, None, [], metrics=metrics)
        for number, (params, metrics, state) in enumerate(rows, 1)
    ]
)
OBJECTIVES = st.lists(
    st.builds(Objective, st.sampled_from(NAMES), st.sampled_from(["min", "max"])),
    max_size=3, unique_by=lambda one: one.name,
)  # fmt: skip


def cost(row: Result, objective: Objective) -> float | None:
    best = row.metrics[objective.name].best
    if best is None or not math.isfinite(best):
        return None
    return best if objective.goal == "min" else -best


@given(RUNS, OBJECTIVES, st.sampled_from([None, "seed"]))
def test_the_best_rows_are_those_that_no_row_is_better_than(
    runs: list[Run], objectives: list[Objective], repeat: str | None
) -> None:
    there = {name for run in runs for name in run.metrics}
    objectives = [one for one in objectives if one.name in there]
    table = tabulate(runs, objectives, repeat=repeat)
    of = {run.id: run for run in runs}
    ended, going = {}, {}
    for row in table.rows:
        costs = [cost(row, one) for one in objectives]
        states = [of[number].state for number in row.ids]
        if not objectives or None in costs or "failed" in states:
            continue
        known = [value for value in costs if value is not None]
        if "running" in states:
            going[row.id] = known
        elif all(one.name in of[number].metrics for one in objectives for number in row.ids):
            ended[row.id] = known
    whole = ended or going
    beaten = {
        a for (a, x), (b, y) in product(whole.items(), repeat=2)
        if a != b and y != x and all(left <= right for left, right in zip(y, x, strict=True))
    }  # fmt: skip
    best = {row.id for row in table.best}
    front = whole.keys() - beaten
    if len(objectives) == 1:
        assert len(best) == min(1, len(front)) and best <= front
    else:
        assert best == front
    assert [row.is_best for row in table.rows] == sorted(
        (row.is_best for row in table.rows), reverse=True
    ), "the best come first"


@given(RUNS, st.sampled_from([None, "seed"]))
def test_every_run_is_in_one_row_with_those_that_differ_only_in_the_repeat(
    runs: list[Run], repeat: str | None
) -> None:
    table = tabulate(runs, repeat=repeat)
    assert sorted(number for row in table.rows for number in row.ids) == [run.id for run in runs]
    params = {run.id: {k: repr(v) for k, v in run.params.items()} for run in runs}
    for row in table.rows:
        others = [{k: v for k, v in params[n].items() if k != table.repeat} for n in row.ids]
        assert all(one == others[0] for one in others)
        if table.repeat is None:
            assert len(row.ids) == 1
    keys = [
        tuple(sorted((k, v) for k, v in params[row.id].items() if k != table.repeat))
        for row in table.rows
    ]
    assert table.repeat is None or len(set(keys)) == len(keys), "no two rows are of one point"


@given(RUNS, OBJECTIVES, st.sampled_from([None, "seed"]), st.booleans())
def test_columns_are_of_one_length_and_every_order_has_every_row(
    runs: list[Run], objectives: list[Objective], repeat: str | None, reverse: bool
) -> None:
    there = {name for run in runs for name in run.metrics}
    table = tabulate(runs, [one for one in objectives if one.name in there], repeat=repeat)
    assert {len(column) for column in columns_of(table, table.rows).values()} <= {len(table.rows)}
    assert len(as_json(table, table.rows)["results"]) == len(table.rows)
    for column in (*table.varied, *table.metrics, "id", "state", "time", "gpus", "runs", "name"):
        rows = arranged(table, column, reverse)
        assert sorted(row.id for row in rows) == sorted(row.id for row in table.rows)
