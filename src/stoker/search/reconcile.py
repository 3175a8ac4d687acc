"""What is to be done so that a study says what Stoker's points say. Pure.

The truth about points is Stoker's record; a study is what a sampler learns from. Either may be
behind the other: the searcher, the daemon or both can be killed between any two steps. A trial and
its point have the same number, and so each step is taken once, whatever was done before.

- A trial is asked for, and then its point is queued. A trial without a point was not queued yet.
- A point is queued, and then noted with its trial. A trial that was noted, and whose point is
  gone, was removed by a user: nothing more will come of it.
- A point ends, and then its trial is told, with the runs of which it is told. If these are not
  those of the point any more, because it was retried, the trial is opened again, and told anew.
- A study that is behind (its file was deleted, say) is filled from the points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Runs = tuple[tuple[int, int, str], ...]  # of a point: job, attempt and state of each


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial as the study has it; its number is its place."""

    number: int
    told: bool
    queued: bool  # it was noted that its point is queued
    told_of: Runs = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """A point as Stoker has it."""

    number: int
    final: bool
    runs: Runs = ()


@dataclass(frozen=True, slots=True)
class _OfTrial:
    number: int


class Fill(_OfTrial):
    """The next trial of the study is one of which nothing is known any more."""


class Adopt(_OfTrial):
    """The next trial of the study is this point, of which it does not know."""


class Queue(_OfTrial):
    """The point of this trial is to be queued."""


class Note(_OfTrial):
    """This trial's point is queued, which the study does not know."""


class Reopen(_OfTrial):
    """This trial was told of runs that its point has not any more."""


class Tell(_OfTrial):
    """This trial's point has ended."""


class GiveUp(_OfTrial):
    """Nothing more will come of this trial."""


Step = Fill | Adopt | Queue | Note | Reopen | Tell | GiveUp


def steps(trials: Sequence[Trial], points: Iterable[Seen]) -> list[Step]:
    """What is to be done, in this order; after each, the rest is still right."""
    by_number = {point.number: point for point in points}
    found: list[Step] = [
        Adopt(number) if number in by_number else Fill(number)
        for number in range(len(trials), max(by_number, default=-1) + 1)
    ]
    for trial in trials:
        found += _of_told(trial, by_number) if trial.told else _of_trial(trial, by_number)
    return found


def _of_told(trial: Trial, points: Mapping[int, Seen]) -> list[Step]:
    point = points.get(trial.number)
    if point is None or (point.final and point.runs == trial.told_of):
        return []
    again: list[Step] = [Reopen(trial.number)]
    return [*again, Tell(trial.number)] if point.final else again


def _of_trial(trial: Trial, points: Mapping[int, Seen]) -> list[Step]:
    point = points.get(trial.number)
    if point is None:
        return [GiveUp(trial.number) if trial.queued else Queue(trial.number)]
    note: list[Step] = [] if trial.queued else [Note(trial.number)]
    return [*note, Tell(trial.number)] if point.final else note


def may_ask(
    waiting: int, unfinished: int, asked: int, *, samples: int | None, max_running: int | None
) -> bool:
    """Whether one more point may run now: never more than one waits for its turn.

    A point that waits knows less than one that is asked for when its turn comes.
    """
    if samples is not None and asked >= samples:
        return False
    if max_running is not None and unfinished >= max_running:
        return False
    return waiting == 0
