"""The search of the benchmark is a real one, and its slots are never used twice at once."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.objectives import PROBLEMS, Problem, branin, hartmann6, learning_curves
from harness.virtual_slots import FASTEST_S, SLOWEST_S, Run, VirtualSlots
from rows.search import SLOTS, Asked, regret, through_stoker, without_stoker


def at_once(runs: list[Run], moment_s: float) -> int:
    return sum(one.starts_s <= moment_s < one.ends_s for one in runs)


def test_known_functions_are_least_where_they_are_known_to_be() -> None:
    x, y = 3.14159265, 2.275
    assert branin(0).value({"x": x, "y": y}) == pytest.approx(branin(0).least, abs=1e-6)
    place = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)
    at = {one.name: x for one, x in zip(hartmann6(0).space, place, strict=True)}
    assert hartmann6(0).value(at) == pytest.approx(hartmann6(0).least, abs=1e-5)


@pytest.mark.parametrize("max_running", [SLOTS, None])
def test_slots_have_one_run_at_a_time_and_none_waits_while_points_are_left(
    max_running: int | None,
) -> None:
    slots = through_stoker(branin(1), 1, Asked("random", 30, max_running))
    assert [one.state for one in slots.runs] == ["succeeded"] * 30
    assert slots.waited_s == 0
    for run in slots.runs:
        assert FASTEST_S <= run.ends_s - run.starts_s <= SLOWEST_S
        assert at_once(slots.runs, run.starts_s) <= SLOTS
    last_start_s = max(one.starts_s for one in slots.runs)
    for run in slots.runs:
        if run.ends_s < last_start_s:
            assert at_once(slots.runs, run.ends_s) == SLOTS


def test_the_time_of_the_searcher_is_counted_where_it_matters(tmp_path: Path) -> None:
    slots = through_stoker(branin(1), 1, Asked(trials=12), str(tmp_path))
    assert slots.waited_s > 0
    assert (tmp_path / "studies.db").exists()


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=list(PROBLEMS))
def test_a_search_is_the_same_for_a_seed_and_learns(
    problem: Callable[[int], Problem],
) -> None:
    first, again = (through_stoker(problem(3), 3, Asked(trials=80)) for _ in range(2))
    assert [one.params for one in first.runs] == [one.params for one in again.runs]
    early, late = first.runs[:20], first.runs[-20:]
    value = first.problem.value
    assert statistics.median(value(one.params) for one in late) < statistics.median(
        value(one.params) for one in early
    )
    assert regret(first) >= 0 and without_stoker(problem(3), 3, 10, SLOTS) >= 0


def test_a_run_reports_step_by_step() -> None:
    problem = learning_curves(0)
    slots = VirtualSlots(problem, SLOTS, 0)
    params = {"lr": 1e-3, "decay": 1e-4, "width": 0.5, "dropout": 0.2}
    slots.call("submit", each=[{"point": "p", "params": params}])
    [run] = slots.runs
    halfway_s = run.starts_s + run.takes_s / 2
    assert len(run.reported(halfway_s)) == len(run.reports) // 2
    assert run.reported(run.ends_s) == run.reports


def test_a_run_that_is_stopped_early_frees_its_slot_at_once() -> None:
    asked = Asked("random", 40, stop_early="asha", min_steps=3)
    slots = through_stoker(learning_curves(0), 0, asked)
    stopped = [one for one in slots.runs if one.state == "stopped"]
    assert len(stopped) > 20 and slots.waited_s == 0
    assert all(3 <= len(one.reported(one.ends_s)) < len(one.reports) for one in stopped)
    assert slots.gpu_s_until(slots.now_s) == pytest.approx(slots.gpu_s)
