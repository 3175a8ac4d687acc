"""Sweeps queued, for every front end: nothing is queued unless every point is good."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from stoker.api.client import Client, line_of
from stoker.api.pipeline import Pipeline
from stoker.errors import UsageError
from stoker.output_files import known_directory
from stoker.quantities import MAX_LABEL_CHARS
from stoker.submission.surroundings import (
    command_fields,
    is_for_cluster,
    new_token,
    require_program,
    resolve_requirements,
    take_code,
    usable_paths,
)
from stoker.sweep import identity
from stoker.sweep.points import Choosing, Space, in_turn
from stoker.sweep.template import Style, Template, Text
from stoker.sweep.values import Point, parameter_name
from stoker.text.terminal import escaped

if TYPE_CHECKING:
    from stoker.sweep import sweepfile

# The daemon soon has something to do, and then as much as a little more than its own pace allows:
# the more jobs there are in a commit, the less of the database is written over and over again.
_FIRST_IN_A_MESSAGE = 1_000
_MOST_IN_A_MESSAGE = 10_000


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A sweep as it was asked for, by whichever front end."""

    space: Space
    choosing: Choosing
    words: Sequence[str]  # the command: one for the shell, or several
    style: Style
    name: str | None
    request: dict[str, Any]  # a submission with one job: what all points share
    files: dict[str, str]  # out and err, with places for parameters
    source: str | None = None  # a sweep file, whose parameters and command are used too


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep that is fine as far as can be told without the daemon."""

    name: str
    request: dict[str, Any]  # a submission without its jobs
    shared: dict[str, Any]  # a job as far as all of them are alike
    jobs: Jobs  # what the job of each point has for itself
    asked_for: int | None  # samples, if so many were asked for
    varied: Sequence[str]  # the parameters that differ between points
    ignored: Sequence[str] = ()  # keys of the sweep file that change nothing here

    @property
    def example(self) -> dict[str, Any]:
        """What the job of one point has for itself."""
        return self.jobs[0] if self.jobs else {}


class Jobs(Sequence[dict[str, Any]]):
    """What the job of each of so many points has for itself, made when it is first asked for."""

    def __init__(
        self, count: int, points: Iterable[Point], job_at: Callable[[Point], dict[str, Any]]
    ) -> None:
        self._count = count
        self._to_be_made = map(job_at, points)
        self._made: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        known = len(self._made)
        last = (
            place.indices(len(self))[1] if isinstance(place, slice) else range(len(self))[place] + 1
        )
        if last > known:
            self._made += islice(self._to_be_made, last - known)
        return self._made[place]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self[:])


def plan(spec: SweepSpec) -> Plan:
    """The points and their jobs; UsageError for what makes no sense."""
    ignored: Sequence[str] = ()
    if spec.source is not None:
        source = spec.source
        spec, file = with_file(spec, source)
        if file.is_search:
            raise UsageError(
                f"{source}: the method bayes is a search",
                "begin it with `stoker sweep -f` or Client.search(file=...), "
                "or write method: random or grid",
            )
        ignored = sorted((*file.without_effect, *file.of_search))
    space = spec.space
    if not space.names:
        raise UsageError("no parameter was given", "write e.g. lr=0.1,0.01 before the --")
    if space.repeat is not None:
        parameter_name(space.repeat.name)
    if not spec.words:
        raise UsageError("no command was given", "put it after --, e.g. -- python train.py")
    command_fields(list(spec.words))
    template = Template(spec.words, space.names, spec.style)
    request = dict(spec.request)
    cwd: str = request["cwd"]
    name = spec.name or identity.sweep_name(template.key, cwd, space.names)
    count, points = in_turn(space, spec.choosing)
    shared = {**request.pop("jobs")[0], "group": name}
    if space.repeat is not None:
        shared["repeat"] = space.repeat.name
    name_of = identity.namer(template.key, cwd)
    jobs = Jobs(count, points, job_builder(spec, count, template, shared.get("cwd"), name_of))
    if spec.files or template.may_refuse:
        jobs[:]  # One bad point is found before the first one is queued.
    _require_programs(jobs[:1] if template.has_fixed_program else jobs, request, shared)
    wanted = spec.choosing.samples
    if wanted is not None and space.repeat is not None:
        wanted *= space.repeat.count
    return Plan(name, request, shared, jobs, wanted, space.varied or space.names, ignored)


def with_file(spec: SweepSpec, source: str) -> tuple[SweepSpec, sweepfile.SweepFile]:
    """The same with what a file says beside it, and the file."""
    from stoker.sweep import sweepfile  # It is slow to import, and most sweeps need no file.

    file = sweepfile.read(source, os.environ)
    named = set(spec.space.base_names)
    kept = [axis for axis in file.axes if not named & set(axis.names)]
    return replace(
        spec,
        space=Space((*kept, *spec.space.axes), spec.space.repeat),
        choosing=_choosing(file, spec.choosing, source),
        words=spec.words or file.command,
        name=spec.name or file.name,
    ), file


def _choosing(file: sweepfile.SweepFile, asked: Choosing, source: str) -> Choosing:
    """Which points are taken: what a file says of that, under what is asked for."""
    if file.method == "grid":
        return replace(asked, most=file.run_cap)
    if asked.samples is None and file.run_cap is None and not file.is_search:
        raise UsageError(
            f"{source}: the method random has no end",
            "write run_cap: 40 there, or --samples 40 here",
        )
    return asked if asked.samples is not None else replace(asked, samples=file.run_cap)


def job_builder(
    spec: SweepSpec,
    count: int,
    template: Template,
    cwd: str | None,
    name_of: Callable[[Point], str],
) -> Callable[[Point], dict[str, Any]]:
    """What makes of a point the fields that its job has for itself."""
    space = spec.space
    here: str = spec.request["cwd"]
    files = {key: Text(text, space.names) for key, text in spec.files.items()}
    for key, text in files.items():
        if text.is_fixed and count > 1:
            raise UsageError(
                f"--{key}: all points would write to one file",
                f"put a parameter or {{point}} in it, e.g. --{key} 'run-{{point}}.txt'",
            )
    varied = space.varied or space.names
    labels = ",".join([name.replace("%", "%%") + "=%s" for name in varied])

    def job_at(point: Point) -> dict[str, Any]:
        point_name = name_of(point)
        short = identity.short(point_name)
        job = template.filled(point, short)
        job["name"] = _job_name(labels % tuple([point[name].text for name in varied]))
        job["params"] = {name: value.data for name, value in point.items()}
        job["point"] = point_name
        if files:
            paths = {key: text.filled(point, short) for key, text in files.items()}
            if cwd is not None:
                paths["cwd"] = cwd
            # Directories of templated files are made as they are queued: see part_of.
            may_lack = tuple(key for key in files if not files[key].is_fixed)
            usable_paths(paths, here, may_lack, of_point=True)
            job |= {key: paths[key] for key in files}
        return job

    return job_at


def _job_name(text: str) -> str:
    text = escaped(text)
    return text if len(text) <= MAX_LABEL_CHARS else text[: MAX_LABEL_CHARS - 1] + "…"


def _require_programs(
    jobs: Sequence[dict[str, Any]], request: dict[str, Any], shared: dict[str, Any]
) -> None:
    if is_for_cluster(shared):
        return
    path = {**request["env"], **shared.get("env", {})}.get("PATH")
    for program in dict.fromkeys(job["argv"][0] for job in jobs if "argv" in job):
        require_program(program, request["cwd"], path)


# ---------------------------------------------------------------------- queueing


@dataclass(slots=True)
class Queued:
    """How many got a job, and why the others did not."""

    ids: list[int] = field(default_factory=list)
    done: int = 0  # points that have succeeded before
    unfinished: int = 0  # points whose job is queued or running already
    passed_over: int = 0  # points that --rerun failed leaves out
    elsewhere: Counter[str] = field(
        default_factory=Counter
    )  # points whose jobs are in other groups

    def took(self, answer: dict[str, Any], group: str) -> None:
        """What the daemon said of some of them, which are for this group."""
        there = {name: n for name, n in answer.get("left_out_in", {}).items() if name != group}
        self.elsewhere.update(there)
        self.ids += answer["ids"]
        left_out = answer["left_out"]
        self.done += left_out["succeeded"]
        self.unfinished += left_out["unfinished"]
        self.passed_over += left_out["not_tried"]


def queue(client: Client, plan: Plan, rerun: str | None, max_running: int | None) -> Queued:
    """Queue the points that have no job yet, or are to have another.

    While the daemon takes in one part of them, the next one is made.
    """
    if client.call("searches", name=plan.name, brief=True)["searches"]:
        raise is_a_search(plan.name)
    if max_running is not None:
        # Before the first job is queued, so that there are never more.
        client.call("limit_group", group=plan.name, max_running=max_running)
    resolve_requirements(client, plan.shared)
    take_code(client, [plan.shared], plan.request, plan.example)
    queued = Queued()
    ahead = Pipeline(client)
    for number, part in enumerate(parts(plan.jobs)):
        request = line_of("submit", part_of(plan, part, rerun))
        if number:
            queued.took(ahead.answer(), plan.name)  # After one that is refused, nothing follows.
        ahead.give_line(request)
    queued.took(ahead.answer(), plan.name)
    return queued


def is_a_search(name: str) -> UsageError:
    """Why a grid can't have the name of a search, whose points have numbers."""
    return UsageError(f"{name} is a search", "give this sweep another --name")


def part_of(plan: Plan, jobs: list[dict[str, Any]], rerun: str | None) -> dict[str, Any]:
    """A request that is known by its token should it be cut off and given again."""
    make_folders(jobs)
    how = {"rerun": rerun or "missing", "token": new_token()}
    return {**plan.request, "jobs": [plan.shared], "each": jobs, **how}


def make_folders(jobs: Sequence[dict[str, Any]]) -> None:
    """Make the directories of output files whose names have parameters."""
    files = [key for key in ("out", "err") if key in jobs[0]]
    for folder in {known_directory(job[key]) for key in files for job in jobs}:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder} can't be made: {error.strerror}", "name others") from None


def parts(jobs: Jobs) -> Iterator[list[dict[str, Any]]]:
    """The jobs as they are sent: a first part soon, then larger ones."""
    start, size = 0, _FIRST_IN_A_MESSAGE
    while part := jobs[start : start + size]:
        yield part
        start, size = start + size, min(size * 3 // 2, _MOST_IN_A_MESSAGE)
