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

    from stoker.api.job_option import JobOption
    from stoker.cli.options import AnyOption, Options

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

# The fields that can contradict each other. Most lines say at most one of them: nothing need be
# loaded to check that.
MAY_CONTRADICT = frozenset((
    "gpus", "share", "exclusive", "mem", "mem_mib", "on", "prefer",
    "signal", "signal_before_ms", "time_limit_ms", "slice_ms", "preemptible", "urgent",
))  # fmt: skip


def job_options(verb: str) -> Options:
    """The options of a job that this verb has."""
    from stoker.api.job_options import options_in

    found: list[AnyOption] = []
    for option in options_in(verb):
        found.append(option)
        if option.negative:
            found.append(Option(f"no-{option.name}", option.negative, group=option.group))
    return found


def option_of(option: JobOption) -> Option:
    """A copy of an option of the table, for a verb where it means something else."""
    return Option(
        option.name,
        option.help,
        option.metavar,
        option.convert,
        repeat=option.repeat,
        choices=option.choices,
        files=option.files,
        dashes=option.dashes,
        group=option.group,
        undone_by_no=option.undone_by_no,
    )


def values_said(args: Args) -> dict[str, Any]:
    """The values of the options that were given, and no others."""
    values: dict[str, Any] = {}
    if args.keys() == {"command"}:
        return values
    from stoker.api.job_option import several
    from stoker.api.job_options import BY_KEY

    for key, value in args.items():
        if value is None or value is False or value == []:
            continue
        if key in BY_KEY:
            values[key] = several(value) if BY_KEY[key].repeat else value
        elif key.startswith("no_") and (option := BY_KEY.get(key[3:])) is not None:
            if args.get(option.key):
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

        fields = fields_of(values)
        if len(MAY_CONTRADICT & fields.keys()) > 1:
            _refuse_contradictions(fields)
    if args["command"]:
        fields |= command_fields(args["command"])
    return fields


def _refuse_contradictions(fields: dict[str, Any]) -> None:
    from stoker.submission import rules

    # What a cluster is told are types of GPUs, and not which ones.
    numbered = all(name.isdigit() for name in fields.get("on") or ())
    rules.check_need(rules.Said(fields), elsewhere=not numbered)
    rules.check_limits(rules.Said(fields))
    rules.check_giving_way(rules.Said(fields))


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
