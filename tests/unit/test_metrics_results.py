"""The table of results: which row is best, repeats put together, columns, order."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stoker.errors import NotFound, UsageError
from stoker.metrics.asking import Summary
from stoker.metrics.gathering import options_said, runs_of_jobs
from stoker.metrics.names import goal_of, no_metric
from stoker.metrics.result_columns import as_json, columns_of
from stoker.metrics.results import (
    Objective,
    ResultTable,
    Run,
    arranged,
    mean,
    only_objective,
    spread,
    tabulate,
    varied_names,
)

LOSS = Objective("loss")
ACC = Objective("acc", "max")


def summary(*values: float) -> Summary:
    numbers = [value for value in values if not math.isnan(value)]
    low, high = (min(numbers), max(numbers)) if numbers else (None, None)
    return Summary(
        1, 1, "", len(values), values[-1], len(values) - 1.0,
        low, None if low is None else float(values.index(low)),
        high, None if high is None else float(values.index(high)),
    )  # fmt: skip


def run(
    number: int, params: dict[str, Any] | None = None, /, **metrics: float | list[float]
) -> Run:
    found = {
        name: summary(*value) if isinstance(value, list) else summary(value)
        for name, value in metrics.items()
    }
    return Run(number, "succeeded", params or {}, 2.0, ["0"], metrics=found)


def ids(table: ResultTable) -> list[int]:
    return [row.id for row in table.rows]


def best_ids(table: ResultTable) -> list[int]:
    return [row.id for row in table.best]


def test_the_best_value_of_a_run_is_the_lowest_or_highest_of_its_series() -> None:
    table = tabulate([run(1, loss=[3, 1, 2]), run(2, loss=[1.5, 1.6])], [LOSS])
    assert ids(table) == [1, 2] and best_ids(table) == [1]
    figure = table.rows[0].metrics["loss"]
    assert (figure.last, figure.best, figure.best_step, figure.goal) == (2, 1, 1, "min")
    assert best_ids(tabulate([run(1, acc=[0.3, 0.1]), run(2, acc=0.2)], [ACC])) == [1]
    assert best_ids(tabulate([run(1, loss=3), run(2, loss=1)], [Objective("loss", "max")])) == [1]


def test_nan_is_never_the_best_and_neither_is_what_has_no_value() -> None:
    runs = [run(1, loss=math.nan), run(2), run(3, loss=[math.nan, 9.0]), run(4, loss=math.inf)]
    table = tabulate(runs, [LOSS])
    assert best_ids(table) == [3] and ids(table)[:2] == [3, 4]
    assert tabulate([run(1, loss=math.nan)], [LOSS]).best == []
    assert best_ids(tabulate([run(1, acc=math.nan), run(2, acc=0.1)], [ACC])) == [2]
    odd = Summary(1, 1, "loss", 1, math.nan, 0, math.nan, 0, math.nan, 0)
    strange = Run(1, "succeeded", {}, metrics={"loss": odd})
    table = tabulate([strange], [LOSS])
    assert table.best == [] and table.rows[0].metrics["loss"].best is None


def test_of_equal_rows_the_first_is_the_best() -> None:
    assert best_ids(tabulate([run(1, loss=2), run(2, loss=1), run(3, loss=1)], [LOSS])) == [2]


def test_without_an_objective_no_row_is_the_best_and_the_order_is_kept() -> None:
    table = tabulate([run(2, loss=2), run(3, loss=1)])
    assert ids(table) == [2, 3] and table.best == []
    assert table.rows[0].metrics["loss"].best == 2, "the name tells that less is better"
    assert tabulate([run(1, speed_of_x=4)]).rows[0].metrics["speed_of_x"].best is None


def test_several_objectives_mark_what_no_other_row_is_better_than() -> None:
    points = [(1, 9), (2, 5), (3, 5), (2, 7), (4, 1), (4, 1), (9, 9)]
    runs = [run(n, loss=a, latency=b) for n, (a, b) in enumerate(points, 1)]
    both = [LOSS, Objective("latency")]
    assert sorted(best_ids(tabulate(runs, both))) == [1, 2, 5, 6], "equal ones are both on it"
    assert ids(tabulate(runs, both))[:4] == [1, 2, 5, 6], "the front comes first"
    runs.append(run(8, loss=0.5))
    assert 8 not in best_ids(tabulate(runs, both)), "it lacks one of the values"
    for one in runs:
        one.metrics["acc"] = summary(0.5 if one.id == 3 else 0.1)
    assert sorted(best_ids(tabulate(runs, [*both, ACC]))) == [1, 2, 3, 5, 6]


def test_of_three_objectives_every_row_of_the_front_counts() -> None:
    points = [(1, 5, 1), (2, 1, 9), (3, 6, 2)]  # The first is better than the last.
    runs = [run(n, loss=a, latency=b, err=c) for n, (a, b, c) in enumerate(points, 1)]
    assert best_ids(tabulate(runs, [LOSS, Objective("latency"), Objective("err")])) == [1, 2]


def test_repeats_are_one_row_with_mean_spread_and_count() -> None:
    runs = [
        run(lr * 10 + seed, {"lr": lr, "seed": seed}, loss=[9, lr + seed])
        for lr in (1, 2) for seed in (2, 0, 1)
    ]  # fmt: skip
    table = tabulate(runs, [LOSS], repeat="seed")
    first = table.rows[0]
    assert (table.varied, table.repeat) == (["lr"], "seed")
    assert first.params == {"lr": 1} and first.ids == [12, 10, 11] and first.is_best
    assert first.id == 10, "the best of the runs"
    figure = first.metrics["loss"]
    assert (figure.runs, figure.best, figure.best_spread) == (3, 2, 1)
    assert (figure.last, figure.last_spread) == (2, 1)
    alone = tabulate(runs, [LOSS], repeat=None)
    assert len(alone.rows) == 6 and alone.varied == ["lr", "seed"]


def test_a_repeat_without_a_value_counts_as_none() -> None:
    runs = [run(1, {"seed": 0}, acc=0.5), run(2, {"seed": 1}), run(3, {"seed": 2}, acc=math.nan)]
    runs[1].state = "failed"
    [row] = tabulate(runs, [ACC], repeat="seed").rows
    assert row.metrics["acc"].runs == 2 and math.isnan(row.metrics["acc"].best or 0)
    assert row.metrics["acc"].best_spread is None and row.state == "2 succeeded, 1 failed"
    assert row.id == 1
    [row] = tabulate(runs[:2], [ACC], repeat="seed").rows
    assert (row.metrics["acc"].runs, row.metrics["acc"].best, row.is_best) == (1, 0.5, False)


def in_state(state: str, one: Run) -> Run:
    one.state = state
    return one


@pytest.mark.parametrize("state", ["failed", "cancelled", "lost", "skipped"])
def test_a_point_that_ended_badly_is_never_the_best(state: str) -> None:
    runs = [in_state(state, run(1, loss=1)), run(2, loss=9), in_state("running", run(3, loss=5))]
    table = tabulate(runs, [LOSS])
    assert best_ids(table) == [2] and ids(table) == [2, 3, 1] and table.is_settled
    assert table.rows[2].metrics["loss"].best == 1, "its value is shown"
    assert [row.id for row in arranged(table, "loss")] == [2, 3, 1]
    assert [row.id for row in arranged(table, "last loss")] == [3, 2, 1]
    assert [row.id for row in arranged(table, "loss", True)] == [2, 3, 1]
    alone = tabulate(runs[:1], [LOSS])
    assert alone.best == []
    assert alone.why_no_best == "none is best: no point ended well with a finite value of loss"
    both = [in_state(state, run(1, loss=1, err=1)), run(2, loss=9, err=2), run(3, loss=8, err=3)]
    assert best_ids(tabulate(both, [LOSS, Objective("err")])) == [3, 2]


def test_a_point_that_was_stopped_early_may_be_the_best() -> None:
    assert best_ids(tabulate([in_state("stopped", run(1, loss=1)), run(2, loss=2)], [LOSS])) == [1]


def test_a_point_that_has_not_ended_is_the_best_only_while_none_has_ended_well() -> None:
    going = [in_state("running", run(1, loss=3)), in_state("stopping", run(2, loss=1))]
    table = tabulate([*going, in_state("failed", run(3, loss=0))], [LOSS])
    assert best_ids(table) == [2] and not table.is_settled and table.why_no_best == ""
    table = tabulate([*going, run(4, loss=math.nan), run(5, loss=7)], [LOSS])
    assert best_ids(table) == [5] and table.is_settled


@pytest.mark.parametrize(("objective", "diverged"), [(LOSS, -math.inf), (ACC, math.inf)])
def test_a_diverged_value_is_shown_and_never_the_best(
    objective: Objective, diverged: float
) -> None:
    name = objective.name
    runs = [run(1, **{name: diverged}), run(2, **{name: 0.5})]
    table = tabulate(runs, [objective])
    assert best_ids(table) == [2] and ids(table) == [2, 1]
    assert table.rows[1].metrics[name].best == diverged
    assert [row.id for row in arranged(table, name)] == [2, 1]
    assert "no point ended well with a finite value" in tabulate(runs[:1], [objective]).why_no_best


@pytest.mark.parametrize("third", [{"loss": math.nan}, {}])
def test_the_mean_of_some_of_the_repeats_is_never_the_best(third: dict[str, float]) -> None:
    lucky = [run(n, {"lr": 1, "seed": n}, loss=1) for n in (1, 2)]
    lucky.append(run(3, {"lr": 1, "seed": 3}, **third))
    sound = [run(n + 3, {"lr": 2, "seed": n}, loss=4) for n in (1, 2, 3)]
    table = tabulate([*lucky, *sound], [LOSS], repeat="seed")
    assert best_ids(table) == [4] and ids(table) == [4, 1]
    lucky[2] = in_state("failed", run(3, {"lr": 1, "seed": 3}, loss=0))
    table = tabulate([*lucky, *sound], [LOSS], repeat="seed")
    assert best_ids(table) == [4] and ids(table) == [4, 1], "its best run is one that ended well"
    assert tabulate(lucky, [LOSS], repeat="seed").why_no_best.endswith("in each of its runs")


def test_the_best_may_be_by_the_last_values() -> None:
    runs = [run(1, loss=[1, 9]), run(2, loss=[3, 4]), in_state("failed", run(3, loss=0))]
    table = tabulate(runs, [Objective("loss", "min", by_last=True)])
    assert best_ids(table) == [2] and ids(table) == [2, 1, 3]


def test_a_sweep_that_repeats_one_point_only_is_one_row() -> None:
    table = tabulate([run(n, {"seed": n}, loss=n) for n in (1, 2)], repeat="seed")
    assert [row.ids for row in table.rows] == [[1, 2]] and table.varied == []


def test_only_parameters_that_differ_are_varied() -> None:
    assert varied_names([{"a": 1, "b": 2}, {"a": 1, "b": 3}]) == ["b"]
    assert varied_names([{"a": 1}, {"a": 1.0}, {"a": True}]) == ["a"]
    assert varied_names([{"a": 1}, {}]) == ["a"]
    assert varied_names([{"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}]) == []
    assert varied_names([{"a": 1}]) == ["a"], "all of them if there is but one job"


def test_objectives_come_first_then_losses_unless_other_metrics_are_named() -> None:
    runs = [run(1, a=1, b=2, loss=3, val_loss=4)]
    assert tabulate(runs, [LOSS]).metrics == ["loss", "val_loss", "a", "b"]
    assert tabulate(runs, [LOSS], names=["b"]).metrics == ["loss", "b"]


def test_a_metric_that_never_appears_is_told_with_the_names_that_do() -> None:
    for how in ({"objectives": [Objective("los")]}, {"names": ["los"]}):
        with pytest.raises(NotFound) as error:
            tabulate([run(1, loss=1, acc=2)], **how)
        assert str(error.value) == (
            "no metric is called 'los'; did you mean loss? there are: loss, acc"
        )
    assert "no metrics in these jobs" in str(no_metric("loss", []))
    assert "and 5 more" in str(no_metric("q", [f"metric_{n}" for n in range(25)]))


def test_rows_are_arranged_by_any_column_with_those_that_have_no_value_last() -> None:
    runs = [
        run(1, {"lr": 0.1, "opt": "sgd"}, loss=[1, 5], acc=0.2),
        run(2, {"lr": 10, "opt": "adam"}, loss=[2, 4], acc=0.9),
        run(3, {"opt": "b"}, acc=math.nan),
    ]
    table = tabulate(runs)

    def by(column: str, **more: Any) -> list[int]:
        return [row.id for row in arranged(table, column, **more)]

    assert by("lr") == [1, 2, 3] and by("lr", reverse=True) == [2, 1, 3]
    assert by("opt") == [2, 3, 1]
    assert by("loss") == [1, 2, 3] and by("last loss") == [2, 1, 3]
    assert by("acc") == [2, 1, 3], "the best first"
    assert by("acc", reverse=True) == [1, 2, 3]
    assert by("last acc") == [2, 1, 3], "the best first here, too"
    assert by("ID", reverse=True, top=2) == [3, 2]
    assert [row.id for row in arranged(table, None, True)] == [3, 2, 1]
    with pytest.raises(UsageError, match=r"no column 'tim'; did you mean time\?"):
        by("tim")
    with pytest.raises(UsageError, match="there are lr, opt, loss, acc, id"):
        by("zzzzzzzzz")


def test_a_parameter_that_is_too_large_for_a_float_has_its_place() -> None:
    table = tabulate([run(1, {"n": 10**400}), run(2, {"n": 5}), run(3, {"n": -(10**400)})])
    assert [row.id for row in arranged(table, "n")] == [3, 2, 1]


def test_mean_and_spread_do_not_overflow() -> None:
    assert mean([1e308, 1e308, 1e308]) == pytest.approx(1e308)
    assert mean([]) is None and spread([1.0]) is None
    assert spread([1e200, -1e200]) == pytest.approx(math.sqrt(2) * 1e200)
    assert math.isnan(mean([math.inf, -math.inf]) or 0) and spread([math.inf, 1]) is None


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("loss", "min"), ("val_loss", "min"), ("train/loss", "min"), ("Error", "min"),
        ("acc", "max"), ("val_accuracy", "max"), ("eval-f1", "max"), ("lossless", None),
        ("lr", None), ("acc_loss", None), ("", None), ("__proto__", None),
    ],
)  # fmt: skip
def test_a_name_tells_which_is_better(name: str, goal: str | None) -> None:
    assert goal_of(name) == goal


def test_the_only_metric_whose_name_tells_it_is_the_objective() -> None:
    assert only_objective(["lr", "val_acc"]) == Objective("val_acc", "max")
    with pytest.raises(UsageError, match=r"which of these metrics.*loss, acc; write e\.g\. --min"):
        only_objective(["loss", "acc"])
    with pytest.raises(UsageError, match="which of these"):
        only_objective(["q"])
    with pytest.raises(NotFound, match="no metrics"):
        only_objective([])


def test_columns_of_the_same_name_are_told_apart() -> None:
    table = tabulate([run(1, {"lr": 1, "id": 3}, lr=0.5, state=2, loss=1)])
    columns = columns_of(table, table.rows)
    assert {name: values[0] for name, values in columns.items()} == {
        "id": 1, "state": "succeeded", "lr": 1, "param_id": 3, "run_time_s": 2.0, "gpus": "0",
        "metric_lr": 0.5, "metric_state": 2, "loss": 1, "loss_best": 1, "loss_best_step": 0,
    }  # fmt: skip
    hostile = tabulate([run(1, {"loss": 1, "metric_loss": 2}, loss=3)])
    assert columns_of(hostile, hostile.rows)["metric_loss_"] == [3]


def test_columns_of_repeats_have_their_spread() -> None:
    runs = [run(n, {"seed": n}, loss=n) for n in (1, 3)]
    table = tabulate(runs, [LOSS], repeat="seed")
    columns = columns_of(table, table.rows)
    assert columns["runs"] == [2] and columns["best"] == [True]
    assert columns["loss_spread"] == columns["loss_best_spread"] == [pytest.approx(math.sqrt(2))]


def test_json_has_nan_and_inf_as_text() -> None:
    table = tabulate([run(1, {"lr": 1}, loss=[math.inf, math.nan])], [LOSS])
    said = as_json(table, table.rows)
    assert said["results"][0]["metrics"]["loss"] == {
        "goal": "min", "runs": 1, "last": "nan", "last_spread": None, "best": "inf",
        "best_spread": None, "best_step": 0.0,
    }  # fmt: skip
    assert said["objectives"] == [{"metric": "loss", "goal": "min"}] and said["repeat"] is None


def test_the_options_of_a_command_are_its_parameters() -> None:
    argv = ["python", "train.py", "--lr", "0.1", "--bs=16", "--amp", "--shift", "-3", "-v",
            "model.depth=4", "--data", "a b", "--", "--last"]  # fmt: skip
    expected = {"lr": 0.1, "bs": 16, "amp": True, "shift": -3, "model.depth": 4, "data": "a b",
                "last": True}  # fmt: skip
    assert options_said(argv, None) == expected
    assert options_said([], "python train.py --lr 0.1 --x 'b c'") == {"lr": 0.1, "x": "b c"}
    script = "cd /x && A=1 python train.py --lr=0.1 n='a;b' >log 2>&1; echo acc=1; x --amp|y"
    expected = {"A": 1, "lr": 0.1, "n": "a;b", "acc": 1, "amp": True}
    assert options_said([], script) == expected
    assert options_said([], "echo 'open") == {} and options_said([], None) == {}


def test_a_job_that_waits_to_be_tried_again_has_no_run_time_and_mixed_repeats_are_none() -> None:
    about = {"params": {"x": 1}, "started_at_ms": 1000, "gpus": [], "name": None, "group": None}
    jobs = [
        {**about, "id": 2, "state": "waiting", "ended_at_ms": None, "options": {"repeat": "seed"}},
        {**about, "id": 1, "state": "succeeded", "ended_at_ms": 3000, "options": {"repeat": "n"}},
    ]
    runs, repeat, goals = runs_of_jobs(lambda op, **_: {"jobs": jobs}, {})
    assert [(run.id, run.run_time_s) for run in runs] == [(1, 2.0), (2, None)]
    assert (repeat, goals) == (None, [])
    runs, repeat, _ = runs_of_jobs(lambda op, **_: {"jobs": jobs[:1]}, {})
    assert repeat == "seed"
