"""`stoker config`: list, read and change the settings."""

from __future__ import annotations

import sys

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Positional, Verb, print_json, tell
from stoker.errors import UsageError
from stoker.text.terminal import Column, escaped, out, table

_NAME = Positional("NAME", "the setting's name, as `stoker config` lists it")


def list_settings(args: Args) -> None:
    """List all settings, and the defaults of the project that this directory is in."""
    with Client() as client:
        settings = client.call("config_get")["settings"]
    trouble: UsageError | None = None
    try:
        project, options = _project()
    except UsageError as error:  # What is set is shown all the same.
        project, options, trouble = None, {}, error
    if args["json"]:
        print_json({"settings": settings, "project": {"file": project, "options": options}})
        if trouble is not None:
            raise trouble
        return
    columns = (
        Column("NAME", "name", "bold"),
        Column(
            "VALUE",
            lambda setting: _shown(setting["value"]),
            lambda setting: "" if setting["value"] == setting["default"] else "green",
            least=12,
        ),
        Column("FROM", lambda one: "default" if one["value"] == one["default"] else "config set"),
        Column("MEANING", "help", "dim", least=20),
    )
    out(table(columns, settings) if settings else "")
    if options:
        rows = [
            {"option": name, "value": value, "from": project} for name, value in options.items()
        ]
        of_jobs = (Column("OPTION", "option", "bold"), Column("VALUE", "value", "green", least=12),
                   Column("FROM", "from", "dim", least=20))  # fmt: skip
        out("\nJobs that are queued from here have by default:\n" + table(of_jobs, rows))
    if trouble is not None:
        raise trouble


def _project() -> tuple[str | None, dict[str, str]]:
    from stoker.submission.surroundings import current_directory, project_file

    path = project_file(current_directory())
    if path is None:
        return None, {}
    from stoker.submission.project import as_written

    return path, as_written(path)


def get(args: Args) -> None:
    """Print the value of one setting."""
    with Client() as client:
        setting = client.call("config_get", name=args["name"])["settings"][0]
    if args["json"]:
        print_json({"setting": setting})
    else:
        value = setting["value"]
        out("\n" if value is None else escaped(_shown(value)) + "\n")


def set_(args: Args) -> None:
    """Change a setting or, if no value is named, put it back to its default."""
    words = args.get("value")
    if words == ["-"]:  # What is secret is in no argument then, which others can see.
        words = sys.stdin.read().split()
    value = None if words is None else " ".join(words)
    with Client() as client:
        answer = client.call("config_set", name=args["name"], value=value)
    name, understood = args["name"], answer["value"]
    tell(args, {"name": name, "value": understood}, f"{name} is {_shown(understood)}")


def _shown(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


VERB = Verb(
    "config",
    "list, read and change the settings",
    verbs=(
        Verb(
            "config list", "list all settings with their values and meanings",
            run=list_settings, options=(JSON,),
            examples=(("stoker config", "all settings"),),
        ),
        Verb(
            "config get", "print the value of one setting",
            run=get, positionals=(_NAME,), options=(JSON,),
            examples=(("stoker config get gpus", "which GPUs are declared"),),
        ),
        Verb(
            "config set", "change a setting; it takes effect at once",
            run=set_, options=(JSON,),
            positionals=(_NAME, Positional("VALUE", "its new value; - reads it from stdin",
                                           many=True, dashes=True)),
            examples=(("stoker config set gpus 0,1,2,3", "declare four GPUs"),
                      ("stoker config set gpus 0-3:24G", "and how much memory each has"),
                      ("stoker config set notify ntfys://ntfy.sh/my-topic", "where messages go")),
        ),
        Verb(
            "config unset", "reset a setting to its default",
            run=set_, positionals=(_NAME,), options=(JSON,),
            examples=(("stoker config unset gpus", "declare none"),),
        ),
    ),
    default="list",
    examples=(
        ("stoker config", "list all settings"),
        ("stoker config set gpus 0,1,2,3", "declare four GPUs"),
    ),
)  # fmt: skip
