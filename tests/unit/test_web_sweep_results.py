"""A sweep's table for the page: its rows, which is best, and what need not be said again."""

from __future__ import annotations

from typing import Any

from stoker.web.bodies import SweepResultsQuestion
from stoker.web.sweep_results import answer, unless_known


def found(params: dict[str, list[Any]], absent: dict[str, list[int]], **more: Any) -> Any:
    """The daemon's table of a sweep whose jobs have ended, but for those in `running`."""
    total = len(next(iter(params.values())))
    running = more.pop("running", ())
    ends = [None if place in running else 2000 for place in range(total)]
    columns = {
        "id": list(range(1, total + 1)),
        "state": ["succeeded" if end else "running" for end in ends],
        "started_at_ms": [1000] * total, "ended_at_ms": ends, "gpus": [[]] * total,
        "exit_code": [0] * total, "signal": [None] * total,
    }  # fmt: skip
    return {"total": total, "counts": {}, "columns": columns, "params": params, "absent": absent,
            **more}  # fmt: skip


def read(name: str, *values: tuple[int, float | str, float | None]) -> Any:
    """The metrics of jobs: their last values, and the lowest, which is the highest as well."""
    rows = [
        {"job": job, "attempt": 1, "name": name, "count": 1, "last": last, "last_step": 1,
         "min": best, "min_step": 1, "max": best, "max_step": 1}
        for job, last, best in values
    ]  # fmt: skip
    return {"unread": 0, "rows": rows}


def asked(table: Any, metrics: Any, **question: Any) -> Any:
    return answer(table, metrics, SweepResultsQuestion("s", **question))


def test_rows_are_in_the_order_of_their_first_runs_whichever_of_them_is_best() -> None:
    table = found({"lr": [1, 2, 2, 1], "seed": [0, 0, 1, 1]}, {}, repeat="seed")
    metrics = read("loss", (1, 9.0, 9.0), (2, 3.0, 3.0), (3, 4.0, 4.0), (4, 1.0, 1.0))
    said = asked(table, metrics, metric="loss")
    assert said["columns"]["ids"] == [[1, 4], [2, 3]]
    assert said["columns"]["id"] == [4, 2], "each by its best run"


def test_a_parameter_that_is_none_is_there() -> None:
    table = found({"lr": [None, 1, None]}, {"lr": [2]})
    [param] = asked(table, read("loss"))["params"]
    assert (param["values"], param["absent"]) == ([None, 1, None], [2])


def test_the_run_time_of_a_point_is_judged_when_all_of_its_runs_have_ended() -> None:
    table = found({"lr": [1, 1, 2, 2], "seed": [0, 1, 0, 1]}, {}, repeat="seed", running=(1,))
    assert asked(table, read("loss"))["judged_by"] == 1


def test_a_run_whose_last_value_is_nan_is_not_the_best() -> None:
    table = found({"lr": [1, 2, 3]}, {})
    metrics = read("loss", (1, "nan", None), (2, 5.0, 5.0), (3, 4.0, 4.0))
    for value in ("last", "best"):
        assert asked(table, metrics, metric="loss", value=value)["best"] == 2


def test_the_goal_of_a_search_counts_for_more_than_the_name_of_its_metric() -> None:
    table = found(
        {"lr": [1, 2]},
        {},
        search={
            "objectives": [["loss", "max"]],
            "state": "ended",
            "progress": {"over": "it was cancelled"},
        },
    )
    said = asked(table, read("loss", (1, 1.0, 1.0), (2, 2.0, 2.0)), likely=True)
    assert (said["metric"], said["goal"], said["best"]) == ("loss", "max", 1)


def test_what_is_known_is_said_without_its_long_parts() -> None:
    whole = asked(found({"lr": [1, 2]}, {}), read("loss", (1, 1.0, 1.0)), metric="loss")
    short = unless_known(whole, whole["version"])
    assert not short["changed"] and short["best"] == whole["best"]
    for name in ("columns", "params", "metrics", "importance"):
        assert whole[name] and not short[name]
    assert unless_known(whole, "another") == whole
