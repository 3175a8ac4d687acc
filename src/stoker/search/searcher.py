"""A searcher at work: it asks for a trial as soon as one more may run, and tells of its result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stoker.errors import StokerError, Unavailable
from stoker.metrics.asking import Summary, metrics_of
from stoker.search import reconcile as to_do
from stoker.search.space import Chosen, chosen_of, dimensions, point_of
from stoker.search.spec import FIRST_WITHOUT_VALUE, Search
from stoker.search.stopping import EarlyStops
from stoker.submission.sweeps import SweepSpec, job_builder, make_folders
from stoker.sweep import identity
from stoker.sweep.points import Choosing
from stoker.sweep.template import Template
from stoker.text.jobs import ENDED_WELL, FINAL_STATES

Call = Callable[..., dict[str, Any]]
_MANY = 1 << 20  # as good as all: a template with one file for all points is refused


class Learner(Protocol):
    """What a searcher needs of a study; see `study.Study`."""

    is_exhausted: bool

    def trials(self) -> list[to_do.Trial]:
        """All trials, by their numbers."""

    def ask(self) -> int:
        """The number of a new trial."""

    def chosen(self, number: int) -> dict[str, Chosen]:
        """What a trial tries."""

    def note(self, number: int, job_id: int) -> None:
        """This trial's point is that job."""

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """What came of a trial."""

    def tell_stopped(self, number: int, best: float | None) -> None:
        """A trial was stopped early, and has reached that."""

    def adopt(self, chosen: Mapping[str, Chosen] | None, job_id: int | None) -> None:
        """The next trial is a point of which the study did not know, or nothing is known of it."""

    def best(self) -> list[tuple[int, list[float]]]:
        """The best trials with their values."""

    def told_values(self) -> int:
        """How many trials have values."""


@dataclass(frozen=True, slots=True)
class Point:
    """A trial's point in Stoker's record."""

    number: int
    job_id: int
    state: str
    params: dict[str, Any]

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in FINAL_STATES


