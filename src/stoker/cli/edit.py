"""`stoker edit`: change a job that has not started."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.jobspec import JOB_OPTIONS, fields_from, settle_paths
from stoker.cli.options import JSON, Option, Positional, Verb
from stoker.cli.selection import id_list
from stoker.cli.terminal import out, say
from stoker.errors import NotFound, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stoker.cli.options import Args

# What `none` takes away again, by option: the wire's fields, and what they go back to.
_CLEARED: dict[str, dict[str, Any]] = {
    "mem": {"mem_mib": None, "mem": None},
    "on": {"on": []},
    "prefer": {"prefer": []},
    "cpus": {"cpus": None},
    "max_per_gpu": {"max_per_gpu": None},
    "thread_percentage": {"thread_percentage": None},
    "name": {"name": None},
    "group": {"group": None},
    "time_limit": {"time_limit_ms": None},
    "signal": {"signal": None, "signal_before_ms": 0},
    "at": {"not_before_ms": None},
    "out": {"out": None},
    "err": {"err": None},
}

# What a job depends on stays; and there are verbs of their own for holding.
_FIXED = ("after", "after_any", "hold")


class _Cleared:
    """The value of an option that was given as `none`."""


_NONE = _Cleared()


def _or_none(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: _NONE if text == "none" else convert(text)


def _editable(option: Option) -> Option:
    if option.key not in _CLEARED:
        return option
    return Option(
        option.name,
        f"{option.help}; none takes it away",
        option.metavar,
        _or_none(option.convert),
        files=option.files,
        dashes=option.dashes,
    )


_OPTIONS = (
    *(_editable(option) for option in JOB_OPTIONS if option.key not in _FIXED),
    Option("no-exclusive", "undo --exclusive"),
    Option("no-gpu-arg", "undo --gpu-arg"),
)


def edit(args: Args) -> int:
    """Change a waiting or held job."""
    select = {"ids": args["id"]}
    changes = _changes(args)
    if not changes:
        raise UsageError("nothing to change was named", "e.g. stoker edit 7 --priority -1")
    with Client() as client:
        if any(key in changes for key in ("cwd", "out", "err")):
            # Relative paths are relative to the job's own directory, as they are in `add`.
            jobs = client.call("show", select=select)["jobs"]
            if len(jobs) != 1:
                raise NotFound("that is not one job", "name one job by its id")
            paths = {key: changes[key] for key in ("cwd", "out", "err") if changes.get(key)}
            settle_paths(paths, jobs[0]["cwd"])
            changes |= paths
        answer = client.call("edit", select=select, changes=changes)
    ids = answer.get("ids", [])
    if args["json"]:
        from stoker.api.jsonline import dumps

        out(dumps({"schema": 1, "ids": ids}) + "\n")
    else:
        say(f"changed: {id_list(ids)}" if ids else "changed")
    return 0


def _changes(args: Args) -> dict[str, Any]:
    cleared = [key for key in _CLEARED if args[key] is _NONE]
    changes = fields_from({**args, **dict.fromkeys((*cleared, *_FIXED))}, editing=True)
    for key in cleared:
        changes |= _CLEARED[key]
    # A count replaces a share, and a shell string a list of words; both at once mean nothing.
    if "share" in changes:
        changes["gpus"] = None
    elif "gpus" in changes:
        changes["share"] = None
    if "shell" in changes:
        changes["argv"] = []
    elif "argv" in changes:
        changes["shell"] = None
    for flag in ("exclusive", "gpu_arg"):
        if args[f"no_{flag}"]:
            if changes.get(flag):
                name = flag.replace("_", "-")
                raise UsageError(f"--{name} and --no-{name} exclude each other", "give one of them")
            changes[flag] = False
    return changes


VERB = Verb(
    "edit",
    "change a job that has not started: its command, needs, priority, limits",
    run=edit,
    positionals=(Positional("ID", "the job: 7, or last", quantities.job_ids),),
    options=(*_OPTIONS, JSON),
    command="optional",
    examples=(
        ("stoker edit 7 --priority -1", "job 7 goes ahead of the others"),
        ("stoker edit 7 --gpus 1 --mem none -- python train.py --small", "another command"),
    ),
    notes=(
        "What is not named stays as it is. The options mean what they mean in `stoker add`. The "
        "job keeps the environment that it was submitted with; --env sets variables in it.",
    ),
)
