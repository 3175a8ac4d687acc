"""The options of a job on the command line, and the submission that they make."""

from __future__ import annotations

from stoker.cli.options import Args, Option
from stoker.errors import UsageError
from stoker.submission.surroundings import (
    command_fields,
    current_directory,
    is_for_cluster,
    new_token,
    require_program,
    surroundings,
    usable_paths,
    with_project,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.api.job_options import JobOption

_HOW_IT_RUNS = (
    " Several words are run without a shell; a single quoted word (e.g. 'cd data && make') is run "
    "by your login shell. The job gets the current environment and directory, and the defaults of "
    "the project's stoker.toml; --no-freeze and so on undo a flag that is set there, none "
    "(--time-limit none) another option."
)
COMMAND_NOTE = "Everything after -- is the command." + _HOW_IT_RUNS
# Of a verb that has no other words: its command can be told from its options.
BARE_COMMAND_NOTE = (
    "Everything after -- is the command; without --, everything from the first word that is not "
    "an option of Stoker." + _HOW_IT_RUNS
)


def job_options(verb: str) -> tuple[Option, ...]:
    """The options of a job that this verb has."""
    from stoker.api.job_options import options_in

    found = []
    for option in options_in(verb):
        found.append(option_of(option))
        if option.negative:
            found.append(Option(f"no-{option.name}", option.negative, group=option.group))
    return tuple(found)


def option_of(option: JobOption) -> Option:
    """An option of the table as one of the command line."""
    return Option(
        option.name,
        option.means,
        option.metavar,
        option.read,
        repeat=option.repeat,
        choices=option.choices,
        files=option.files,
        dashes=option.dashes,
        group=option.group,
        undone_by_no=option.is_flag,
    )


def values_said(args: Args) -> dict[str, Any]:
    """The values of the options that were given, and no others."""
    values: dict[str, Any] = {}
    if args.keys() == {"command"}:
        return values
    from stoker.api.job_options import JOB_OPTIONS

    for option in JOB_OPTIONS:
        value = args.get(option.key)
        if value is not None and value is not False and value != []:
            values[option.key] = value
        if args.get(f"no_{option.key}"):
            if value:
                raise UsageError(
                    f"--{option.name} and --no-{option.name} exclude each other", "give one of them"
                )
            values[option.key] = False
    return values


def _fields_said(args: Args, verb: str) -> dict[str, Any]:
    """The fields of a job for the options and the command that were given, and its project's.

    Of a job of which only the command was said, neither table nor rules are loaded.
    """
    values = values_said(args)
    if verb:
        values = with_project(values, current_directory(), verb, args["command"] or ())
    fields: dict[str, Any] = {}
    if values:
        from stoker.api.job_options import fields_of
        from stoker.submission import rules

        fields = fields_of(values)
        # What a cluster is told are types of GPUs, and not which ones.
        numbered = all(name.isdigit() for name in fields.get("on") or ())
        rules.check_need(rules.Said(fields), elsewhere=not numbered)
        rules.check_limits(rules.Said(fields))
    if args["command"]:
        fields |= command_fields(args["command"])
    return fields


def submission(args: Args, verb: str = "") -> dict[str, Any]:
    """What `submit` is sent for one job: the job, and the environment and directory of now.

    With the verb, the defaults of the project count that it has.
    """
    fields = _fields_said(args, verb)
    request = surroundings(_not_taken_along)
    cwd = request["cwd"] = usable_paths(fields, request["cwd"])
    if "argv" in fields and not is_for_cluster(fields):
        path = {**request["env"], **fields.get("env", {})}.get("PATH")
        require_program(fields["argv"][0], cwd, path)
    return {"jobs": [fields], **request, "token": new_token()}


def _not_taken_along(variable: str) -> None:
    from stoker.text.terminal import say

    say(f"stoker: the environment variable {variable} is not valid UTF-8; the job won't have it")
