"""A searcher at work: it asks for a trial as soon as one more may run, and tells of its result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from stoker.errors import StokerError, Unavailable
from stoker.metrics.asking import Summary, metrics_of
from stoker.metrics.results import mean
from stoker.search import reconcile as to_do
from stoker.search.record import Record
from stoker.search.space import Chosen, chosen_of, dimensions, point_of
from stoker.search.spec import FIRST_FAILED, FIRST_WITHOUT_VALUE, Search
from stoker.search.stopping import EarlyStops, said
from stoker.search.study import MOST_DRAWS
from stoker.submission.sweeps import SweepSpec, job_builder, make_folders
from stoker.sweep import identity
from stoker.sweep.points import Choosing
from stoker.sweep.template import Template
from stoker.sweep.values import Value
from stoker.text.jobs import ENDED_WELL

Call = Callable[..., dict[str, Any]]


class Learner(Protocol):
    """What a searcher needs of a study; see `study.Study`."""

    @property
    def has_more(self) -> bool:
        """Whether there are points that were not tried yet."""

    def trials(self) -> list[to_do.Trial]:
        """All trials, by their numbers."""

    def ask(self) -> int:
        """The number of a new trial."""

    def chosen(self, number: int) -> dict[str, Chosen] | None:
        """What a trial tries; None if there is nothing that it may."""

    def note(self, number: int, job_id: int) -> None:
        """This trial's point is that job."""

    def reopen(self, numbers: Sequence[int]) -> None:
        """These trials were told of what is not so any more."""

    def tell(self, number: int, values: Sequence[float] | None, of: to_do.Runs = ()) -> None:
        """What came of a trial, and of which runs of its point that is."""

    def tell_stopped(self, number: int, best: float | None, of: to_do.Runs = ()) -> None:
        """A trial was stopped early, and has reached that."""

    def adopt(self, chosen: Mapping[str, Chosen] | None, job_id: int | None) -> None:
        """The next trial is a point of which the study did not know, or nothing is known of it."""

    def best(self) -> list[tuple[int, list[float]]]:
        """The best trials with their values."""

    def told_values(self) -> int:
        """How many trials have values."""


