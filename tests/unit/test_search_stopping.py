"""Early stopping: what pruners are told, what they decide, and that a kill changes neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import optuna
import pytest

from stoker.errors import Failed, UsageError
from stoker.metrics.lookup import Lookup
from stoker.search.stopping import EarlyStops, Judge, Stopping, asked, pruner, steps_of

ASHA = Stopping("asha", min_steps=3)
GOOD = [(float(step), 1.0 / step) for step in range(1, 20)]
BAD = [(float(step), 9.0) for step in range(1, 20)]


class Killed(Exception):
    """The searcher is gone."""


class Dying:
    """A storage that is not there any more after so many writes."""

    def __init__(self, storage: Any, writes: int) -> None:
        self._storage, self.left = storage, writes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("set_trial"):
            if not self.left:
                raise Killed
            self.left -= 1
        return getattr(self._storage, name)


def _study(stopping: Stopping) -> Any:
    # Hyperband chooses its brackets by the name.
    return optuna.create_study(study_name="s", pruner=pruner(optuna, stopping))


def _trial(study: Any, number: int) -> Any:
    return study.get_trials(deepcopy=True)[number]


def _took_in(study: Any, number: int, points: Sequence[tuple[float, float]]) -> Any:
    return Judge(study).take_in(_trial(study, number), points)


def _with_a_good_trial(stopping: Stopping) -> Any:
    study = _study(stopping)
    study.ask()
    assert _took_in(study, 0, GOOD) is None
    study.tell(0, 1 / 19)
    study.ask()
    return study


def test_a_trial_that_is_behind_is_to_be_stopped_at_the_first_step_that_counts() -> None:
    study = _with_a_good_trial(ASHA)
    assert _took_in(study, 1, BAD[:2]) is None, "not before --min-steps"
    assert _took_in(study, 1, BAD[:3]) == (3, 9.0)
    assert _took_in(study, 1, BAD) == (3, 9.0), "it stays decided"
    assert sorted(_trial(study, 1).intermediate_values) == list(range(1, 20))


def test_what_optuna_would_decide_step_by_step_is_what_is_decided() -> None:
    for stopping in (ASHA, Stopping("median"), Stopping("hyperband", 1, 19, 3)):
        ours, theirs = _study(stopping), _study(stopping)
        stopped = 0
        for number in range(12):
            points = [(float(step), (number * 7 % 5) / step) for step in range(1, 20)]
            ours.ask()
            ours_at = _took_in(ours, number, points)
            trial, theirs_at = theirs.ask(), None
            for step, value in points:
                trial.report(value, int(step))
                if trial.should_prune():
                    theirs_at = (int(step), value)
                    break
            assert ours_at == theirs_at, (stopping, number)
            stopped += ours_at is not None
            for study, state in ((ours, ours_at), (theirs, theirs_at)):
                if state is None:
                    study.tell(number, points[-1][1])
                else:
                    study.tell(number, state=optuna.trial.TrialState.PRUNED)
        assert 0 < stopped < 12


@pytest.mark.parametrize("rule", ["asha", "median", "hyperband"])
def test_no_rule_stops_a_point_before_min_steps(rule: str) -> None:
    study = _study(Stopping(rule, min_steps=7, max_steps=19 if rule == "hyperband" else None))
    for number in range(8):  # The median needs five that have ended.
        study.ask()
        _took_in(study, number, GOOD)
        study.tell(number, 1 / 19)
    stopped = []
    for number in range(8, 12):
        study.ask()
        assert _took_in(study, number, BAD[:6]) is None
        stopped.append(_took_in(study, number, BAD))
    assert any(stopped)


def test_hyperband_with_a_last_step_need_not_wait_for_a_point_that_ends() -> None:
    for max_steps in (19, None):
        study = _study(Stopping("hyperband", 1, max_steps, 3))
        for _ in range(12):
            study.ask()
        assert _took_in(study, 0, GOOD) is None
        behind = [_took_in(study, number, BAD) for number in range(1, 12)]
        assert any(behind) == (max_steps is not None)


def test_asha_learns_from_the_first_point_that_ends_where_it_begins() -> None:
    study = _study(Stopping("asha"))
    study.ask()
    study.ask()
    assert _took_in(study, 0, GOOD) is None
    assert _took_in(study, 1, BAD) is None, "how long a training is was not seen yet"
    study.tell(0, 1 / 19)
    study.ask()
    study.ask()
    assert _took_in(study, 2, GOOD) is None
    assert _took_in(study, 3, BAD) == (3, 9.0), "an eighth of 19 steps"


def test_points_that_ran_before_asha_knew_its_steps_count_with_their_values_at_these() -> None:
    study = _study(Stopping("asha"))
    for _ in range(3):
        study.ask()
    slow = [(step, 2.0 / step) for step, _ in GOOD]
    _took_in(study, 0, GOOD)
    _took_in(study, 1, slow[:10])
    study.tell(0, 1 / 19)
    assert _took_in(study, 1, slow[:11]) is None, "it is behind only at step 12"
    assert _took_in(study, 2, [(3.0, 0.3)]) is None, "the others had 0.33 and 0.67 at step 3"
    assert _took_in(study, 1, slow[:12]) == (12, 2 / 12)


def test_where_asha_begins_stays_though_a_longer_point_ends_and_the_searcher_is_another() -> None:
    study = _study(Stopping("asha"))
    for _ in range(3):
        study.ask()
    for number, length in enumerate((8, 800)):
        _took_in(study, number, [(float(step), 1 / step) for step in range(1, length)])
        study.tell(number, 1 / length)
        assert _took_in(study, 2, [(0.5, 9.0)]) is None
        study.pruner = pruner(optuna, Stopping("asha"))
    assert _took_in(study, 2, BAD) == (1, 9.0)


@pytest.mark.parametrize("each", [1, 1000])
@pytest.mark.parametrize(("steps", "first"), [(4, 1), (10, 2), (100, 13), (1000, 130)])
def test_asha_leaves_the_first_eighth_of_a_training_alone(
    steps: int, first: int, each: int
) -> None:
    study = _study(Stopping("asha"))
    good, bad = (
        [(float(each * step), value / step) for step in range(1, steps + 1)] for value in (1, 9)
    )
    study.ask()
    _took_in(study, 0, good)
    study.tell(0, 1 / steps)
    study.ask()
    at = _took_in(study, 1, bad)
    assert at is not None and at[0] == first * each


@pytest.mark.parametrize("points", [GOOD, BAD], ids=["good", "bad"])
def test_a_kill_between_any_two_writes_changes_nothing(points: list[tuple[float, float]]) -> None:
    whole = _with_a_good_trial(ASHA)
    decided = _took_in(whole, 1, points)
    for writes in range(40):
        study = _with_a_good_trial(ASHA)
        really = study._storage
        study._storage = Dying(really, writes)
        try:
            _took_in(study, 1, points)
        except Killed:
            pass
        else:
            assert writes > len(points)
            break
        study._storage = really
        assert _took_in(study, 1, points) == decided, f"killed after {writes} writes"
        one, other = _trial(study, 1), _trial(whole, 1)
        assert one.intermediate_values == other.intermediate_values
        assert one.system_attrs == other.system_attrs
        assert one.user_attrs == other.user_attrs


def test_steps_are_whole_and_thinned_at_the_same_places_for_all() -> None:
    assert steps_of([(0, 5.0), (0.5, 4.0), (1.0, 3.0), (99, 2.0)]) == {0: 5.0, 1: 3.0, 99: 2.0}
    assert steps_of([(100, 1.0), (104, 2.0), (110, 3.0)]) == {100: 1.0, 110: 3.0}
    assert list(steps_of([(12_345, 1.0), (12_999, 2.0), (13_001, 3.0)])) == [12_000, 13_000]
    assert steps_of([(-1, 1.0), (float("nan"), 1.0), (float("inf"), 1.0)]) == {}
    assert len(steps_of([(step, 0.0) for step in range(0, 1_000_000, 7)])) < 500


def test_nan_is_behind_whatever_others_have() -> None:
    study = _with_a_good_trial(ASHA)
    stop = _took_in(study, 1, [(3.0, float("nan"))])
    assert stop is not None and stop[0] == 3


@pytest.mark.parametrize(
    ("rule", "min_steps", "words"),
    [("ahsa", None, "there is no rule 'ahsa'"), (None, 3, "--min-steps is about --stop-early")],
)
def test_rules_that_are_not_there_are_refused(
    rule: str | None, min_steps: int | None, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        asked(rule, min_steps, None)


def test_an_option_counts_for_more_than_a_file() -> None:
    of_file = Stopping("hyperband", 2, 16, 4)
    assert asked(None, None, of_file) == of_file
    assert asked(None, 3, of_file) == Stopping("hyperband", 3, 16, 4)
    assert asked("median", None, of_file) == Stopping("median")


class Curves(Lookup):
    """What the reader has written, and how often it was asked for."""

    def __init__(self) -> None:
        super().__init__("/nowhere")
        self.rows: dict[int, tuple[int, list[tuple[float, float]]]] = {}
        self.at, self.reads = 0, 0

    def version(self) -> tuple[int, ...]:
        return (self.at,)

    def settled(self, jobs: Any, name: str, seen: Any) -> Any:
        self.reads += 1
        return [
            (job, attempt, len(points), points)
            for job, (attempt, points) in self.rows.items()
            if job in jobs and seen.get(job) != (attempt, len(points))
        ]


class Learner:
    """A study that has every point stopped at its third value."""

    def __init__(self) -> None:
        self.took: list[tuple[int, int]] = []

    def take_in(
        self, number: int, points: Sequence[tuple[float, float]]
    ) -> tuple[int, float] | None:
        self.took.append((number, len(points)))
        return (3, points[2][1]) if len(points) >= 3 else None


def test_nothing_is_read_while_nothing_is_new_and_a_point_is_stopped_once() -> None:
    curves, learner, asked_for = Curves(), Learner(), []

    def call(op: str, **fields: Any) -> dict[str, Any]:
        asked_for.append((op, fields))
        return {"stopped": True}

    stops = EarlyStops(ASHA, "loss", learner, call, curves)
    curves.rows[7] = (2, BAD[:2])
    stops.look({}, {})
    assert curves.reads == 0, "no point runs"
    for _ in range(3):
        stops.look({0: 7}, {7: 1})
    assert (curves.reads, learner.took, asked_for) == (1, [(0, 2)], [])
    for count in (3, 4, 5):
        curves.at, curves.rows[7] = count, (2, BAD[:count])
        stops.look({0: 7}, {7: 1})
    why = "at step 3: loss 9 (asha)"
    assert asked_for == [("stop_early", {"job_id": 7, "attempt": 2, "why": why})]
    # Its next attempt is the same trial.
    curves.at, curves.rows[7] = 9, (3, BAD[:3])
    stops.look({0: 7}, {7: 1})
    assert [fields["attempt"] for _, fields in asked_for] == [2, 3]


def test_what_an_attempt_had_found_is_no_value_of_the_one_that_was_retried() -> None:
    curves, learner = Curves(), Learner()
    stops = EarlyStops(ASHA, "loss", learner, lambda *_, **__: {}, curves)
    curves.at, curves.rows[7] = 1, (2, BAD)
    stops.look({0: 7}, {7: 3})
    assert learner.took == []
    curves.at, curves.rows[7] = 2, (3, BAD[:1])
    stops.look({0: 7}, {7: 3})
    assert learner.took == [(0, 1)]


def test_a_file_that_can_not_be_read_is_looked_at_again_though_it_has_not_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    curves, learner = Curves(), Learner()
    curves.rows[7] = (1, BAD[:2])
    stops = EarlyStops(ASHA, "loss", learner, lambda *_, **__: {}, curves)

    def fails(*_: Any) -> Any:
        raise Failed("it is locked", "try again")

    with monkeypatch.context() as locked:
        locked.setattr(curves, "settled", fails)
        stops.look({0: 7}, {7: 1})
    assert learner.took == []
    stops.look({0: 7}, {7: 1})
    assert learner.took == [(0, 2)]
