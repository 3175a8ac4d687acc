"""Optuna behind a search: it is asked and told by numbers, and goes on where it was killed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import UsageError
from stoker.search import study as of_optuna
from stoker.search.space import Chosen, acceptance, dimensions
from stoker.search.spec import Objective
from stoker.search.stopping import Stopping
from stoker.search.study import Study
from stoker.sweep import notation
from stoker.sweep.axes import Drawn, Numbers
from stoker.sweep.points import Space

SPACE = Space(tuple(map(notation.parsed, ("lr=loguniform(1e-5,1e-1)", "bs=choice(16,32,64)"))))
DIMS = dimensions(SPACE)
LOSS = (Objective("loss", "min"),)


def _study(home: Path, sampler: str = "tpe", seed: int = 0) -> Study:
    return Study(str(home), "s", DIMS, LOSS, sampler, seed)


def _chosen(study: Study, number: int) -> dict[str, Chosen]:
    chosen = study.chosen(number)
    assert chosen is not None
    return chosen


def test_a_study_that_is_opened_again_goes_on_and_draws_nothing_twice(tmp_path: Path) -> None:
    drawn: list[Any] = []
    for number in range(6):
        study = _study(tmp_path, "random")  # As after a kill.
        assert study.ask() == number
        drawn.append(_chosen(study, number)["lr"])
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
    assert set(_chosen(again, 0)) == {"lr", "bs"}
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
    while study.has_more:
        number = study.ask()
        seen.add(_chosen(study, number)["bs"])
        study.tell(number, [1.0])
    assert seen == {"16", "32"}
    assert len(study.trials()) == 2


def test_each_multiple_of_a_step_is_tried_up_to_both_bounds(tmp_path: Path) -> None:
    dims = dimensions(Space((Drawn("x", Numbers("uniform", 0.0, 1.0, step=0.5)),)))
    study, seen = Study(str(tmp_path), "s", dims, LOSS, "bruteforce", 0), []
    while study.has_more:
        number = study.ask()
        seen.append(_chosen(study, number)["x"])
        study.tell(number, [1.0])
    assert sorted(map(float, seen)) == [0.0, 0.5, 1.0]


SMALL = Space(tuple(map(notation.parsed, ("a=choice(1,2,3)", "b=randint(1,4)"))))


@pytest.mark.parametrize("sampler", ["grid", "bruteforce"])
def test_each_point_of_a_grid_is_tried_once_also_if_several_run_at_a_time(
    tmp_path: Path, sampler: str
) -> None:
    dims, seen = dimensions(SMALL), []
    while (study := Study(str(tmp_path), "s", dims, LOSS, sampler, 7)).has_more:  # As after a kill.
        number = study.ask()
        seen.append(study.chosen(number))
        if number >= 3:
            study.tell(number - 3, [float(number)])  # Three others run meanwhile.
    assert len({str(chosen) for chosen in seen}) == len(seen) == 12


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsgaii", "nsgaiii", "bruteforce", "grid"])
def test_what_is_left_out_has_no_number_and_is_never_tried(tmp_path: Path, sampler: str) -> None:
    dims, accepts = dimensions(SMALL), acceptance(SMALL, ["a * b < 7", "a != 2"])
    seen: list[Any] = []
    for number in range(6):
        study = Study(str(tmp_path), "s", dims, LOSS, sampler, 0, accepts)  # As after a kill.
        assert study.ask() == number
        chosen = Study(str(tmp_path), "s", dims, LOSS, sampler, 0, accepts).chosen(number)
        assert chosen is not None
        assert study.chosen(number) == chosen
        study.note(number, number)
        study.tell(number, [float(chosen["b"])])
        seen.append((int(chosen["a"]), chosen["b"]))
    assert [trial.told for trial in study.trials()] == [True] * 6
    assert all(a * b < 7 and a != 2 for a, b in seen)
    values = [b for _, b in seen]
    assert study.best()[0] == (values.index(min(values)), [min(values)])


def test_a_condition_that_no_point_fulfils_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_optuna, "MOST_DRAWS", 5)
    study = Study(str(tmp_path), "s", DIMS, LOSS, "random", 0, lambda _: False)
    assert study.chosen(study.ask()) is None
    assert study.trials() == []
    assert study.has_more


def test_tpe_learns_where_no_points_are(tmp_path: Path) -> None:
    space = Space(tuple(map(notation.parsed, ("x=uniform(0,1)", "y=uniform(0,1)"))))
    drawn = 0

    def accepts(chosen: Any) -> bool:
        nonlocal drawn
        drawn += 1
        return bool(chosen["x"] + chosen["y"] < 0.7)

    study = Study(str(tmp_path), "s", dimensions(space), LOSS, "tpe", 0, accepts)
    for number in range(30):
        chosen = study.chosen(study.ask())
        assert chosen is not None
        study.tell(number, [-float(chosen["x"]) - float(chosen["y"])])  # The best is at the edge.
        if number == 14:
            at_first = drawn
    assert drawn - at_first < at_first, "later fewer are drawn in vain"
    assert study.best()[0][1][0] < -0.6


NUMBERS = dimensions(Space(tuple(map(notation.parsed, ("x=uniform(0,1)", "y=loguniform(1e-3,1)")))))


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsgaii", "nsgaiii", "TPE"])
def test_samplers_go_by_the_names_that_optuna_gives_them(tmp_path: Path, sampler: str) -> None:
    of_optuna.check(sampler, DIMS, LOSS)
    drawn: list[Any] = []
    for seed in (1, 1, 2):
        home = tmp_path / f"{len(drawn)}"
        home.mkdir()
        study = _study(home, sampler, seed)
        for number in range(4):
            study.tell(study.ask(), [float(number)])
        drawn.append([study.chosen(number) for number in range(4)])
    assert drawn[0] == drawn[1] != drawn[2], "the seed says which points"
    assert all(chosen and chosen["bs"] in ("16", "32", "64") for chosen in drawn[0])


@pytest.mark.parametrize(
    ("sampler", "needs"), [("cmaes", ["cmaes"]), ("gp", ["scipy", "torch"]), ("qmc", ["scipy"])]
)
def test_a_sampler_works_or_names_what_it_needs(
    tmp_path: Path, sampler: str, needs: list[str]
) -> None:
    if all(importlib.util.find_spec(name) for name in needs):
        of_optuna.check(sampler, NUMBERS, LOSS)
        study = Study(str(tmp_path), "s", NUMBERS, LOSS, sampler, 0)
        for number in range(3):
            study.tell(study.ask(), [float(number)])
        assert len({str(study.chosen(number)) for number in range(3)}) == 3
    else:
        with pytest.raises(UsageError, match=f"the sampler {sampler} needs {needs[0]}") as refused:
            of_optuna.check(sampler, NUMBERS, LOSS)
        assert all(name in refused.value.hint for name in needs)


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
    study = Study(str(tmp_path), "s", DIMS, (Objective("loss", goal),), "random", 0, None, asha)
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


def test_a_trial_that_is_opened_again_has_its_number_and_nothing_that_it_was_told(
    tmp_path: Path,
) -> None:
    asha = Stopping("asha", 1)
    study = Study(str(tmp_path), "s", DIMS, LOSS, "tpe", 0, None, asha)
    first, second = (_chosen(study, study.ask()) for _ in range(2))
    for number, job in ((0, 7), (1, 8)):
        study.note(number, job)
    study.take_in(0, [(1.0, 0.25)])
    study.tell(0, [0.25], ((7, 1, "succeeded"),))
    assert study.take_in(1, [(1.0, 9.0)]) == (1, 9.0), "it is to be stopped"
    study.tell_stopped(1, 9.0, ((8, 1, "stopped"),))
    study.reopen([0, 1])
    for again in (study, Study(str(tmp_path), "s", DIMS, LOSS, "tpe", 0, None, asha)):
        assert [(one.told, one.queued, one.told_of) for one in again.trials()] == [
            (False, True, ())
        ] * 2
        assert again.best() == []
        assert [again.chosen(0), again.chosen(1)] == [first, second]
    assert study.take_in(1, [(1.0, 0.125)]) is None, "it is judged anew"
    study.tell(1, [0.125], ((8, 2, "succeeded"),))
    study.tell(0, None, ((7, 2, "failed"),))
    assert study.best() == [(1, [0.125])]
    assert [one.told_of for one in study.trials()] == [
        ((7, 2, "failed"),), ((8, 2, "succeeded"),)
    ]  # fmt: skip
    assert [(one.number, one.state.name) for one in study._all()] == [(0, "FAIL"), (1, "COMPLETE")]
    assert study.ask() == 2


def test_a_grid_knows_the_points_of_trials_that_were_opened_again(tmp_path: Path) -> None:
    dims = dimensions(Space((notation.parsed("x=choice(1,2,3)"),)))
    study = Study(str(tmp_path), "s", dims, LOSS, "grid", 0)
    first = _chosen(study, study.ask())
    study.tell(0, None)
    study.reopen([0])
    study.tell(0, [0.5])
    others = [_chosen(study, study.ask())["x"] for _ in range(2)]
    assert {first["x"], *others} == {"1", "2", "3"}


def test_points_that_are_left_out_do_not_shift_the_numbers_of_those_stopped_early(
    tmp_path: Path,
) -> None:
    drawn = iter([False, False, True, False, True])
    study = Study(
        str(tmp_path), "s", DIMS, LOSS, "random", 0, lambda _: next(drawn), Stopping("asha", 1)
    )
    for number in range(2):
        assert study.chosen(study.ask()) is not None
        study.note(number, number + 7)
    study.take_in(1, [(1.0, 0.25), (2.0, 0.5)])
    study.tell_stopped(1, 0.25)
    study.tell(0, [0.75])
    assert study.best() == [(1, [0.25])]
    assert [one.state.name for one in study._all()] == ["COMPLETE", "PRUNED"]
    assert study._all()[1].intermediate_values == {1: 0.25, 2: 0.5}