class Searcher:
    """One search; `look` does what there is to do now."""

    def __init__(
        self,
        search: Search,
        study: Learner,
        call: Call,
        stops: EarlyStops | None = None,
        over: str = "",
    ) -> None:
        self._search, self._study, self._call, self._stops = search, study, call, stops
        self._dims = dimensions(search.space)
        spec = SweepSpec(
            search.space, Choosing(), search.words, search.style, search.name,
            dict(search.request), dict(search.files),
        )  # fmt: skip
        template = Template(search.words, search.space.names, search.style)
        self._record = Record(search, call)
        self._number = 0  # of the point whose job is being made
        self._job_at = job_builder(
            spec, search.most_trials, template, search.shared.get("cwd"),
            lambda _: identity.trial_name(search.name, self._number),
        )  # fmt: skip
        self._without_value = 0
        self._said: dict[str, Any] | None = None
        self._end = over  # why it is cut short
        self._no_more = ""  # why no more is asked for, while the last points are awaited
        self._waits = "slot"

    def look(self) -> bool:
        """Ask and tell as far as there is something to; whether the search is over."""
        while self._catch_up() or self._asks():
            pass
        cut, over = self._why_cut(), self._why_over()
        waits = "" if cut or over else self._waits
        progress = self._progress(cut or over, waits)
        if progress != self._said or over:
            self._call("search_told", name=self._search.name, progress=progress, ended=bool(over))
            self._said = progress
        return bool(over)

    @property
    def running(self) -> dict[int, int]:
        """The jobs of points that run, by the numbers of their trials."""
        return self._record.running()

    @property
    def attempts(self) -> dict[int, int]:
        """The jobs of points that have not ended, with the numbers of their attempts."""
        return self._record.attempts()

    def seconds_left(self) -> float | None:
        """Until the search ends by the clock."""
        at_ms = self._search.ends.at_ms
        return None if at_ms is None or self._end else max(0.0, at_ms / 1000 - time.time())

    # ------------------------------------------------------------------ the record and the study

    def _catch_up(self) -> bool:
        """Have the study say what the record says; whether there was something to do."""
        steps = to_do.steps(self._study.trials(), self._record.look())
        if self._why_cut():  # What was asked for and not queued is for a search that goes on.
            steps = [step for step in steps if not isinstance(step, to_do.Queue)]
        again = [step.number for step in steps if isinstance(step, to_do.Reopen)]
        if again:
            self._study.reopen(again)
        values = self._values([step.number for step in steps if isinstance(step, to_do.Tell)])
        for step in steps:
            number = step.number
            match step:
                case to_do.Fill():
                    self._study.adopt(None, None)
                case to_do.Adopt():
                    first = self._record.runs(number)[0]
                    self._study.adopt(chosen_of(self._dims, first.params), first.job_id)
                case to_do.Queue():
                    self._queue(number)
                case to_do.Note():
                    self._study.note(number, self._record.runs(number)[0].job_id)
                case to_do.Reopen():
                    pass  # See above: all of them together.
                case to_do.Tell():
                    self._tell(number, values.get(number))
                case to_do.GiveUp():
                    self._study.tell(number, None)
        return bool(steps)

    def _tell(self, number: int, values: list[float] | None) -> None:
        runs, of = self._record.runs(number), self._record.told_of(number)
        if self._stops is not None and all(run.state in ENDED_WELL for run in runs):
            self._stops.finish(number, runs[0].job_id)  # Repeats are never stopped early.
        if any(run.state == "stopped" for run in runs):
            self._study.tell_stopped(number, None if values is None else values[0], of)
        else:
            self._study.tell(number, values, of)

    def _queue(self, number: int) -> None:
        """Queue a trial's point, unless that was done before: all of its repeats, or none."""
        search, chosen = self._search, self._study.chosen(number)
        if chosen is None:
            if self._study.has_more:
                self._no_more = f"--where left none of {MOST_DRAWS} points that were drawn"
            return
        jobs = [self._job(number, chosen, repeat) for repeat in range(search.repeats)]
        try:
            make_folders(jobs)
            answer = self._call(
                "submit",
                **{**search.request, "jobs": [search.shared], "each": jobs, "rerun": "never"},
                token=f"search {jobs[0]['point']}{search.begun or ''}",
            )
        except StokerError as error:
            self._end = self._end or why_given_up(error)
            if not self._end:
                raise
            return  # The points that run are still awaited.
        ids = answer["ids"]
        if not ids:  # It was queued before, and may be in another group by now.
            known = self._call("points", points=[jobs[0]["point"]])["points"]
            ids = [one["id"] for one in known.values()]
        for job_id in ids[:1]:
            self._study.note(number, job_id)

    def _job(self, number: int, chosen: Mapping[str, Chosen], repeat: int) -> dict[str, Any]:
        space = self._search.space
        self._number = number * self._search.repeats + repeat
        point = point_of(space, chosen)
        if space.repeat is not None:
            point[space.repeat.name] = Value(repeat, str(repeat))
        return self._job_at(point)

    # ------------------------------------------------------------------ what came of points

    def _values(self, ended: Sequence[int]) -> dict[int, list[float]]:
        """The values of those trials that have all of them: the means of their repeats.

        A trial of which one repeat fails has failed: the mean of the others would praise a point
        that is good by luck.
        """
        good = {}
        for number in ended:
            runs = self._record.runs(number)
            if all(run.state in ENDED_WELL for run in runs):
                good[number] = runs
        if not good:
            return {}
        ids = [str(run.job_id) for runs in good.values() for run in runs]
        by_job: dict[int, dict[str, Summary]] = {}
        for one in metrics_of(self._call, {"ids": ids}):
            by_job.setdefault(one.job, {})[one.name] = one
        found = {}
        for number, runs in good.items():
            values = []
            for run in runs:
                metrics = by_job.get(run.job_id, {})
                values.append(self._values_of(metrics))
                if values[-1] is None and run.state != "stopped":
                    self._missed(metrics)
            known = [one for one in values if one is not None]
            means = [mean(of) for of in zip(*known, strict=True)]
            sound = [one for one in means if one is not None and not math.isnan(one)]
            if len(known) == len(values) and len(sound) == len(means):  # inf - inf is nan.
                found[number] = sound
        return found

    def _values_of(self, metrics: Mapping[str, Summary]) -> list[float] | None:
        """A job's value of each objective; None if one is missing."""
        objectives = self._search.objectives
        values = [
            (metrics[one.name].min if one.goal == "min" else metrics[one.name].max)
            for one in objectives
            if one.name in metrics
        ]
        known = [value for value in values if value is not None and not math.isnan(value)]
        return known if len(known) == len(objectives) else None

    def _missed(self, metrics: Mapping[str, object]) -> None:
        """A point succeeded and has no value: if none has, its name is wrong."""
        self._without_value += 1
        if self._without_value < FIRST_WITHOUT_VALUE or self._study.told_values():
            return
        names = ", ".join(one.name for one in self._search.objectives if one.name not in metrics)
        has = ", ".join(sorted(metrics)[:8])
        self._end = f"the points have no value of {names}" + (f"; they have {has}" if has else "")

    # ------------------------------------------------------------------ the next point

    def _asks(self) -> bool:
        if self._why_cut():
            return False
        search, unfinished = self._search, self._record.unfinished()
        # A cluster has a queue of its own: it is given as many as may run, if that was said.
        queued = ("waiting", "held", *(("submitted",) if search.max_running is None else ()))
        waiting = [one for one in unfinished if one.state in queued]
        self._waits = "result" if len(unfinished) == search.max_running else "slot"
        asked = len(self._study.trials())
        may = to_do.may_ask(
            len(waiting), len(unfinished), asked,
            samples=search.most_trials, max_running=search.max_running,
        )  # fmt: skip
        if asked >= search.most_trials or self._no_more or not self._study.has_more:
            self._waits = "rest"
            return False
        if not may:
            return False
        self._queue(self._study.ask())
        return True

    def _why_cut(self) -> str:
        """Why no further point is tried, though there may be some; nothing if it goes on."""
        ends = self._search.ends
        if not self._end and ends.at_ms is not None and time.time() * 1000 >= ends.at_ms:
            self._end = "its time is over"
        if not self._end and ends.until is not None and self._is_good_enough(*ends.until):
            self._end = f"{ends.until[0]} is good enough"
        if not self._end:
            self._end = self._why_hopeless()
        return self._end

    def _why_hopeless(self) -> str:
        """Why all further points would fail as well; nothing if that is not likely."""
        if self._record.has_good():
            return ""
        failed = self._record.failed()
        first = sorted(number for number in failed if number >= self._search.since)
        if len(first) < FIRST_FAILED:
            return ""
        run = failed[first[0]]
        which = "next" if self._search.since else "first"
        how = "" if run.cause in (None, "exit") else f" ({run.cause})"
        return (
            f"the {which} {FIRST_FAILED} trials failed{how}: see `stoker logs {run.job_id}`; "
            "the same command goes on"
        )

    def _why_over(self) -> str:
        """Why no further point is tried and none is awaited, in words; nothing if it goes on."""
        trials, cut = self._study.trials(), self._why_cut()
        if cut:
            return "" if _left(trials) else cut
        no_more = self._no_more
        if len(trials) >= self._search.most_trials:
            no_more = "all trials were made"
        elif not self._study.has_more:
            no_more = "all points were tried"
        return no_more if all(trial.told for trial in trials) else ""

    def _is_good_enough(self, name: str, bound: float) -> bool:
        place, objective = next(
            (n, one) for n, one in enumerate(self._search.objectives) if one.name == name
        )
        return any(objective.is_met(values[place], bound) for _, values in self._study.best())

    def _progress(self, over: str, waits: str) -> dict[str, Any]:
        trials, best = self._study.trials(), self._study.best()
        return {
            "trials": len(trials),
            "told": sum(trial.told for trial in trials),
            "samples": self._search.ends.samples,
            "stopped": self._record.stopped(),
            "failed": len(self._record.failed()),
            "best": [[number, *map(said, values)] for number, values in best[:100]],
            "left": _left(trials),
            "waits": waits,
            "over": over,
        }


def _left(trials: Sequence[to_do.Trial]) -> int:
    """How many have a point that has not ended."""
    return sum(trial.queued and not trial.told for trial in trials)


def why_given_up(error: StokerError) -> str:
    """What a search that can't go on says of itself; nothing of what will pass."""
    return "" if isinstance(error, Unavailable) else error.message
