"""Entries of a batch file turned into jobs, by the table of job options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from stoker.api.job_option import NONE
from stoker.api.job_options import BY_KEY, NEGATIVES, fields_of
from stoker.batch.entries import Complaints, Entry, Value, located
from stoker.batch.sequence import Circle, batches, behind_what_they_need
from stoker.errors import UsageError
from stoker.quantities import job_ids, plain, quoted
from stoker.submission import rules
from stoker.submission.keywords import unknown_option, value_of
from stoker.submission.surroundings import (
    is_for_cluster,
    require_program,
    usable_paths,
    with_project,
)

COLUMNS = frozenset({*BY_KEY, *NEGATIVES})
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

    def move_back(self, shift: int) -> None:
        """So many jobs were put before all those that it may wait for."""
        self.after = [place + shift for place in self.after]
        self.after_any = [place + shift for place in self.after_any]
        if self.behind is not None:
            self.behind = range(self.behind.start + shift, self.behind.stop + shift)

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


@dataclass(slots=True)
class Translator:
    """What all jobs of a file have in common."""

    source: str
    defaults: Mapping[str, Any]  # values of options that all jobs have, unless they say otherwise
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
            is_plain = all(type(value) is str for _, value in said)
            if is_plain and len(self._asked) < _REMEMBERED:
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
        values = dict(self.defaults)
        waits_for: dict[str, list[str]] = {key: [] for key in _REQUIREMENTS}
        for key, said in entry.values.items():
            option = BY_KEY.get(key) or NEGATIVES.get(key)
            if option is None:
                raise unknown_option(key, BY_KEY, "see `stoker add --help`")
            try:
                if key in _REQUIREMENTS:
                    values[key], waits_for[key] = _requirements(said)
                    continue
                value = value_of(option, said)
                if option.repeat:
                    said_before = values.get(key) or ()
                    values[key] = NONE if value is NONE else [*said_before, *value]
                else:
                    values[option.key] = not value if key in NEGATIVES else value
            except UsageError as error:
                raise UsageError(f"{option.name}: {error.message}", error.hint) from None
        values = {key: value for key, value in values.items() if value is not None}
        fields = fields_of(with_project(values, self.here, "batch"))
        for key in ("cwd", "out", "err"):
            if key in fields:
                fields[key] = os.path.expanduser(fields[key])
        rules.check_need(rules.Said(fields), elsewhere=is_for_cluster(fields))
        rules.check_limits(rules.Said(fields))
        cwd = usable_paths(fields, self.here)
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
            what = "the job waits for itself through others"
            error = UsageError(what, "remove the circular dependency")
            raise located(self.source, jobs[circle.place].entry.line, error) from None
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
    argv, shell = ([], command) if isinstance(command, str) else (command, None)
    for word in argv or [shell or ""]:
        plain(word)
    rules.check_command(argv, shell)
    return {"argv": list(argv)} if shell is None else {"shell": shell}


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


def new_group(source: str) -> str:
    """A group for the jobs of a file, which no other has."""
    stem = "".join(c for c in os.path.splitext(source)[0] if c.isprintable())[:100]
    return f"{stem or 'batch'}-{os.urandom(3).hex()}"
