"""The file stoker.toml: default options for the jobs of a project.

It counts for jobs whose working directory is the file's, or below. What is said of a job comes
before it: a default that does not go with that is left out for this job.

Law: this is imported only where there is such a file.
"""

from __future__ import annotations

import os
import re
import shlex
import time
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.api.job_option import NONE, JobOption
from stoker.api.job_options import BY_KEY, JOB_OPTIONS, fields_of, options_in
from stoker.errors import UsageError
from stoker.output_files import has_fields
from stoker.quantities import MAX_LABEL_CHARS, label, quoted
from stoker.submission import rules
from stoker.submission.keywords import unknown_option, value_of
from stoker.submission.surroundings import is_for_cluster

Values = dict[str, Any]

# What names one job, and not those of a project.
_OF_ONE_JOB = ("after", "after_any", "after_pid")
# A terminal shows what its job prints, once, on this machine.
_NOT_IN_A_TERMINAL = (
    "out", "err", "append", "overwrite", "max_log", "retries", "on_cluster", "executor", "slurm",
    "requeue_on", "slice", "requeue", "keep_place", "stuck_after", "preemptible", "yields",
)  # fmt: skip
_NOT_FOR = frozenset((
    ("batch", "group"), ("feed", "name"), ("call", "gpu_arg"), ("call", "freeze"),
    *((verb, key) for verb in ("run", "shell") for key in _NOT_IN_A_TERMINAL),
    ("shell", "freeze"),  # What is edited in a shell is the real code.
))  # fmt: skip
_NAME_FIELDS = ("{project}", "{script}", "{date}")
# The last file that was read: its path and how it was, and what is in it.
_last: tuple[tuple[object, ...], Values] = ((), {})


def with_defaults(
    said: Values, path: str, front_end: str, words: Sequence[str], fields: Mapping[str, Any]
) -> Values:
    """The values of a job's options: what was said of it, on top of what the file says.

    `words` are those of its command, for its name; `fields` what was said as fields of the message.
    """
    merged = dict(said)
    there = {option.key for option in options_in(front_end)}
    there -= {o.key for o in JOB_OPTIONS if o.key != "env" and _is_said(o, fields)}
    defaults = read(path)
    _refuse_contradictions(defaults, path, {**said, **fields})
    for key in defaults:
        if key not in there:
            continue
        value = defaults[key]
        if key == "env":
            merged[key] = [*value, *said.get(key, ())]
        elif key not in said and _is_for(front_end, key, value):
            if key == "name":
                value = _name(value, path, words)
            if _fits({**merged, key: value}, fields):
                merged[key] = value
    return merged


def read(path: str) -> Values:
    """The values of the options in a file, in the order of the table."""
    global _last
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            state = (path, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            if _last[0] == state:
                return _last[1]
            said = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}", "correct it, or remove the file") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "make it readable, or remove it") from None
    values = _understood(said, path)
    _last = (state, values)
    return values


def _understood(said: Values, path: str) -> Values:
    values: Values = {}
    for written, value in said.items():
        key = written.replace("-", "_")
        try:
            if key in _OF_ONE_JOB:
                raise UsageError("it is about one job", "leave it out of the file")
            if key not in BY_KEY:
                raise unknown_option(written, BY_KEY, "see `stoker add --help`")
            values[key] = value_of(BY_KEY[key], value)
            if values[key] is NONE:
                del values[key]
            elif key == "name":
                _check_template(values[key])
                label(_name(values[key], path, ()))
        except UsageError as error:
            where = path if key not in BY_KEY else f"{path}: {written}"
            raise UsageError(f"{where}: {error.message}", error.hint) from None
    if "cwd" in values:
        here = os.path.dirname(path)
        values["cwd"] = os.path.normpath(os.path.join(here, os.path.expanduser(values["cwd"])))
    return {option.key: values[option.key] for option in JOB_OPTIONS if option.key in values}


