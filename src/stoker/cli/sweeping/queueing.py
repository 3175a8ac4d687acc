"""From a command line to queued points: nothing is queued unless every point is good."""

from __future__ import annotations

import gc
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from stoker.api.ahead import Ahead
from stoker.api.client import Client, line_of
from stoker.api.jsonline import dumps
from stoker.cli.jobspec import (
    command_fields,
    is_for_cluster,
    require_program,
    settle_paths,
    settle_requirements,
    submission,
)
from stoker.cli.terminal import escaped, out, say
from stoker.errors import UsageError
from stoker.quantities import MAX_LABEL_CHARS
from stoker.sweep import identity, notation
from stoker.sweep.axes import Axis
from stoker.sweep.points import Choosing, Repeat, Space, in_turn
from stoker.sweep.queued import Queued
from stoker.sweep.template import Style, Template, Text
from stoker.sweep.values import Point, parameter_name

if TYPE_CHECKING:
    from stoker.cli.options import Args
    from stoker.sweep import sweepfile

# The daemon soon has something to do, and then as much as a little more than its own pace allows:
# the more jobs there are in a commit, the less of the database is written over and over again.
_FIRST_IN_A_MESSAGE = 1_000
_MOST_IN_A_MESSAGE = 10_000
_SHOWN_IN_A_DRY_RUN = 10


def sweep(args: Args) -> int:
    """Queue a sweep's points, or show what they would be."""
    # All that is made here is needed to the end; to look for garbage would take a fifth of it.
    gc.disable()
    plan = _planned(args)
    if args["dry_run"]:
        _show_plan(plan, args["json"])
        return 0
    with Client() as client:
        queued = queue(client, plan, args["rerun"], args["max_running"])
    _tell(plan, queued, args["json"])
    return 0


