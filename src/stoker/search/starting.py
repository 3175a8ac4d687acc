"""A search asked for, by whichever front end: checked, and begun or gone on with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker.api.client import Client
from stoker.errors import UsageError
from stoker.search.fromfile import read_file
from stoker.search.space import dimensions
from stoker.search.spec import MOST_TRIALS, Ends, Objective, Search, axes_to_wire, until_of
from stoker.search.stopping import asked as asked_stopping
from stoker.search.stopping import refuse_several
from stoker.submission.freezing import queued_in
from stoker.submission.snapshots import Snapshots
from stoker.submission.surroundings import resolve_requirements, take_code
from stoker.submission.sweeps import Plan, SweepSpec, job_builder, plan, with_file
from stoker.sweep import identity
from stoker.sweep.template import Template
from stoker.text.jobs import now_ms

USUAL_SAMPLER = "tpe"
_FAILED = ("failed", "lost")
_AGAIN = (*_FAILED, "cancelled", "skipped")  # by --rerun failed, as of a sweep


@dataclass(frozen=True, slots=True)
class Wanted:
    """What makes a sweep a search."""

    objectives: Sequence[Objective]
    sampler: str | None = None
    until: str | None = None
    for_ms: int | None = None
    stop_early: str | None = None
    min_steps: int | None = None

    def filled(self, objectives: Sequence[Objective], until: str | None) -> Wanted:
        """The same, with what a file says of what was not said."""
        if self.objectives:
            return self
        return replace(self, objectives=objectives, until=self.until or until)


@dataclass(frozen=True, slots=True)
class Planned:
    """A search that is fine as far as can be told without the daemon."""

    search: Search
    plan: Plan  # with one point, as an example

    @property
    def ends_in_words(self) -> str:
        """`a search of 60 trials`, if so many were asked for."""
        samples = self.search.ends.samples
        return "a search" + (f" of {samples} trial{'s' * (samples != 1)}" if samples else "")


def planned(spec: SweepSpec, wanted: Wanted, max_running: int | None) -> Planned:
    """What is to be searched; UsageError for what makes no sense."""
    of_file = None
    if spec.source is not None:
        source = spec.source
        spec, file = with_file(spec, source)
        of_file = read_file(file, source, has_goal=bool(wanted.objectives))
        spec = replace(spec, space=of_file.choosable(spec.space))
        wanted = wanted.filled(of_file.objectives, of_file.until)
    ignored: Sequence[str] = () if of_file is None else of_file.ignored
    by_file = None if of_file is None else of_file.stopping
    stopping = asked_stopping(wanted.stop_early, wanted.min_steps, by_file)
    refuse_several(stopping, wanted.objectives)
    if stopping is not None and spec.space.repeat is not None:
        raise UsageError(
            "--stop-early compares single runs, and --repeat makes several of each point",
            "leave out one of them",
        )
    sampler = wanted.sampler or USUAL_SAMPLER
    _refuse(spec, wanted)
    dims = dimensions(spec.space)
    samples = spec.choosing.samples
    repeat = spec.space.repeat
    most = MOST_TRIALS // (1 if repeat is None else repeat.count)
    if samples is not None and samples > most:
        raise UsageError(
            f"the search would have more than {MOST_TRIALS} jobs", f"--samples {most} at most"
        )
    until = None if wanted.until is None else until_of(wanted.until, wanted.objectives)
    from stoker.search.study import check, is_exhaustible  # Optuna is loaded by `check`.

    has_end = samples is not None or until is not None or wanted.for_ms is not None
    if not has_end and not is_exhaustible(sampler, dims):
        raise UsageError(
            "the search has no end", "add --samples 60, --for 8h or --until 'METRIC < NUMBER'"
        )
    check(sampler, dims, wanted.objectives)
    axes, goals = axes_to_wire(spec.space.axes), [[o.name, o.goal] for o in wanted.objectives]
    parts = [spec.request["cwd"], list(spec.words), spec.style, axes, goals]
    parts += [list(spec.choosing.where)] if spec.choosing.where else []
    parts += [[repeat.name, repeat.count]] if repeat is not None else []
    name = spec.name or identity.search_name(parts)
    example = replace(
        spec, name=name, choosing=replace(spec.choosing, samples=1, most=None), source=None
    )
    made = replace(plan(example), ignored=ignored)
    template = Template(spec.words, spec.space.names, spec.style)
    job_builder(example, samples or most, template, None, str)  # It refuses one file for all.
    ends = Ends(
        samples,
        None if wanted.for_ms is None else now_ms() + wanted.for_ms,
        until,
    )
    search = Search(
        name, spec.space, tuple(wanted.objectives), ends, sampler, spec.choosing.seed, max_running,
        tuple(spec.words), spec.style, spec.files, made.request, made.shared,
        tuple(spec.choosing.where), stopping,
    )  # fmt: skip
    return Planned(search, made)


def _refuse(spec: SweepSpec, wanted: Wanted) -> None:
    if not all(one.name.strip() for one in wanted.objectives):
        raise UsageError("a metric without a name", "write e.g. --minimize val_loss")
    if spec.choosing.shuffle:
        raise UsageError("a search chooses the order itself", "leave out --shuffle")


@dataclass(frozen=True, slots=True)
class Begun:
    """How many trials were made before, how many of them have failed, and how many jobs rerun."""

    trials: int
    failed: int
    rerun: int
    anew: bool


def begin(client: Client, asked: Planned, *, rerun: bool = False) -> Begun:
    """Begin the search, or go on with the one of that name; how far that is.

    One that has ended and of which no point is left begins anew: its user has removed them.
    `rerun`: the points that have not succeeded run again, under their numbers.
    """
    search = asked.search
    answer = client.call("searches", name=search.name)
    known = answer["searches"]
    wire = search.to_wire()
    anew = bool(
        known
        and not answer["points"]
        and known[0]["state"] == "ended"
        and known[0]["progress"].get("trials")
    )
    if known:
        wire["begun"] = known[0]["spec"].get("begun", 0) + anew
    if known and not anew:
        _refuse_another(known[0]["spec"], _as_kept(wire, client), search.name)
    elif answer["points"]:
        raise UsageError(
            f"there is a sweep {search.name} that is no search", "give this one another --name"
        )
    resolve_requirements(client, asked.plan.shared)
    _check_example(client, asked.plan, is_known=bool(known) and not anew)
    client.call("limit_group", group=search.name, max_running=search.max_running)
    take_code(client, [asked.plan.shared], asked.plan.request, asked.plan.example)
    trials, failed = set(), set()
    for point, _, state, *_ in answer["points"]:
        number = identity.trial_number(search.name, point)
        if number is not None:
            trials.add(number // search.repeats)
            failed |= {number // search.repeats} if state in _FAILED else set()
    wire["since"] = max(trials, default=-1) + 1
    wire["request"], wire["shared"] = asked.plan.request, asked.plan.shared
    client.call("search_start", name=search.name, spec=wire, anew=anew)
    again = [str(job_id) for _, job_id, state, *_ in answer["points"] if state in _AGAIN]
    if rerun and again:
        again = client.call("retry", select={"ids": again, "states": list(_AGAIN)})["ids"]
    return Begun(len(trials), len(failed), len(again) if rerun else 0, anew)


def _check_example(client: Client, plan: Plan, *, is_known: bool) -> None:
    """Refuse at once what the daemon would refuse of each point."""
    # The files of a search that goes on may be there already.
    left_out = ("out", "err") if is_known else ()
    example = {key: value for key, value in plan.jobs[0].items() if key not in left_out}
    # Its code is frozen only once all is fine.
    shared = {key: value for key, value in plan.shared.items() if key != "freeze"}
    client.call("submit", **{**plan.request, "jobs": [shared], "each": [example]}, check=True)


def _refuse_another(known: dict[str, Any], new: dict[str, Any], name: str) -> None:
    others = {
        "axes": "other parameters", "objectives": "another goal", "repeat": "other repeats",
        "words": "another command", "style": "another --style",
    }  # fmt: skip
    for key, what in others.items():
        if _plain(known.get(key)) != _plain(new[key]):
            raise UsageError(f"the search {name} has {what}", "give this one another --name")
    directory = _directory(known)
    if directory != _directory(new):
        raise UsageError(
            f"the search {name} runs in another directory, {directory}",
            "give this one another --name",
        )


def _as_kept(wire: dict[str, Any], client: Client) -> dict[str, Any]:
    """With the directory that it will be kept with, if its code is frozen."""
    shared, request = wire["shared"], wire["request"]
    if not shared.get("freeze"):
        return wire
    origin = queued_in(Snapshots(client.home.root), shared, request)
    return {**wire, "shared": {**shared, "freeze": origin}}


def _directory(spec: dict[str, Any]) -> str:
    """Where its points run, or with --freeze, what they run a copy of."""
    shared, here = spec["shared"], spec["request"]["cwd"]
    return os.path.realpath(os.path.join(here, shared.get("cwd") or "", shared.get("freeze") or ""))


def _plain(value: Any) -> Any:
    """As JSON has it, in which there are only lists."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
