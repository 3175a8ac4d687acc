"""Optuna, and the only place that imports it: a study that is asked for trials and told of them.

A study is in `studies.db` of the home, which optuna-dashboard opens. It is written by one searcher
at a time. Each trial has a seed of its own, so that a searcher that was started again does not
repeat what its predecessor drew.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from typing import Any

from stoker.errors import UsageError, quoted
from stoker.installing import install_command
from stoker.search.reconcile import Runs, Trial
from stoker.search.space import Chosen, Dimension, Options
from stoker.search.spec import Objective
from stoker.search.stopping import STOP, Judge, Point, Stopping, pruner

Accepts = Callable[[Mapping[str, Chosen]], bool]
FILE = "studies.db"
_JOB = "stoker job"  # with a trial: the job that its point is
_BEGUN = "stoker begun"  # with a study: how often its search has begun anew
_LEFT_OUT = "stoker left out"  # with a trial: a point that is not accepted
_BEST = "stoker best"  # with a trial that was stopped early: the best value that it has reached
_TOLD_OF = "stoker told of"  # with a trial: of which runs of its point it was told
_LOCKED_S = 60.0
# Optuna does not let a trial be told twice. So what was told is taken back in its tables, with what
# its pruners have noted of it; what its samplers have noted stays.
_REOPEN = (
    "UPDATE trials SET state = 'RUNNING', datetime_complete = NULL",
    "DELETE FROM trial_values",
    "DELETE FROM trial_intermediate_values",
    f"DELETE FROM trial_user_attributes WHERE key IN ('{_BEST}', '{STOP}', '{_TOLD_OF}') AND",
    "DELETE FROM trial_system_attributes WHERE key GLOB 'completed_rung_*' AND",
)
_EACH_ONCE = ("grid", "bruteforce")  # Beyond the last point, Optuna would begin again.
_TPE_STARTS_AFTER = 10  # trials, as Optuna has it
MOST_DRAWS = 1_000  # for one trial, until one is accepted
# What samplers import only when they are used.
_NEEDS = {"gp": ("scipy", "torch"), "cmaes": ("cmaes",), "qmc": ("scipy",)}


def optuna() -> Any:
    """The module, or the command that installs it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import optuna as module
    except ImportError:
        raise UsageError(
            "a search needs Optuna, which is not installed", f"run: {install_command('optuna')}"
        ) from None
    module.logging.set_verbosity(module.logging.ERROR)
    warnings.filterwarnings("ignore", module="optuna")
    return module


def check(sampler: str, dims: Sequence[Dimension], objectives: Sequence[Objective]) -> None:
    """Refuse what Optuna does not have, or can't do with this space."""
    module = optuna()
    if not all(find_spec(name) for name in _NEEDS.get(sampler.lower(), ())):
        raise _lacks(sampler)  # Some would say so only after the first trials.
    made = _sampler(module, sampler, 0, dims)
    study = module.create_study(directions=[_direction(one) for one in objectives], sampler=made)
    try:
        # A second trial, told of the first, is where samplers say what they can't.
        for _ in range(2):
            trial = study.ask()
            _suggest(trial, dims)
            study.tell(trial, [0.0] * len(objectives))
    except ImportError:
        raise _lacks(sampler) from None
    except (ValueError, TypeError) as error:
        said = " ".join(str(error).split())
        raise UsageError(f"the sampler {sampler} can't do that: {said}", "use tpe") from None
    except RuntimeError:
        pass  # It is at its end, as a small grid soon is.


