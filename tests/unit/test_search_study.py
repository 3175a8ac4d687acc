"""Optuna behind a search: it is asked and told by numbers, and goes on where it was killed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import UsageError
from stoker.search import study as of_optuna
from stoker.search.space import dimensions
from stoker.search.spec import Objective
from stoker.search.stopping import Stopping
from stoker.search.study import Study
from stoker.sweep import notation
from stoker.sweep.points import Space

SPACE = Space(tuple(map(notation.parsed, ("lr=loguniform(1e-5,1e-1)", "bs=choice(16,32,64)"))))
DIMS = dimensions(SPACE)
LOSS = (Objective("loss", "min"),)


def _study(home: Path, sampler: str = "tpe", seed: int = 0) -> Study:
    return Study(str(home), "s", DIMS, LOSS, sampler, seed)


def test_a_study_that_is_opened_again_goes_on_and_draws_nothing_twice(tmp_path: Path) -> None:
    drawn: list[Any] = []
    for number in range(6):
        study = _study(tmp_path, "random")  # As after a kill.
        assert study.ask() == number
        drawn.append(study.chosen(number)["lr"])
        study.note(number, 100 + number)
        study.tell(number, [float(number)])
    assert len(set(drawn)) == 6
    study = _study(tmp_path)
    assert [(t.number, t.told, t.queued) for t in study.trials()] == [
        (n, True, True) for n in range(6)
    ]
    assert study.best() == [(0, [0.0])]


def test_the_same_seed_gives_the_same_points(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    drawn = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        study = _study(tmp_path / name, seed=seed)
        drawn.append([study.chosen(study.ask()) for _ in range(3)])
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_trial_that_was_cut_off_while_it_was_asked_for_is_completed(tmp_path: Path) -> None:
    study = _study(tmp_path)
    study._study.ask()  # It has a number, and has chosen nothing yet.
    again = _study(tmp_path)
    [trial] = again.trials()
    assert not trial.told
    assert set(again.chosen(0)) == {"lr", "bs"}
    assert again.chosen(0) == again.chosen(0)


def test_points_that_the_study_does_not_know_are_taken_in(tmp_path: Path) -> None:
    study = _study(tmp_path)
    study.adopt({"lr": 0.01, "bs": "32"}, 7)
    study.adopt(None, None)  # Nothing is known of it.
    study.tell(0, [0.5])
    assert [(t.told, t.queued) for t in study.trials()] == [(True, True), (True, False)]
    assert study.chosen(0) == {"lr": 0.01, "bs": "32"}
    assert study.best() == [(0, [0.5])]
    assert study.ask() == 2


def test_a_failed_trial_has_no_value(tmp_path: Path) -> None:
    study = _study(tmp_path)
    study.tell(study.ask(), None)
    assert study.best() == []
    assert study.told_values() == 0


def test_a_small_grid_comes_to_its_end(tmp_path: Path) -> None:
    dims = dimensions(Space((notation.parsed("bs=choice(16,32)"),)))
    study = Study(str(tmp_path), "s", dims, LOSS, "grid", 0)
    seen = set()
    while not study.is_exhausted:
        number = study.ask()
        seen.add(study.chosen(number)["bs"])
        study.tell(number, [1.0])
    assert seen == {"16", "32"}
    assert len(study.trials()) == 2


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsgaii", "TPE"])
def test_samplers_go_by_the_names_that_optuna_gives_them(sampler: str) -> None:
    of_optuna.check(sampler, DIMS, LOSS)


@pytest.mark.parametrize(
    ("sampler", "said"),
    [("magic", "Optuna has no sampler 'magic'"), ("grid", "has no end with lr")],
)
def test_a_sampler_that_is_not_there_or_can_not_do_it_is_refused(sampler: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        of_optuna.check(sampler, DIMS, LOSS)


def test_a_sampler_that_needs_more_than_optuna_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cmaes", None)
    dims = dimensions(Space((notation.parsed("x=uniform(0,1)"), notation.parsed("y=uniform(0,1)"))))
    with pytest.raises(UsageError, match="the sampler cmaes needs cmaes") as refused:
        of_optuna.check("cmaes", dims, LOSS)
    assert refused.value.hint.endswith("pip install cmaes")


def test_without_optuna_the_command_that_installs_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError) as refused:
        of_optuna.check("tpe", DIMS, LOSS)
    assert "Optuna, which is not installed" in refused.value.message
    assert sys.executable in refused.value.hint
    assert "optuna>=" in refused.value.hint


@pytest.mark.parametrize(("goal", "reached", "number"), [
    ("min", 0.4, 1), ("min", 0.5, 0), ("min", 0.6, 0), ("max", 0.6, 1), ("max", 0.4, 0),
])  # fmt: skip
def test_a_trial_that_was_stopped_early_is_the_best_only_if_no_other_is_as_good(
    tmp_path: Path, goal: Any, reached: float, number: int
) -> None:
    asha = Stopping("asha", 1)
    study = Study(str(tmp_path), "s", DIMS, (Objective("loss", goal),), "random", 0, asha)
    study.tell(study.ask(), [0.5])
    study.take_in(study.ask(), [(1.0, reached), (2.0, 7.0)])
    study.tell_stopped(1, reached)
    [(best, [value])] = study.best()
    assert (best, value) == (number, reached if number else 0.5)
    assert study.told_values() == 1
    assert [trial.told for trial in study.trials()] == [True, True]
    [pruned] = [one for one in study._all() if one.state.name == "PRUNED"]
    assert pruned.value == 7.0, "what Optuna learns from is the last value"
    assert study.take_in(1, [(9.0, 1.0)]) is None, "nothing is reported of what was told"
