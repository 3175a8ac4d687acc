"""`stoker edit`: change a job that has not started."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.api.job_options import options_in
from stoker.cli.jobspec import option_of, values_said
from stoker.cli.options import JSON, Args, Option, Verb, tell
from stoker.cli.selection import IDS, IDS_NOTE, STATE, required
from stoker.errors import Failed, StokerError, UsageError
from stoker.submission import rules
from stoker.submission.changes import changed_fields
from stoker.submission.surroundings import command_fields, usable_paths
from stoker.text.ids import id_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from stoker.api.job_options import JobOption


_PATHS = ("cwd", "out", "err")
_QUEUED = ("waiting", "held")


class _Cleared:
    """The value of an option that was given as `none`."""


_NONE = _Cleared()


def _or_none(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: _NONE if text == "none" else convert(text)


def _editable(option: JobOption) -> Iterator[Option]:
    found = option_of(option)
    before, _, after = found.help.partition(" (default: ")  # It stays as it is, if it is not named.
    found.help = before + after.partition(")")[2]
    if option.cleared:
        found.help += "; none takes it away"
        found.convert = _or_none(option.read)
    yield found
    if option.negative or (option.is_flag and option.fields):
        yield Option(
            f"no-{option.name}",
            option.negative or f"undo --{option.name}",
            group=option.group,
        )


def edit(args: Args) -> None:
    """Change a waiting or held job."""
    # --name and --group are what they are to be called from now on, and not which jobs.
    select = required({key: args[key] for key in ("id", "state")}, "edit")
    changes = _changes(args)
    if not changes:
        raise UsageError("nothing to change was named", "e.g. stoker edit 7 --priority -1")
    with Client() as client:
        if any(changes.get(key) for key in _PATHS):
            ids, left_out = _edited_by_directory(client, select, changes)
        else:
            answer = client.call("edit", select=select, changes=changes)
            ids, left_out = answer["ids"], answer.get("left_out", {})
    words = f"changed: {id_list(ids)}" if ids else "nothing to do"
    if left_out:
        words += f"; not: {', '.join(f'{id_list(of)} ({why})' for why, of in left_out.items())}"
    tell(args, {"ids": ids, "left_out": left_out}, words)


def _edited_by_directory(
    client: Client, select: dict[str, Any], changes: dict[str, Any]
) -> tuple[list[int], dict[str, list[int]]]:
    """Relative paths are relative to a job's own directory, as in `add`: see to each in turn."""
    by_directory: dict[str, list[int]] = {}
    done: list[int] = []
    left_out: dict[str, list[int]] = {}
    jobs = client.call("show", select=select)["jobs"]
    queued = [job for job in jobs if job["state"] in _QUEUED]
    for job in queued or jobs:  # Where none is, the daemon says why that won't do.
        directory = job.get("options", {}).get("freeze") or job["cwd"]
        by_directory.setdefault(directory, []).append(job["id"])
    for job in jobs if queued else ():
        if job["state"] not in _QUEUED:
            left_out.setdefault(job["state"], []).append(job["id"])
    refusal: StokerError | None = None
    for directory, ids in by_directory.items():
        paths = {key: changes[key] for key in _PATHS if changes.get(key)}
        try:
            usable_paths(paths, directory)
            its_select = {**select, "ids": [str(job_id) for job_id in ids]}
            answer = client.call("edit", select=its_select, changes=changes | paths)
        except (Failed, UsageError) as error:
            refusal = refusal or error
            left_out.setdefault(error.message, []).extend(ids)
            continue
        done += answer["ids"]
        for why, of in answer.get("left_out", {}).items():
            left_out.setdefault(why, []).extend(of)
    if refusal is not None and not done:
        raise refusal
    return sorted(done), left_out


def _changes(args: Args) -> dict[str, Any]:
    cleared = [key for key, value in args.items() if value is _NONE]
    values = values_said({key: value for key, value in args.items() if value is not _NONE})
    command = command_fields(args["command"]) if args["command"] else None
    changes = changed_fields(values, cleared, command)
    said = rules.Said(changes)
    rules.check_need(said, elsewhere=not all(name.isdigit() for name in said.on or ()))
    rules.check_limits(said, has_limit=True)
    return changes


VERB = Verb(
    "edit",
    "change jobs that have not started: their command, needs, priority, limits",
    run=edit,
    positionals=(IDS,),
    options=(*(one for option in options_in("edit") for one in _editable(option)), STATE, JSON),
    command="optional",
    examples=(
        ("stoker edit 7 --priority -1", "job 7 goes before the others"),
        ("stoker edit 3-9 --time-limit 2h", "those of jobs 3 to 9 that have not started"),
        ("stoker edit 7 --gpus 1 --mem none -- python train.py --small", "another command"),
    ),
    notes=(
        "Only what you name changes. The options mean the same as in `stoker add`. The job "
        "keeps the environment it was submitted with; --env sets variables in it.",
        "Of several jobs, those that can be changed are; the others are named.",
        IDS_NOTE,
    ),
)
