"""Entries of a file turned into job requests by the very options of `add`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from stoker.batch.entries import Complaints, Entry, Value
from stoker.batch.order import Circle, batches, behind_what_they_need
from stoker.cli.jobspec import (
    JOB_OPTIONS,
    fields_from,
    is_for_cluster,
    require_program,
    settle_paths,
)
from stoker.cli.options import Option, plain
from stoker.errors import UsageError
from stoker.quantities import job_ids, quoted

if TYPE_CHECKING:
    from stoker.cli.options import Args

OPTIONS = {option.key: option for option in JOB_OPTIONS}
_TRUE = frozenset(("yes", "true", "on", "1", "y", "t"))
_FALSE = frozenset(("no", "false", "off", "0", "n", "f", ""))
_OPPOSITES = {"mps": "no_mps", "no_mps": "mps"}
_REQUIREMENTS = ("after", "after_any")
_REMEMBERED = 1000


@dataclass(slots=True)
class PlannedJob:
    """A job request; the jobs of the same file that it waits for are known by their place."""

    entry: Entry
    fields: dict[str, Any]
    after: Sequence[int] = ()
    after_any: Sequence[int] = ()
    behind: range | None = None  # the batch before, all of which must have ended

    @property
    def title(self) -> str:
        """The job in a sentence."""
        name = self.fields.get("name")
        return f"line {self.entry.line}" + (f" ({name})" if name else "")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an entry asks for, its command aside."""

    fields: dict[str, Any]
    waits_for: dict[str, list[str]]  # names of other entries
    cwd: str
    path: str | None


def _is_plain(said: tuple[tuple[str, Value], ...]) -> bool:
    return all(type(value) is str for _, value in said)


@dataclass(slots=True)
class Translator:
    """What all jobs of a file have in common."""

    source: str
    defaults: Args  # the options of the command line
    here: str
    environment: dict[str, str]
    group: str
    _asked: dict[tuple[Any, ...], _Asked] = field(default_factory=dict)  # by what entries say
    _programs: set[tuple[str, str, str | None]] = field(default_factory=set)  # that are there

    def planned(self, entries: list[Entry], batch_size: int | None) -> list[PlannedJob]:
        """The jobs in the order in which they are to be queued."""
        complaints = Complaints(self.source)
        jobs: list[PlannedJob] = []
        names: list[dict[str, list[str]]] = []
        for entry in entries:
            try:
                job, waits_for = self._job(entry)
                jobs.append(job)
                names.append(waits_for)
            except UsageError as error:
                complaints.add(entry.line, error)
        complaints.raise_any()
        by_name: dict[str, list[int]] = {}
        for place, job in enumerate(jobs):
            name = job.fields.get("name")
            if name is not None:
                by_name.setdefault(name, []).append(place)
        for job, waits_for in zip(jobs, names, strict=True):
            if not (waits_for["after"] or waits_for["after_any"]):
                continue
            try:
                job.after = _places(waits_for["after"], by_name)
                job.after_any = _places(waits_for["after_any"], by_name)
            except UsageError as error:
                complaints.add(job.entry.line, error)
        complaints.raise_any()
        return self._in_order(jobs, batch_size)

    # ------------------------------------------------------------------ one job

    def _job(self, entry: Entry) -> tuple[PlannedJob, dict[str, list[str]]]:
        """The request, and the names of other entries that it waits for."""
        # Most rows of a long file say the same but for their commands.
        said = tuple(entry.values.items())
        try:
            asked = self._asked.get(said)
        except TypeError:  # A list is among them, say.
            asked = None
        if asked is None:
            asked = self._understood(entry)
            if _is_plain(said) and len(self._asked) < _REMEMBERED:
                self._asked[said] = asked
        fields = asked.fields | _command(entry.command)
        if "argv" in fields:
            program = fields["argv"][0] = os.path.expanduser(fields["argv"][0])
            if not is_for_cluster(fields):
                self._require(program, asked.cwd, asked.path)
        if entry.params:
            fields["params"] = dict(entry.params)
        return PlannedJob(entry, fields), asked.waits_for

    def _require(self, program: str, cwd: str, path: str | None) -> None:
        if (program, cwd, path) not in self._programs:
            require_program(program, cwd, path)
            self._programs.add((program, cwd, path))

    def _understood(self, entry: Entry) -> _Asked:
        """What an entry asks for, whatever its command is."""
        args = dict(self.defaults) | {"name": None, "out": None, "err": None, "command": None}
        args["env"] = list(self.defaults["env"])
        waits_for: dict[str, list[str]] = {key: [] for key in _REQUIREMENTS}
        for key, value in entry.values.items():
            option = OPTIONS.get(key)
            if option is None:
                raise _unknown(key)
            try:
                if key in _REQUIREMENTS:
                    args[key], waits_for[key] = _requirements(value)
                elif option.repeat:
                    args[key] += [option.convert(plain(text)) for text in _several(value)]
                elif option.takes_value:
                    args[key] = option.convert(plain(_single(option, value)))
                else:
                    args[key] = _flag(value)
                    if key in _OPPOSITES:  # What the file says goes before the command line.
                        args[_OPPOSITES[key]] = not args[key]
            except UsageError as error:
                raise UsageError(f"{option.name}: {error.message}", error.hint) from None
        fields = fields_from(args)
        for key in ("cwd", "out", "err"):
            if key in fields:
                fields[key] = os.path.expanduser(fields[key])
        if "signal" in fields and "time_limit_ms" not in fields:
            raise UsageError("signal is sent before the time limit", "give a time-limit too")
        cwd = settle_paths(fields, self.here)
        path = {**self.environment, **fields.get("env", {})}.get("PATH")
        fields.setdefault("group", self.group)
        return _Asked(fields, waits_for, cwd, path)

    # ------------------------------------------------------------------ their order

    def _in_order(self, jobs: list[PlannedJob], batch_size: int | None) -> list[PlannedJob]:
        cut = [list(range(len(jobs)))]
        if batch_size is not None:
            cut = batches([job.fields.get("priority", 0) for job in jobs], batch_size)
        elif not any(job.after or job.after_any for job in jobs):
            return jobs
        requires = {p: {*job.after, *job.after_any} for p, job in enumerate(jobs)}
        try:
            ordered = behind_what_they_need(cut, requires)
        except Circle as circle:
            complaints = Complaints(self.source)
            complaints.add(
                jobs[circle.place].entry.line,
                UsageError("the job waits for itself, through others", "break the circle"),
            )
            complaints.raise_any()
            raise AssertionError("a complaint was made") from None
        now_at = {place: position for position, place in enumerate(ordered)}
        for job in jobs:
            job.after = [now_at[place] for place in job.after]
            job.after_any = [now_at[place] for place in job.after_any]
        begins = 0
        for before, batch in pairwise(cut):
            for place in batch:
                jobs[place].behind = range(begins, begins + len(before))
            begins += len(before)
        return [jobs[place] for place in ordered]


