"""The points of a search as Stoker's record has them, by the numbers of their trials.

A trial is one job or, with `--repeat seed=3`, three, which are queued together. The number of a
job's point is that of its trial times the repeats, plus its own. What has ended does not change any
more: only what is new or had not ended is asked for, so that a look costs the same however many
trials were made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.search.reconcile import Seen
from stoker.search.spec import Search
from stoker.sweep import identity
from stoker.text.jobs import FINAL_STATES

Call = Callable[..., dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Run:
    """One job of a trial."""

    job_id: int
    state: str
    params: dict[str, Any]

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in FINAL_STATES


class Record:
    """What was seen of a search's points."""

    def __init__(self, search: Search, call: Call) -> None:
        self._name, self._call = search.name, call
        self._repeats = search.repeats
        self._newest = 0  # the highest id of a job that was seen
        self._unsure: dict[int, tuple[int, int]] = {}  # those that had not ended: trial, repeat
        self._trials: dict[int, dict[int, Run]] = {}  # by trial and repeat

    def look(self) -> list[Seen]:
        """See what has changed; all trials that have a point."""
        unsure = list(self._unsure)
        answer = self._call("searches", name=self._name, newest=self._newest, unsure=unsure)
        gone = dict(self._unsure)
        for point, job_id, state, _, params in answer["points"]:
            gone.pop(job_id, None)
            self._newest = max(self._newest, job_id)
            number = identity.trial_number(self._name, point)
            if number is None:
                continue
            trial, repeat = divmod(number, self._repeats)
            run = Run(job_id, state, params or {})
            # Of two jobs of one point, the later counts.
            self._trials.setdefault(trial, {})[repeat] = run
            if run.is_final:
                self._unsure.pop(job_id, None)
            else:
                self._unsure[job_id] = trial, repeat
        for job_id, (trial, repeat) in gone.items():
            self._forget(job_id, trial, repeat)
        return [
            Seen(trial, final=all(run.is_final for run in runs.values()))
            for trial, runs in self._trials.items()
        ]

    def _forget(self, job_id: int, trial: int, repeat: int) -> None:
        """Its user has removed it, or put it into another group."""
        del self._unsure[job_id]
        runs = self._trials[trial]
        if runs[repeat].job_id == job_id:
            del runs[repeat]
        if not runs:
            del self._trials[trial]

    def runs(self, trial: int) -> list[Run]:
        """The jobs of a trial that has a point, by their repeats."""
        runs = self._trials[trial]
        return [runs[repeat] for repeat in sorted(runs)]

    def unfinished(self) -> list[Run]:
        """The jobs that have not ended."""
        return [self._trials[trial][repeat] for trial, repeat in self._unsure.values()]

    def running(self) -> dict[int, int]:
        """The jobs that run, by their trials."""
        found = ((trial, self._trials[trial][repeat]) for trial, repeat in self._unsure.values())
        return {trial: run.job_id for trial, run in found if run.state == "running"}

    def stopped(self) -> int:
        """How many were stopped early."""
        return sum(
            run.state == "stopped" for runs in self._trials.values() for run in runs.values()
        )