def _refuse_contradictions(values: Values, path: str, said: Mapping[str, Any]) -> None:
    """Refuse defaults that exclude each other, unless what is said of a job undoes that."""
    try:
        _check(fields_of(values))
    except UsageError as error:
        rest = {k: v for k, v in values.items() if k not in said and not _is_said(BY_KEY[k], said)}
        if len(rest) == len(values) or not _fits(rest, {}):
            raise UsageError(f"{path}: {error.message}", error.hint) from None


def as_written(path: str) -> dict[str, str]:
    """The options of a file by their names, as it has them, once they are understood."""
    _refuse_contradictions(read(path), path, {})
    with open(path, "rb") as file:
        said = tomllib.load(file)
    return {key.replace("_", "-"): _text(value) for key, value in said.items()}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, list):
        return ",".join(str(one) for one in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _is_said(option: JobOption, fields: Mapping[str, Any]) -> bool:
    return any(field.name in fields for field in option.fields)


def _check(said: Mapping[str, Any]) -> None:
    """Refuse fields that exclude each other."""
    fields, elsewhere = rules.Said(said), is_for_cluster(said)
    rules.check_need(fields, elsewhere=not all(name.isdigit() for name in fields.on or ()))
    rules.check_limits(fields)
    rules.check_giving_way(fields, elsewhere=elsewhere)
    rules.share_of_many(fields)
    rules.says_what_of_files(said)
    rules.check_log_bound(said, fields.out, elsewhere=elsewhere)
    if fields.freeze and elsewhere:
        raise UsageError("freeze is for jobs on this machine", "leave it out")
    if fields.mps and (fields.gpus not in (None, 1)):
        raise UsageError("mps is for jobs on one GPU", "leave out mps, or gpus")
    if fields.thread_percentage is not None and not fields.mps:
        raise UsageError("thread-percentage is about MPS", "add mps, or leave it out")


def _fits(values: Values, fields: Mapping[str, Any]) -> bool:
    try:
        _check({**fields_of(values), **fields})
    except UsageError:
        return False
    return True


def _is_for(front_end: str, key: str, value: Any) -> bool:
    """Not so one file for all points of a sweep, or words to append to a call.

    Nor a group for a batch, which has its own, or one name for all lines of a feed; nor code that
    stays as it is for a call; nor what a job in a terminal can't have, as files and retries.
    """
    if (front_end, key) in _NOT_FOR:
        return False
    if front_end == "sweep" and key in ("out", "err"):
        return has_fields(value)
    return True


def _check_template(template: str) -> None:
    """Refuse a field that a name can't have: it would be the name of every job."""
    for found in re.findall(r"\{\w*\}", template):
        if found not in _NAME_FIELDS:
            raise UsageError(
                f"a name can't have {quoted(found)}",
                "write {project}, {script} or {date}, or no braces",
            )


def _name(template: str, path: str, words: Sequence[str]) -> str:
    """The name of a job: {project} is the directory of the file, {script} what the job runs."""
    if "{" not in template:
        return template
    project = os.path.basename(os.path.dirname(path)) or "project"
    values = (project, _script(words), time.strftime("%Y-%m-%d"))
    for field, value in zip(_NAME_FIELDS, values, strict=True):
        template = template.replace(field, value)
    return template[:MAX_LABEL_CHARS]


def _script(words: Sequence[str]) -> str:
    """`train` for `python -u runs/train.py --lr 1`: the first word with an ending, or the first."""
    if len(words) == 1:
        try:
            words = shlex.split(words[0])
        except ValueError:
            words = words[0].split()
    for word in words:
        stem, ending = os.path.splitext(os.path.basename(word))
        if ending in (".py", ".sh", ".ipynb", ".R", ".jl") and stem.isprintable():
            return stem
    first = os.path.basename(words[0]) if words else ""
    return first if first.strip() and first.isprintable() else "job"
