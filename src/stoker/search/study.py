"""Optuna, and the only place that imports it: a study that is asked for trials and told of them.

A study is in `studies.db` of the home, which optuna-dashboard opens. It is written by one searcher
at a time. Each trial has a seed of its own, so that a searcher that was started again does not
repeat what its predecessor drew.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.errors import UsageError, quoted
from stoker.installing import install_command
from stoker.search.reconcile import Trial
from stoker.search.space import Chosen, Dimension, Options
from stoker.search.spec import Objective
from stoker.search.stopping import Judge, Point, Stopping, pruner

FILE = "studies.db"
_JOB = "stoker job"  # with a trial: the job that its point is
_BEST = "stoker best"  # with a trial that was stopped early: the best value that it has reached
_LOCKED_S = 60.0
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
        stopping: Stopping | None = None,
    ) -> None:
        self._module = optuna()
        self._dims, self._sampler, self._seed = dims, sampler, seed
        self.is_exhausted = False  # all points of a finite space were tried
        storage = self._module.storages.RDBStorage(
            f"sqlite:///{home}/{FILE}",
            engine_kwargs={"connect_args": {"timeout": _LOCKED_S}},
        )
        self._study = self._module.create_study(
            study_name=name,
            storage=storage,
            directions=[_direction(one) for one in objectives],
            load_if_exists=True,
            pruner=None if stopping is None else pruner(self._module, stopping),
        )
        self._judge = Judge(self._study)

    def trials(self) -> list[Trial]:
        """All trials, by their numbers."""
        return [
            Trial(one.number, one.state.is_finished(), _JOB in one.user_attrs)
            for one in self._all()
        ]

    def ask(self) -> int:
        """The number of a new trial."""
        self._seeded(len(self._all()))
        trial = self._study.ask()
        _suggest(trial, self._dims)
        return int(trial.number)

    def chosen(self, number: int) -> dict[str, Chosen]:
        """What a trial tries; one that was cut off while it was asked for is completed."""
        frozen = self._all()[number]
        if any(one.name not in frozen.params for one in self._dims):
            self._seeded(number)
            trial = self._module.trial.Trial(self._study, frozen._trial_id)
            _suggest(trial, self._dims)
            frozen = self._all()[number]
        return {one.name: frozen.params[one.name] for one in self._dims}

    def note(self, number: int, job_id: int) -> None:
        """This trial's point is that job."""
        trial_id = self._all()[number]._trial_id
        self._study._storage.set_trial_user_attr(trial_id, _JOB, job_id)

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """What came of a trial: a value for each objective, or nothing."""
        state = self._module.trial.TrialState
        self._end(number, values, state.FAIL if values is None else state.COMPLETE)

    def _end(self, number: int, values: Sequence[float] | None, state: Any) -> None:
        self._seeded(number)
        try:
            self._study.tell(number, values, state=state)
        except RuntimeError:  # The way in which a sampler says that nothing is left.
            self.is_exhausted = True

    def tell_stopped(self, number: int, best: float | None) -> None:
        """A trial was stopped early: Optuna takes its last value, and `best` is what it reached."""
        if best is not None and math.isfinite(best):
            storage, trial_id = self._study._storage, self._all()[number]._trial_id
            storage.set_trial_user_attr(trial_id, _BEST, best)
        self._end(number, None, self._module.trial.TrialState.PRUNED)

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
        found = [(one.number, list(one.values)) for one in self._study.best_trials]
        pruned = self._module.trial.TrialState.PRUNED
        reached = [
            (one.number, [float(one.user_attrs[_BEST])])
            for one in self._study.get_trials(deepcopy=False, states=(pruned,))
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
        found: list[Any] = self._study.get_trials(deepcopy=False)
        return found

    def _seeded(self, number: int) -> None:
        text = f"{self._seed}:{number}".encode()
        seed = int.from_bytes(hashlib.sha256(text).digest()[:4])
        self._study.sampler = _sampler(self._module, self._sampler, seed, self._dims)


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
