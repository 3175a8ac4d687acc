"""`stoker edit`: change a job that has not started."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.api.job_options import options_in
from stoker.cli.jobspec import option_of, values_said
from stoker.cli.options import JSON, Args, Option, Positional, Verb, tell
from stoker.cli.selection import IDS, IDS_NOTE, STATE, job_ids, required
from stoker.errors import Failed, NotFound, StokerError, UsageError
from stoker.submission import rules
from stoker.submission.changes import changed_fields, none_changed, not_queued
from stoker.submission.surroundings import command_fields, usable_paths
from stoker.text.ids import id_list, ids_by_reason
from stoker.text.terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from stoker.api.job_option import JobOption

    LeftOut = dict[str, list[int]]  # ids by why they were not changed


_PATHS = ("cwd", "out", "err")
_QUEUED = ("waiting", "held")
_IDS = Positional(
    "ID", IDS.help, lambda text: job_ids(text, has_name=False), many=True, optional=True
)
_MOST_BY_HAND = 1000  # jobs in one file: more is not what an editor is for


def _editable(option: JobOption) -> Iterator[Option]:
    found = option_of(option)
    before, _, after = found.help.partition(" (default: ")  # It stays as it is, if it is not named.
    found.help = before + after.partition(")")[2]
    if option.cleared:
        found.help += "; none takes it away"
    yield found
    if option.negative or (option.is_flag and option.fields):
        yield Option(
            f"no-{option.name}",
            option.negative or f"undo --{option.name}",
            group=option.group,
        )


def edit(args: Args) -> int:
    """Change a waiting or held job."""
    kept = ""
    # --name and --group are what they are to be called from now on, and not which jobs.
    select = required({key: args[key] for key in ("id", "state")}, "edit")
    changes = _changes(args)
    with Client() as client:
        if changes:
            ids, left_out = _edited(client, select, changes)
            words = f"changed: {id_list(ids)}" if ids else "nothing to do"
        else:
            ids, left_out, kept = _edited_by_hand(client, select)
            words = f"changed: {id_list(ids)}" if ids else "nothing was changed"
    if left_out:
        words += f"; not: {ids_by_reason(left_out)}"
    tell(args, {"ids": ids, "left_out": left_out}, words)
    if kept:
        say(f"stoker: {kept}")
    return 1 if kept else 0


def _edited(
    client: Client, select: dict[str, Any], changes: dict[str, Any]
) -> tuple[list[int], LeftOut]:
    if any(changes.get(key) for key in _PATHS):
        return _edited_by_directory(client, select, changes)
    answer = client.call("edit", select=select, changes=changes)
    return answer["ids"], answer.get("left_out", {})


def _edited_by_hand(client: Client, select: dict[str, Any]) -> tuple[list[int], LeftOut, str]:
    """Nothing to change was named: the user writes it into a file.

    The last of the three is where the file is, if some of what was written was refused.
    """
    from stoker.cli import editor
    from stoker.submission import job_file

    if not editor.is_wanted():
        raise UsageError(
            "nothing to change was named",
            "e.g. stoker edit 7 --priority -1; in a terminal, or with EDITOR set, an editor opens",
        )
    shown = client.call("show", select=select)["jobs"]
    jobs = {job["id"]: job for job in shown if job["state"] in _QUEUED}
    left_out: LeftOut = {}
    for job in shown:
        if job["id"] not in jobs:
            left_out.setdefault(job["state"], []).append(job["id"])
    if not jobs and shown:
        raise none_changed(left_out, not_queued(shown[0]["id"], shown[0]["state"]))
    if len(jobs) > _MOST_BY_HAND:
        raise UsageError(
            f"{len(jobs)} jobs are too many for an editor",
            "name what is to change, e.g. stoker edit 3-9 --priority -1",
        )
    tables = {job_id: job_file.table_of(job) for job_id, job in jobs.items()}

    def read(text: str) -> dict[int, dict[str, Any]]:
        changes = job_file.changes_in(text, tables)
        for changed in changes.values():
            _check(changed)
        return changes

    with editor.EditedFile("jobs.toml", job_file.file_text(tables)) as file:
        changes = file.edited(read)
        try:
            done, are_refused = _each_edited(client, changes, left_out)
            return done, left_out, file.kept() if are_refused else ""
        except StokerError as error:
            file.keep(error)
            raise


def _each_edited(
    client: Client, changes: dict[int, dict[str, Any]], left_out: LeftOut
) -> tuple[list[int], bool]:
    """The jobs that could be changed, each as was said of it, and whether some could not.

    Those are added to the ones that are left out.
    """
    done: list[int] = []
    refusal: StokerError | None = None
    for job_id, changed in changes.items():
        try:
            done += _edited(client, {"ids": [str(job_id)]}, changed)[0]
        except (Failed, UsageError, NotFound) as error:  # It has started, say, or is gone.
            refusal = refusal or error
            why = error.message.removeprefix(f"job {job_id} is ")
            left_out.setdefault(why, []).append(job_id)
    if refusal is not None and not done:
        raise none_changed(left_out, refusal)
    return done, refusal is not None


def _edited_by_directory(
    client: Client, select: dict[str, Any], changes: dict[str, Any]
) -> tuple[list[int], LeftOut]:
    """Relative paths are relative to a job's own directory, as in `add`: see to each in turn."""
    by_directory: dict[str, list[int]] = {}
    done: list[int] = []
    left_out: LeftOut = {}
    jobs = client.call("show", select=select)["jobs"]
    queued = [job for job in jobs if job["state"] in _QUEUED]
    for job in queued:
        directory = job.get("options", {}).get("freeze") or job["cwd"]
        by_directory.setdefault(directory, []).append(job["id"])
    for job in jobs:
        if job["state"] not in _QUEUED:
            left_out.setdefault(job["state"], []).append(job["id"])
    refusal: StokerError | None = None
    if jobs and not queued:
        refusal = not_queued(jobs[0]["id"], jobs[0]["state"])
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
        raise none_changed(left_out, refusal)
    return sorted(done), left_out


def _changes(args: Args) -> dict[str, Any]:
    command = command_fields(args["command"]) if args["command"] else None
    changes = changed_fields(values_said(args), command)
    _check(changes)
    return changes


def _check(changes: dict[str, Any]) -> None:
    said = rules.Said(changes)
    rules.check_need(said, elsewhere=not all(name.isdigit() for name in said.on or ()))
    rules.check_limits(said, has_limit=True)


VERB = Verb(
    "edit",
    "change jobs that have not started: their command, needs, priority, limits",
    run=edit,
    positionals=(_IDS,),
    options=(*(one for option in options_in("edit") for one in _editable(option)), STATE, JSON),
    command="optional",
    examples=(
        ("stoker edit 7 --priority -1", "job 7 goes before the others"),
        ("stoker edit 3-9 --time-limit 2h", "those of jobs 3 to 9 that have not started"),
        ("stoker edit 3-9", "write the changes in your editor, each job's own"),
        ("stoker edit 7 --gpus 1 --mem none -- python train.py --small", "another command"),
    ),
    notes=(
        "Only what you name changes. The options mean the same as in `stoker add`. The job "
        "keeps the environment it was submitted with; --env sets variables in it.",
        "If you name no change, an editor opens (VISUAL, EDITOR, or the system's) with the options "
        "of the jobs as TOML. What you change there is applied when you leave it. If a job refuses "
        "its changes, the exit code is 1 and the file is kept and named.",
        "Of several jobs, those that can be changed are; the others are named.",
        IDS_NOTE,
    ),
)