@dataclass(frozen=True, slots=True)
class Wish:
    """A sweep as it was asked for, by whichever front end."""

    space: Space
    choosing: Choosing
    words: Sequence[str]  # the command: one for the shell, or several
    style: Style
    name: str | None
    request: dict[str, Any]  # a submission with one job: what all points share
    files: dict[str, str]  # out and err, with places for parameters


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep that is fine as far as can be told without the daemon."""

    name: str
    request: dict[str, Any]  # a submission without its jobs
    shared: dict[str, Any]  # a job as far as all of them are alike
    jobs: Jobs  # what the job of each point has for itself
    asked_for: int | None  # samples, if so many were asked for


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


# ---------------------------------------------------------------------- what is to be queued


def _planned(args: Args) -> Plan:
    file = _read(args["file"]) if args["file"] is not None else None
    space = Space(_axes(args, file), Repeat(*args["repeat"]) if args["repeat"] else None)
    asked = Choosing(args["samples"], None, args["shuffle"], args["seed"] or 0, args["where"])
    made = plan(
        Wish(
            space,
            choosing(file, asked, args["file"]),
            args["command"] or (file.command if file is not None else ()),
            args["style"] or "flags",
            args["name"] or (file.name if file is not None else None),
            _request(args),
            {key: args[key] for key in ("out", "err") if args[key] is not None},
        )
    )  # fmt: skip
    if file is not None and file.without_effect:
        say(f"stoker: no effect here: {', '.join(file.without_effect)}")
    return made


def _read(path: str) -> sweepfile.SweepFile:
    from stoker.sweep import sweepfile  # It is slow to import, and most sweeps need no file.

    return sweepfile.read(path, os.environ)


def plan(wish: Wish) -> Plan:
    """The points and their jobs; UsageError for what makes no sense."""
    space = wish.space
    if not space.names:
        raise UsageError("no parameter was given", "write e.g. lr=0.1,0.01 before the --")
    if space.repeat is not None:
        parameter_name(space.repeat.name)
    if not wish.words:
        raise UsageError("no command was given", "put it after --, e.g. -- python train.py")
    command_fields(list(wish.words))
    template = Template(wish.words, space.names, wish.style)
    request = dict(wish.request)
    cwd: str = request["cwd"]
    name = wish.name or identity.sweep_name(template.key, cwd, space.names)
    count, points = in_turn(space, wish.choosing)
    shared = {**request.pop("jobs")[0], "group": name}
    jobs = Jobs(count, points, _maker(wish, count, template, shared.get("cwd")))
    if wish.files or template.may_refuse:
        jobs[:]  # One bad point is found before the first one is queued.
    _require_programs(jobs[:1] if template.has_fixed_program else jobs, request, shared)
    wanted = wish.choosing.samples
    if wanted is not None and space.repeat is not None:
        wanted *= space.repeat.count
    return Plan(name, request, shared, jobs, wanted)


def _axes(args: Args, file: sweepfile.SweepFile | None) -> tuple[Axis, ...]:
    """The file's parameters, then those of the command line, which replace the file's."""
    typed = [notation.parsed(word) for word in args["space"]]
    typed += [notation.of_words(words) for words in args["parameter"]]
    return replaced(file, typed)


def replaced(file: sweepfile.SweepFile | None, named: Sequence[Axis]) -> tuple[Axis, ...]:
    """The parameters of a file, but for those that are named beside it."""
    names = {name for axis in named for name in axis.names}
    kept = [axis for axis in (file.axes if file else ()) if not names & set(axis.names)]
    return (*kept, *named)


def choosing(file: sweepfile.SweepFile | None, asked: Choosing, source: str) -> Choosing:
    """Which points are taken: what a file says of that, under what is asked for."""
    if file is None:
        return asked
    if not file.at_random:
        return replace(asked, most=file.run_cap)
    if asked.samples is None and file.run_cap is None:
        raise UsageError(
            f"{source}: the method random has no end",
            "write run_cap: 40 there, or --samples 40 here",
        )
    return asked if asked.samples is not None else replace(asked, samples=file.run_cap)


def _request(args: Args) -> dict[str, Any]:
    """The submission that all points share; what differs from point to point is left out."""
    left_out = dict.fromkeys(("command", "name", "group", "out", "err"))
    request = submission({**args, **left_out})
    del request["token"]
    return request


def _maker(
    wish: Wish, count: int, template: Template, cwd: str | None
) -> Callable[[Point], dict[str, Any]]:
    """What makes of a point the fields that its job has for itself."""
    space = wish.space
    here: str = wish.request["cwd"]
    files = {key: Text(text, space.names) for key, text in wish.files.items()}
    for key, text in files.items():
        if text.is_fixed and count > 1:
            raise UsageError(
                f"--{key}: all {count} points would write to one file",
                f"put a parameter or {{point}} in it, e.g. --{key} 'run-{{point}}.txt'",
            )
    name_of = identity.namer(template.key, here)
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
            settle_paths(paths, here)
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


def queue(client: Client, plan: Plan, rerun: str | None, max_running: int | None) -> Queued:
    """Queue the points that have no job yet, or are to have another.

    While the daemon takes in one part of them, the next one is made.
    """
    if max_running is not None:
        # Before the first job is queued, so that there are never more.
        client.call("limit_group", group=plan.name, max_running=max_running)
    settle_requirements(client, plan.shared)
    queued = Queued()
    ahead = Ahead(client)
    for number, part in enumerate(_parts(plan.jobs)):
        order = line_of("submit", _submission(plan, part, rerun))
        if number:
            queued.took(ahead.answer())  # After one that is refused, nothing follows.
        ahead.give_line(order)
    queued.took(ahead.answer())
    return queued


def _submission(plan: Plan, jobs: list[dict[str, Any]], rerun: str | None) -> dict[str, Any]:
    """An order that is known by its token should it be cut off and given again."""
    how = {"rerun": rerun or "missing", "token": os.urandom(16).hex()}
    return {**plan.request, "jobs": [plan.shared], "each": jobs, **how}


def _parts(jobs: Jobs) -> Iterator[list[dict[str, Any]]]:
    start, size = 0, _FIRST_IN_A_MESSAGE
    while part := jobs[start : start + size]:
        yield part
        start, size = start + size, min(size * 3 // 2, _MOST_IN_A_MESSAGE)


# ---------------------------------------------------------------------- what is said


def _counted(count: int, word: str = "point") -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")


def _command(job: dict[str, Any]) -> str:
    return escaped(job["shell"]) if "shell" in job else escaped(shlex.join(job["argv"]))


def _warn_of_few(plan: Plan) -> None:
    if plan.asked_for is not None and len(plan.jobs) < plan.asked_for:
        say(f"stoker: there are only {_counted(len(plan.jobs))}, not {plan.asked_for}")


def _show_plan(plan: Plan, as_json: bool) -> None:
    first = plan.jobs[:_SHOWN_IN_A_DRY_RUN]
    _warn_of_few(plan)
    if as_json:
        points = [{"params": job["params"], "command": _command(job)} for job in first]
        answer = {"schema": 1, "sweep": plan.name, "count": len(plan.jobs), "points": points}
        out(dumps(answer) + "\n")
        return
    out(f"{_counted(len(plan.jobs))}\n")
    for job in first:
        out(f"{_command(job)}\n")
    more = len(plan.jobs) - len(first)
    if more:
        say(f"and {more} more")


def _tell(plan: Plan, queued: Queued, as_json: bool) -> None:
    _warn_of_few(plan)
    if as_json:
        answer = {
            "schema": 1,
            "sweep": plan.name,
            "count": len(plan.jobs),
            "ids": queued.ids,
            "succeeded_before": queued.done,
            "unfinished": queued.unfinished,
        }
        out(dumps(answer) + "\n")
        return
    parts = [f"{len(queued.ids)} queued"]
    if queued.done:
        parts.append(f"{queued.done} succeeded before")
    if queued.unfinished:
        parts.append(f"{queued.unfinished} queued or running already")
    if queued.passed_over:
        parts.append(f"{queued.passed_over} not tried yet")
    say(f"{_counted(len(plan.jobs))}: {', '.join(parts)}; see `stoker sweep show {plan.name}`")
    out(f"{plan.name}\n")