def _command(command: str | list[str]) -> dict[str, Any]:
    words = [command] if isinstance(command, str) else command
    for word in words:
        if "\0" in word:
            raise UsageError("the command has a NUL character in it", "leave it out")
        plain(word)
    if not words or not words[0].strip():
        raise UsageError("the command is empty", "write one")
    return {"shell": command} if isinstance(command, str) else {"argv": list(command)}


def _unknown(key: str) -> UsageError:
    from stoker.cli.suggest import nearest

    guess = nearest(key, list(OPTIONS))
    hint = f"did you mean {guess}?" if guess else "see `stoker add --help`"
    return UsageError(f"there is no option {quoted(key)}", hint)


def _single(option: Option, value: Value) -> str:
    if isinstance(value, dict):
        raise UsageError("this can't be a table", f"write e.g. {option.metavar}")
    return value if isinstance(value, str) else ",".join(value)


def _several(value: Value) -> list[str]:
    """K=V;K=V, a list of K=V, or a table."""
    if isinstance(value, dict):
        return [f"{key}={one}" for key, one in value.items()]
    if isinstance(value, str):
        return [part.strip() for part in value.split(";") if part.strip()]
    return value


def _flag(value: Value) -> bool:
    text = value.strip().lower() if isinstance(value, str) else "a list"
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise UsageError(f"{quoted(text)} is neither yes nor no", "write yes or no")


def _requirements(value: Value) -> tuple[list[str] | None, list[str]]:
    """Jobs by their ids, and entries of the same file by their names."""
    if isinstance(value, dict):
        raise UsageError("this can't be a table", "write ids or names")
    parts = value.split(",") if isinstance(value, str) else value
    ids: list[str] = []
    names: list[str] = []
    for part in parts:
        word = part.strip()
        if word == "last" or (word and not word.strip("0123456789-")):
            ids += job_ids(word)
        elif word:
            names.append(word)
    return ids or None, names


def _places(names: list[str], by_name: dict[str, list[int]]) -> list[int]:
    found: dict[int, None] = {}
    for name in names:
        if name not in by_name:
            raise UsageError(
                f"after: there is no job named {quoted(name)} in this file",
                "write the name of another entry, or the id of a job",
            )
        found.update(dict.fromkeys(by_name[name]))
    return list(found)
