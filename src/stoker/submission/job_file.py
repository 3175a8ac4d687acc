"""Queued jobs as a file that a person edits, and what was changed in it.

The file is TOML, one table per job, with the options as stoker.toml has them. Only what differs
from what was written counts as a change, so an option that is not shown stays as it is.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from stoker.api.job_option import NONE, JobOption
from stoker.api.job_options import BY_KEY, options_in
from stoker.api.job_written import Job, written
from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.submission.changes import changed_fields
from stoker.submission.keywords import unknown_option, value_of
from stoker.submission.surroundings import command_fields

Table = dict[str, Any]  # of one job: options by name, as they are written

_COMMAND = "command"
_OPTIONS = options_in("edit")
_ALWAYS = ("gpus", "priority")
_HEADER = (
    "Change what you like, save, and leave the editor. Options are as in `stoker add --help`.",
    "To take an option away, delete its line. A job without its table stays as it is.",
    'Variables are set with e.g. env = {SEED = "1"}; those that a job has already are not shown.',
    "A command in quotes is a line for your login shell; one in brackets is words, run without it.",
)


def table_of(job: Job) -> Table:
    """What a job's table has: its command, and the options that it has as they can be typed."""
    table: Table = {_COMMAND: job["argv"] if job["shell"] is None else job["shell"]}
    for option in _OPTIONS:
        if option.key == "cwd" and "freeze" in job["options"]:
            continue  # It can't be changed.
        value = written(option, job)
        if value or (option.name in _ALWAYS and value is not None):
            table[option.name] = value
    return table


def file_text(tables: Mapping[int, Table]) -> str:
    """The file that is opened."""
    others = ", ".join(option.name for option in _OPTIONS)
    lines = [*_HEADER, *_wrapped(f"Options that can be added: {others}.")]
    text = "".join(f"# {line}\n" for line in lines)
    for job_id, table in tables.items():
        text += f"\n[{job_id}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in table.items())
    return text


def _wrapped(text: str) -> list[str]:
    """In lines; the name of an option stays in one."""
    import textwrap

    return textwrap.wrap(text, 98, break_on_hyphens=False)


def _toml(value: Any) -> str:
    # TOML's strings are JSON's, but for one more character that must be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def changes_in(text: str, tables: Mapping[int, Table]) -> dict[int, dict[str, Any]]:
    """The fields that are to change, of each job whose table is not as it was written."""
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"it is not TOML: {error}", "fix that line") from None
    changes: dict[int, dict[str, Any]] = {}
    for name, table in said.items():
        job_id = int(name) if name.isdecimal() else 0
        if job_id not in tables or not isinstance(table, dict):
            raise UsageError(
                f"{quoted(name)} is not one of the jobs that were opened",
                "put options below the [ID] of their job",
            )
        try:
            changed = _changed(table, tables[job_id])
        except UsageError as error:
            raise UsageError(f"job {job_id}: {error.message}", error.hint) from None
        if changed:
            changes[job_id] = changed
    return changes


def _changed(said: Table, before: Table) -> dict[str, Any]:
    values: dict[str, Any] = {}
    command = None
    said = {name.replace("_", "-"): value for name, value in said.items()}
    for name in (*said, *(name for name in before if name not in said)):
        value = said.get(name)
        if value == before.get(name):
            continue
        option = BY_KEY.get(name.replace("-", "_"))
        if name == _COMMAND:
            command = _command(value)
        elif option is None:
            raise unknown_option(name, BY_KEY, "see `stoker edit --help`")
        elif option not in _OPTIONS:
            raise UsageError(f"{name} can't be changed", "cancel the job and add it anew")
        elif value in (None, "") and option.cleared:
            values[option.key] = NONE
        elif value is None and option.is_flag:
            values[option.key] = False
        elif value is None:
            raise UsageError(f"{name} can't be taken away", "write another value")
        else:
            values[option.key] = _value(option, value)
    return changed_fields(values, command)


def _value(option: JobOption, said: Any) -> Any:
    try:
        return value_of(option, said)
    except UsageError as error:
        raise UsageError(f"{option.name}: {error.message}", error.hint) from None


def _command(said: Any) -> dict[str, Any]:
    """Text is a line for the login shell, a list is words: as the file shows them."""
    words = [said] if isinstance(said, str) else said or ()
    if not isinstance(words, list) or not words or not all(isinstance(one, str) for one in words):
        raise UsageError("the command is missing", "write it as text, or as a list of words")
    if isinstance(said, str):
        return command_fields([said])
    command_fields([*words, ""])  # It refuses what no command can have.
    return {"argv": words}