class Searcher:
    """One search; `look` does what there is to do now."""

    def __init__(
        self, search: Search, study: Learner, call: Call, stops: EarlyStops | None = None
    ) -> None:
        self._search, self._study, self._call, self._stops = search, study, call, stops
        self._dims = dimensions(search.space)
        spec = SweepSpec(
            search.space, Choosing(), search.words, search.style, search.name,
            dict(search.request), dict(search.files),
        )  # fmt: skip
        template = Template(search.words, search.space.names, search.style)
        self._number = 0  # of the trial whose job is being made
        self._job_at = job_builder(
            spec, _MANY, template, search.shared.get("cwd"),
            lambda _: identity.trial_name(search.name, self._number),
        )  # fmt: skip
        self._without_value = 0
        self._said: dict[str, Any] | None = None
        self._end = ""
        self._waits = "slot"
        self.running: dict[int, int] = {}  # the jobs of points that run, by number
        self._stopped = 0  # points that were stopped early

    def look(self) -> bool:
        """Ask and tell as far as there is something to; whether the search is over."""
        while self._catch_up() or self._asks():
            pass
        over = self._why_over()
        waits = "" if over else self._waits
        progress = self._progress(over, waits)
        if progress != self._said or over:
            self._call("search_told", name=self._search.name, progress=progress, ended=bool(over))
            self._said = progress
        return bool(over)

    def seconds_left(self) -> float | None:
        """Until the search ends by the clock."""
        at_ms = self._search.ends.at_ms
        return None if at_ms is None else max(0.0, at_ms / 1000 - time.time())

    # ------------------------------------------------------------------ the record and the study

    def _catch_up(self) -> bool:
        """Have the study say what the record says; whether there was something to do."""
        points = self._points()
        seen = [to_do.Seen(one.number, one.is_final) for one in points.values()]
        steps = to_do.steps(self._study.trials(), seen)
        tells = [step.number for step in steps if isinstance(step, to_do.Tell)]
        values = self._values([points[number] for number in tells])
        for step in steps:
            number = step.number
            match step:
                case to_do.Fill():
                    self._study.adopt(None, None)
                case to_do.Adopt():
                    chosen = chosen_of(self._dims, points[number].params)
                    self._study.adopt(chosen, points[number].job_id)
                case to_do.Queue():
                    self._queue(number)
                case to_do.Note():
                    self._study.note(number, points[number].job_id)
                case to_do.Tell():
                    self._tell(points[number], values.get(number))
                case to_do.GiveUp():
                    self._study.tell(number, None)
        return bool(steps)

    def _tell(self, point: Point, values: list[float] | None) -> None:
        if self._stops is not None and point.state in ENDED_WELL:
            self._stops.finish(point.number, point.job_id)
        if point.state == "stopped":
            self._study.tell_stopped(point.number, None if values is None else values[0])
        else:
            self._study.tell(point.number, values)

    def _points(self) -> dict[int, Point]:
        """The points of the search by number; of two jobs of one point, the later."""
        name = self._search.name
        found = {}
        for point, job_id, state, _, params in self._call("searches", name=name)["points"]:
            number = identity.trial_number(name, point)
            if number is not None:
                found[number] = Point(number, job_id, state, params or {})
        self.running = {n: one.job_id for n, one in found.items() if one.state == "running"}
        self._stopped = sum(one.state == "stopped" for one in found.values())
        return found

    def _queue(self, number: int) -> None:
        """Queue a trial's point, unless that was done before."""
        search = self._search
        self._number = number
        job = self._job_at(point_of(search.space, self._study.chosen(number)))
        make_folders([job])
        answer = self._call(
            "submit",
            **{**search.request, "jobs": [search.shared], "each": [job], "rerun": "never"},
            token=f"search {job['point']}",
        )
        ids = answer["ids"]
        if not ids:  # It was queued before, and may be in another group by now.
            known = self._call("points", points=[job["point"]])["points"]
            ids = [one["id"] for one in known.values()]
        for job_id in ids[:1]:
            self._study.note(number, job_id)

    # ------------------------------------------------------------------ what came of points

    def _values(self, ended: Sequence[Point]) -> dict[int, list[float]]:
        """The values of those points that have all of them."""
        good = {one.job_id: one.number for one in ended if one.state in ENDED_WELL}
        early = {one.job_id for one in ended if one.state == "stopped"}
        if not good:
            return {}
        objectives = self._search.objectives
        by_job: dict[int, dict[str, Summary]] = {}
        for one in metrics_of(self._call, {"ids": [str(job_id) for job_id in good]}):
            by_job.setdefault(one.job, {})[one.name] = one
        found = {}
        for job_id, number in good.items():
            metrics = by_job.get(job_id, {})
            values = [
                (metrics[one.name].min if one.goal == "min" else metrics[one.name].max)
                for one in objectives
                if one.name in metrics
            ]
            known = [value for value in values if value is not None and not math.isnan(value)]
            if len(known) == len(objectives):
                found[number] = known
            elif job_id not in early:
                self._missed(metrics)
        return found

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
        if self._why_over():
            return False
        search, points = self._search, self._points().values()
        unfinished = [one for one in points if not one.is_final]
        # A cluster has a queue of its own: it is given as many as may run, if that was said.
        queued = ("waiting", "held", *(("submitted",) if search.max_running is None else ()))
        waiting = [one for one in unfinished if one.state in queued]
        self._waits = "result" if len(unfinished) == search.max_running else "slot"
        asked = len(self._study.trials())
        may = to_do.may_ask(
            len(waiting), len(unfinished), asked,
            samples=search.ends.samples, max_running=search.max_running,
        )  # fmt: skip
        if not may:
            if search.ends.samples is not None and asked >= search.ends.samples:
                self._waits = "rest"
            return False
        self._queue(self._study.ask())
        return True

    def _why_over(self) -> str:
        """Why no further point is tried and none is awaited, in words; nothing if it goes on."""
        ends = self._search.ends
        if self._end:
            return self._end
        if self._study.is_exhausted:
            return "all points were tried"
        if ends.at_ms is not None and time.time() * 1000 >= ends.at_ms:
            return "its time is over"
        if ends.until is not None and self._is_good_enough(*ends.until):
            return f"{ends.until[0]} is good enough"
        trials = self._study.trials()
        if ends.samples is not None and len(trials) >= ends.samples:
            return "all trials were made" if all(trial.told for trial in trials) else ""
        return ""

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
            "stopped": self._stopped,
            "best": [[number, *map(_said, values)] for number, values in best[:100]],
            "waits": waits,
            "over": over,
        }


def _said(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def why_given_up(error: StokerError) -> str:
    """What a search that can't go on says of itself; nothing of what will pass."""
    return "" if isinstance(error, Unavailable) else error.message