class Study:
    """One search's study; see the module."""

    def __init__(
        self,
        home: str,
        name: str,
        dims: Sequence[Dimension],
        objectives: Sequence[Objective],
        sampler: str,
        seed: int,
        accepts: Accepts | None = None,
        stopping: Stopping | None = None,
        begun: int = 0,
    ) -> None:
        self._module = optuna()
        self._dims, self._sampler, self._seed, self._accepts = dims, sampler, seed, accepts
        self._size = _size(dims) if is_exhaustible(sampler, dims) else None
        self._is_exhausted = False
        self._path, self._name, self._objectives = f"{home}/{FILE}", name, objectives
        self._stopping, self._begun = stopping, begun
        self._open()

    def _open(self) -> None:
        storage = self._module.storages.RDBStorage(
            f"sqlite:///{self._path}",
            engine_kwargs={"connect_args": {"timeout": _LOCKED_S}},
        )
        created = partial(
            self._module.create_study,
            study_name=self._name,
            storage=storage,
            directions=[_direction(one) for one in self._objectives],
            load_if_exists=True,
            pruner=None if self._stopping is None else pruner(self._module, self._stopping),
        )
        self._study = created()
        if self._study.user_attrs.get(_BEGUN, 0) != self._begun:
            # Its points were removed. A kill in between leaves one without trials, or none.
            self._module.delete_study(study_name=self._name, storage=storage)
            self._study = created()
            self._study.set_user_attr(_BEGUN, self._begun)
        self._judge = Judge(self._study)

    def trials(self) -> list[Trial]:
        """All trials, by their numbers."""
        return [
            Trial(number, one.state.is_finished(), _JOB in one.user_attrs, _told_of(one))
            for number, one in enumerate(self._all())
        ]

    def ask(self) -> int:
        """The number of a new trial."""
        number = len(self._all())
        self._asked(number)
        return number

    def chosen(self, number: int) -> dict[str, Chosen] | None:
        """What a trial tries; one that was cut off while it was asked for is completed.

        One that is not accepted has no number any more: the next takes its place. None if none is
        accepted, and then there is no such trial.
        """
        for _ in range(MOST_DRAWS):
            found = self._all()[number:]
            frozen = found[0] if found else self._asked(number)
            if any(one.name not in frozen.params for one in self._dims):
                self._seeded(frozen.number)
                _suggest(self._module.trial.Trial(self._study, frozen._trial_id), self._dims)
                frozen = self._all()[number]
            chosen = {one.name: frozen.params[one.name] for one in self._dims}
            if self._accepts is None or _JOB in frozen.user_attrs or self._accepts(chosen):
                return chosen
            self._leave_out(frozen)
            if not self.has_more:
                break
        return None

    def _asked(self, number: int) -> Any:
        self._seeded(len(self._everything()))
        _suggest(self._study.ask(), self._dims)
        return self._all()[number]

    def _leave_out(self, frozen: Any) -> None:
        """Samplers are to learn where no points are, so it stays, as one that came to nothing."""
        self._study._storage.set_trial_user_attr(frozen._trial_id, _LEFT_OUT, True)
        self._end(frozen, None, self._module.trial.TrialState.PRUNED)

    def note(self, number: int, job_id: int) -> None:
        """This trial's point is that job."""
        trial_id = self._all()[number]._trial_id
        self._study._storage.set_trial_user_attr(trial_id, _JOB, job_id)

    def reopen(self, numbers: Sequence[int]) -> None:
        """These trials were told of what is not so any more: their points have run again."""
        trials = self._all()
        ids = [(trials[number]._trial_id,) for number in numbers]
        with closing(sqlite3.connect(self._path, _LOCKED_S, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            for change in _REOPEN:
                where = "" if change.endswith("AND") else " WHERE"
                database.executemany(f"{change}{where} trial_id = ?", ids)
            database.execute("COMMIT")
        self._open()  # Of what is finished, Optuna keeps a copy in memory.

    def tell(self, number: int, values: Sequence[float] | None, of: Runs = ()) -> None:
        """What came of a trial: a value for each objective, or nothing."""
        state = self._module.trial.TrialState
        trial = self._noted(number, of)
        self._end(trial, values, state.FAIL if values is None else state.COMPLETE)

    def _noted(self, number: int, of: Runs) -> Any:
        """A trial that is about to be told; after that, Optuna lets nothing be added to it."""
        frozen = self._all()[number]
        self._study._storage.set_trial_user_attr(frozen._trial_id, _TOLD_OF, of)
        return frozen

    def _end(self, frozen: Any, values: Sequence[float] | None, state: Any) -> None:
        self._seeded(frozen.number)
        try:
            self._study.tell(frozen.number, values, state=state)
        except RuntimeError:  # The way in which a sampler says that nothing is left.
            self._is_exhausted = True

    @property
    def has_more(self) -> bool:
        """Whether there are points that were not tried yet; a grid that is at its end has none."""
        if self._is_exhausted:
            return False
        return self._size is None or len(self._everything()) < self._size

    def tell_stopped(self, number: int, best: float | None, of: Runs = ()) -> None:
        """A trial was stopped early: Optuna takes its last value, and `best` is what it reached."""
        frozen = self._noted(number, of)
        if best is not None and math.isfinite(best):
            self._study._storage.set_trial_user_attr(frozen._trial_id, _BEST, best)
        self._end(frozen, None, self._module.trial.TrialState.PRUNED)

    def take_in(self, number: int, points: Sequence[Point]) -> tuple[int, float] | None:
        """Report what is new of a trial; the step and value by which it is to be stopped."""
        trial = self._all()[number]
        return None if trial.state.is_finished() else self._judge.take_in(trial, points)

    def adopt(self, chosen: Mapping[str, Chosen] | None, job_id: int | None) -> None:
        """The next trial is a point of which the study did not know, or nothing is known of it."""
        module = self._module
        state = module.trial.TrialState
        params = chosen or {}
        self._study.add_trial(
            module.trial.create_trial(
                state=state.FAIL if job_id is None else state.RUNNING,
                params=params,
                distributions={
                    one.name: _distribution(module, one) for one in self._dims if one.name in params
                },
                user_attrs={} if job_id is None else {_JOB: job_id},
            )
        )

    def best(self) -> list[tuple[int, list[float]]]:
        """The best trials with their values: one, or with several objectives the Pareto front.

        As in `stoker results`, the best value of a trial counts, and so one that was stopped early
        is the best if it has reached what no other has. Optuna itself takes its last value.
        """
        numbers = {one.number: number for number, one in enumerate(self._all())}
        found = [(numbers[one.number], list(one.values)) for one in self._study.best_trials]
        reached = [
            (number, [float(one.user_attrs[_BEST])])
            for number, one in enumerate(self._all())
            if _BEST in one.user_attrs
        ]
        if not reached:
            return found
        sign = 1 if self._study.direction.name == "MINIMIZE" else -1
        return [min([*found, *reached], key=lambda one: sign * one[1][0])]

    def told_values(self) -> int:
        """How many trials have values."""
        complete = self._module.trial.TrialState.COMPLETE
        return sum(one.state == complete for one in self._all())

    def _all(self) -> list[Any]:
        """The trials that have points; a trial's number is its place among these."""
        return [one for one in self._everything() if _LEFT_OUT not in one.user_attrs]

    def _everything(self) -> list[Any]:
        found: list[Any] = self._study.get_trials(deepcopy=False)
        return found

    def _seeded(self, number: int) -> None:
        # A grid is put into an order by its seed, which has to stay.
        text = f"{self._seed}:{0 if self._sampler.lower() == 'grid' else number}".encode()
        seed = int.from_bytes(hashlib.sha256(text).digest()[:4])
        self._study.sampler = _sampler(self._module, self._sampler, seed, self._dims)
        if self._accepts is not None and isinstance(
            self._study.sampler, self._module.samplers.TPESampler
        ):
            self._study.sampler = self._tpe(seed)

    def _tpe(self, seed: int) -> Any:
        """TPE counts what was left out among its trials: not so for its start, nor for the best."""
        everything = self._everything()
        left_out = sum(_LEFT_OUT in one.user_attrs for one in everything)
        return self._module.samplers.TPESampler(
            seed=seed,
            n_startup_trials=_TPE_STARTS_AFTER + left_out,
            gamma=lambda count: max(1, min(math.ceil(0.1 * (count - left_out)), 25)),
        )


def _told_of(trial: Any) -> Runs:
    return tuple(
        [(job, attempt, state) for job, attempt, state in trial.user_attrs.get(_TOLD_OF, ())]
    )


def _direction(objective: Objective) -> str:
    return "minimize" if objective.goal == "min" else "maximize"


def _sampler(module: Any, name: str, seed: int, dims: Sequence[Dimension]) -> Any:
    """The sampler that Optuna calls so: `tpe` is its TPESampler."""
    kinds = {
        kind.removesuffix("Sampler").lower(): getattr(module.samplers, kind)
        for kind in dir(module.samplers)
        if kind.endswith("Sampler") and not kind.startswith(("Base", "PartialFixed"))
    }
    kind = kinds.get(name.lower())
    if kind is None:
        raise UsageError(
            f"Optuna has no sampler {quoted(name)}", f"there are {', '.join(sorted(kinds))}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind is module.samplers.GridSampler:
                return kind(_grid(dims), seed=seed)
            return kind(seed=seed)
    except ImportError:
        raise _lacks(name) from None


def _lacks(sampler: str) -> UsageError:
    missing = _NEEDS.get(sampler.lower(), ("optuna-integration",))
    return UsageError(
        f"the sampler {sampler} needs {' and '.join(missing)}: not installed",
        f"run: {install_command(*missing)}",
    )


def _grid(dims: Sequence[Dimension]) -> dict[str, list[Any]]:
    grid: dict[str, list[Any]] = {}
    for one in dims:
        if isinstance(one, Options):
            grid[one.name] = one.labels
        elif one.is_whole and one.high - one.low < 10_000:
            grid[one.name] = list(range(int(one.low), int(one.high) + 1))
        else:
            raise UsageError(
                f"the sampler grid has no end with {one.name}", "use randint or choice, or tpe"
            )
    return grid


def is_exhaustible(sampler: str, dims: Sequence[Dimension]) -> bool:
    """Whether a search ends by itself, after it has tried each point of its space once."""
    return sampler.lower() in _EACH_ONCE and _size(dims) is not None


def _size(dims: Sequence[Dimension]) -> int | None:
    """How many points there are; None if they can't be counted."""
    size = 1
    for one in dims:
        if isinstance(one, Options):
            size *= len(one.rows)
        elif one.is_whole:
            size *= int(one.high) - int(one.low) + 1
        elif one.step is not None:
            size *= round((one.high - one.low) / one.step) + 1
        else:
            return None
    return size


def _suggest(trial: Any, dims: Sequence[Dimension]) -> None:
    """Have a trial choose; what it has chosen before stays."""
    for one in dims:
        if isinstance(one, Options):
            trial.suggest_categorical(one.name, one.labels)
        elif one.is_whole:
            trial.suggest_int(one.name, int(one.low), int(one.high))
        else:
            trial.suggest_float(one.name, one.low, one.high, step=one.step, log=one.log)


def _distribution(module: Any, one: Dimension) -> Any:
    kinds = module.distributions
    if isinstance(one, Options):
        return kinds.CategoricalDistribution(one.labels)
    if one.is_whole:
        return kinds.IntDistribution(int(one.low), int(one.high))
    return kinds.FloatDistribution(one.low, one.high, step=one.step, log=one.log)
