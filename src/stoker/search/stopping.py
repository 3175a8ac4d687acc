"""Early stopping: which points are told to stop, by the values that they have had so far.

Optuna's pruners decide. What they are told and what they decide is in the study's storage, in an
order in which a searcher can be killed between any two steps: first that a trial is to be stopped,
then what the pruner remembers of it, and only then the value by which it was decided. So a step
that has no value there is judged anew, with the same result, and one that has is never judged
twice. A trial that is to be stopped is stopped by the next searcher, if not by this one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from stoker.errors import Failed, UsageError, quoted
from stoker.text.suggest import nearest

if TYPE_CHECKING:
    from stoker.metrics.lookup import Lookup

RULES = ("asha", "median", "hyperband")
LOOK_EVERY_S = 0.5  # at the file that the reader writes about once a second
_EXACT_STEPS = 100
_PARTS = 8  # of a training: asha compares points first after one of them
_LEAST = "stoker min steps"  # with a study: the step at which asha compares points first
STOP = "stoker stop"  # with a trial: step and value by which it is to be stopped, and the notes

Call = Callable[..., dict[str, Any]]
Point = tuple[float, float]  # step and value


@dataclass(frozen=True, slots=True)
class Stopping:
    """By which rule points are stopped early; None: as Optuna has it."""

    rule: str
    min_steps: int | None = None
    max_steps: int | None = None  # hyperband: None is the most that was seen
    reduction: int | None = None

    def to_wire(self) -> dict[str, Any]:
        """As it is kept."""
        return asdict(self)


def from_wire(kept: Mapping[str, Any] | None) -> Stopping | None:
    """What `to_wire` has made."""
    return None if kept is None else Stopping(**kept)


def asked(rule: str | None, min_steps: int | None, of_file: Stopping | None) -> Stopping | None:
    """What the options say, or else a file; UsageError for what makes no sense."""
    if rule is not None and rule not in RULES:
        guess = nearest(rule, list(RULES))
        hint = f"did you mean {guess}?" if guess else f"write {', '.join(RULES)}"
        raise UsageError(f"--stop-early: there is no rule {quoted(rule)}", hint)
    found = of_file if rule is None else Stopping(rule)
    if min_steps is None:
        return found
    if found is None:
        raise UsageError("--min-steps is about --stop-early", "add --stop-early asha")
    return replace(found, min_steps=min_steps)


def refuse_several(stopping: Stopping | None, objectives: Sequence[object]) -> None:
    """Of several goals Optuna can't say which points are behind."""
    if stopping is not None and len(objectives) > 1:
        raise UsageError(
            "--stop-early can't choose between several goals",
            "leave it out, or name one --minimize or --maximize",
        )


def pruner(module: Any, stopping: Stopping) -> Any:
    """Optuna's own."""
    of, least = module.pruners, stopping.min_steps
    if stopping.rule == "median":
        return of.MedianPruner(n_warmup_steps=least or 0)
    if stopping.rule == "hyperband":
        return of.HyperbandPruner(least or 1, stopping.max_steps or "auto", stopping.reduction or 3)
    reduction = stopping.reduction or 4
    return of.SuccessiveHalvingPruner(least, reduction) if least else _Asha(module, reduction)


def steps_of(points: Iterable[Point]) -> dict[int, float]:
    """The values by whole steps, of each the first; from 100 on, by two digits of them.

    Pruners compare points at the same steps. A series of a million steps is thinned, and each in
    its own places; so that there are some that all have, and not a million, 12,345 is 12,000.
    """
    found: dict[int, float] = {}
    for step, value in points:
        if step >= 0 and math.isfinite(step):
            found.setdefault(_rounded(int(step)), value)
    return found


def _rounded(step: int) -> int:
    if step < _EXACT_STEPS:
        return step
    unit = int(f"1{'0' * (len(str(step)) - 2)}")
    return step - step % unit


class _Noting:
    """A storage whose notes on trials are not written, but collected."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.notes: dict[str, Any] = {}

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Collect it; it is about the trial that is being judged."""
        self.notes[key] = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


class _Asha:
    """Optuna's asha, which begins after an eighth of the steps of the first point that has ended.

    Points have run before that is known. What they had reached at which step is derived from their
    values, so that all are compared at the same steps.
    """

    def __init__(self, module: Any, reduction: int) -> None:
        self._module, self._reduction = module, reduction
        self._optunas: Any = None
        self._ended: dict[int, Any] = {}  # trials that change no more, with what they had reached

    def prune(self, study: Any, trial: Any) -> bool:
        """Whether a trial is behind at its last step."""
        if not self._knows(study):
            return False
        before = copy.copy(trial)
        before.intermediate_values = dict(trial.intermediate_values)
        del before.intermediate_values[trial.last_step]
        beside = copy.copy(study)
        beside.get_trials = lambda **_: [
            self._noted(study, one)
            for one in study.get_trials(deepcopy=False)
            if one._trial_id != trial._trial_id
        ]
        judged = copy.copy(trial)
        judged.system_attrs = self._noted(study, before).system_attrs
        return bool(self._optunas.prune(beside, judged))

    def _knows(self, study: Any) -> bool:
        if self._optunas is None:
            least = study.user_attrs.get(_LEAST)
            if least is None:
                complete = (self._module.trial.TrialState.COMPLETE,)
                ended = study.get_trials(deepcopy=False, states=complete)
                steps = [one.last_step for one in ended if one.last_step is not None]
                if not steps:
                    return False
                least = max(1, math.ceil(max(steps) / _PARTS))
                study.set_user_attr(_LEAST, least)
            of = self._module.pruners
            self._optunas = of.SuccessiveHalvingPruner(least, self._reduction)
        return True

    def _noted(self, study: Any, trial: Any) -> Any:
        """The trial with the notes that Optuna makes of its values, step by step."""
        found = self._ended.get(trial._trial_id)
        if found is not None:
            return found
        alone, noted = copy.copy(study), copy.copy(trial)
        noting = alone._storage = _Noting(study._storage)
        alone.get_trials = lambda **_: []
        noted.intermediate_values, noted.system_attrs = {}, noting.notes
        for step, value in sorted(trial.intermediate_values.items()):
            noted.intermediate_values[step] = value
            self._optunas.prune(alone, noted)
        if trial.state.is_finished():
            self._ended[trial._trial_id] = noted
        return noted


