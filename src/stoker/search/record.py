"""The points of a search as Stoker's record has them, by the numbers of their trials.

A trial is one job or, with `--repeat seed=3`, three, which are queued together. The number of a
job's point is that of its trial times the repeats, plus its own. Only what is new or had not ended
is asked for, so that a look costs the same however many trials were made. What has ended changes
only if it is retried, and then the daemon starts another searcher.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.search.reconcile import Runs, Seen
from stoker.search.spec import Search
from stoker.sweep import identity
from stoker.text.jobs import ENDED_WELL, FINAL_STATES

Call = Callable[..., dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Run:
    """One job of a trial."""

    job_id: int
    attempt: int
    state: str
    cause: str | None
    params: dict[str, Any]

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in FINAL_STATES

    @property
    def has_failed(self) -> bool:
        """Whether it came to nothing, and nobody wanted that."""
        return self.state in ("failed", "lost")


class Record:
    """What was seen of a search's points."""

    def __init__(self, search: Search, call: Call) -> None:
        self._name, self._call = search.name, call
        self._repeats = search.repeats
        self._newest = 0  # the highest id of a job that was seen
        self._unsure: dict[int, tuple[int, int]] = {}  # those that had not ended: trial, repeat
        self._trials: dict[int, dict[int, Run]] = {}  # by trial and repeat
        self._seen: dict[int, Seen] = {}

    def look(self) -> list[Seen]:
        """See what has changed; all trials that have a point."""
        unsure = list(self._unsure)
        answer = self._call("searches", name=self._name, newest=self._newest, unsure=unsure)
        gone = dict(self._unsure)
        for point, job_id, state, cause, params, attempt in answer["points"]:
            gone.pop(job_id, None)
            self._newest = max(self._newest, job_id)
            number = identity.trial_number(self._name, point)
            if number is None:
                continue
            trial, repeat = divmod(number, self._repeats)
            run = Run(job_id, attempt, state, cause, params or {})
            # Of two jobs of one point, the later counts.
            self._trials.setdefault(trial, {})[repeat] = run
            self._seen.pop(trial, None)
            if run.is_final:
                self._unsure.pop(job_id, None)
            else:
                self._unsure[job_id] = trial, repeat
        for job_id, (trial, repeat) in gone.items():
            self._forget(job_id, trial, repeat)
        for trial in self._trials.keys() - self._seen.keys():
            final = all(run.is_final for run in self._trials[trial].values())
            self._seen[trial] = Seen(trial, final, self.told_of(trial))
        return list(self._seen.values())

    def told_of(self, trial: int) -> Runs:
        """What a study is told of, if it is told of a trial now."""
        return tuple([(run.job_id, run.attempt, run.state) for run in self.runs(trial)])

    def _forget(self, job_id: int, trial: int, repeat: int) -> None:
        """Its user has removed it, or put it into another group."""
        del self._unsure[job_id]
        runs = self._trials[trial]
        self._seen.pop(trial, None)
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

    def attempts(self) -> dict[int, int]:
        """The jobs that have not ended, with their attempts."""
        return {run.job_id: run.attempt for run in self.unfinished()}

    def failed(self) -> dict[int, Run]:
        """The trials of which a run has failed, each with that."""
        return {
            trial: run
            for trial, runs in self._trials.items()
            for run in runs.values()
            if run.has_failed
        }

    def has_good(self) -> bool:
        """Whether a trial has ended well, or been stopped early."""
        return any(
            all(run.state in ENDED_WELL for run in runs.values()) for runs in self._trials.values()
        )

    def stopped(self) -> int:
        """How many were stopped early."""
        return sum(
            run.state == "stopped" for runs in self._trials.values() for run in runs.values()
        )