class Judge:
    """The pruner of a study, asked step by step."""

    def __init__(self, study: Any) -> None:
        self._study = study

    def take_in(self, trial: Any, points: Iterable[Point]) -> tuple[int, float] | None:
        """Report what is new of a trial; the step and value by which it is to be stopped."""
        storage, trial_id = self._study._storage, trial._trial_id
        stop = trial.user_attrs.get(STOP)
        known = copy.copy(trial)
        known.intermediate_values = dict(trial.intermediate_values)
        known.system_attrs = dict(trial.system_attrs)
        last = -1 if known.last_step is None else known.last_step
        if stop is not None:
            self._note(known, stop[2])
        for step, value in sorted(steps_of(points).items()):
            if step <= last:
                continue
            known.intermediate_values[step] = value
            if stop is None:
                is_behind, notes = self._judged(known)
                if is_behind:
                    stop = [step, said(value), notes]
                    storage.set_trial_user_attr(trial_id, STOP, stop)
                self._note(known, notes)
            storage.set_trial_intermediate_value(trial_id, step, value)
        return None if stop is None else (int(stop[0]), float(stop[1]))

    def _note(self, trial: Any, notes: Mapping[str, Any]) -> None:
        for key, note in notes.items():
            if key not in trial.system_attrs:
                trial.system_attrs[key] = note
                self._study._storage.set_trial_system_attr(trial._trial_id, key, note)

    def _judged(self, trial: Any) -> tuple[bool, dict[str, Any]]:
        beside = copy.copy(self._study)
        noting = beside._storage = _Noting(self._study._storage)
        return bool(self._study.pruner.prune(beside, trial)), noting.notes


def said(value: float) -> float | str:
    """A value as JSON can have it."""
    return value if math.isfinite(value) else repr(value)


class Reported(Protocol):
    """What early stopping needs of a study; see `study.Study`."""

    def take_in(self, number: int, points: Sequence[Point]) -> tuple[int, float] | None:
        """Report what is new of a trial; the step and value by which it is to be stopped."""


class EarlyStops:
    """Looks at the values of points that run, and has those stopped that are behind.

    Values come from the file that the reader of metrics writes, so that nothing is asked of the
    daemon until a point is to be stopped. Whether the file has changed is seen without opening it.
    """

    def __init__(
        self, stopping: Stopping, metric: str, study: Reported, call: Call, kept: Lookup
    ) -> None:
        self._stopping, self._metric = stopping, metric
        self._study, self._call, self._kept = study, call, kept
        self._version: object = None
        self._watched: frozenset[int] = frozenset()
        self._seen: dict[int, tuple[int, int]] = {}  # of each job, how much was looked at
        self._asked: set[tuple[int, int]] = set()

    def look(self, running: Mapping[int, int], attempts: Mapping[int, int]) -> None:
        """Take in what is new of the jobs that run, by the numbers of their trials.

        `attempts`: their numbers. What an earlier one has found is no value of one that was
        retried, and what was put back is found again with the one that goes on.
        """
        version, watched = self._kept.version(), frozenset(running.values())
        if not running or (version == self._version and watched == self._watched):
            return
        self._version, self._watched = version, watched
        numbers = {job: number for number, job in running.items()}
        for job, attempt, count, points in self._read(numbers, self._seen):
            if attempt < attempts.get(job, 0):
                continue
            self._seen[job] = (attempt, count)
            stop = self._study.take_in(numbers[job], points)
            if stop is not None and (job, attempt) not in self._asked:
                self._asked.add((job, attempt))
                self._stop(job, attempt, *stop)

    def finish(self, number: int, job: int) -> None:
        """Take in all of a point that has ended: others are compared with it."""
        for _, _, _, points in self._read([job], {}):
            self._study.take_in(number, points)
        self._seen.pop(job, None)

    def _read(
        self, jobs: Iterable[int], seen: Mapping[int, tuple[int, int]]
    ) -> list[tuple[int, int, int, list[Point]]]:
        try:
            return self._kept.settled(jobs, self._metric, seen)
        except Failed:
            self._version = None  # The file can't be read now: look again soon.
            return []

    def _stop(self, job: int, attempt: int, step: int, value: float) -> None:
        why = f"at step {step}: {self._metric} {value:.4g} ({self._stopping.rule})"
        self._call("stop_early", job_id=job, attempt=attempt, why=why[:1000])
