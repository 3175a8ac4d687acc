"""`stoker config`: list, read and change the settings."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Positional, Verb, print_json
from stoker.text.terminal import Cell, Column, escaped, out, say, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.cli.options import Args

_NAME = Positional("NAME", "the setting's name, as `stoker config` lists it")


def list_settings(args: Args) -> int:
    """List all settings."""
    with Client() as client:
        settings = client.call("config_get")["settings"]
    if args["json"]:
        print_json({"settings": settings})
        return 0
    columns = (Column("NAME"), Column("VALUE", least=12), Column("MEANING", least=20))
    rows = [
        (
            Cell(setting["name"], "bold"),
            Cell(
                _shown(setting["value"]), "" if setting["value"] == setting["default"] else "green"
            ),
            Cell(setting["help"], "dim"),
        )
        for setting in settings
    ]
    out(table(columns, rows) if rows else "")
    return 0


def get(args: Args) -> int:
    """Print the value of one setting."""
    with Client() as client:
        setting = client.call("config_get", name=args["name"])["settings"][0]
    if args["json"]:
        print_json({"setting": setting})
    else:
        value = setting["value"]
        out("\n" if value is None else escaped(_shown(value)) + "\n")
    return 0


def set_(args: Args) -> int:
    """Change a setting."""
    return _change(args, args["value"])


def unset(args: Args) -> int:
    """Put a setting back to its default."""
    return _change(args, None)


def _change(args: Args, value: str | None) -> int:
    with Client() as client:
        understood = client.call("config_set", name=args["name"], value=value)["value"]
    if args["json"]:
        print_json({"name": args["name"], "value": understood})
    else:
        say(f"{args['name']} is {_shown(understood)}")
    return 0


def _shown(value: Any) -> str:
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
            positionals=(_NAME, Positional("VALUE", "its new value", dashes=True)),
            examples=(("stoker config set gpus 0,1,2,3", "declare four GPUs"),
                      ("stoker config set gpus 0-3:24G", "and how much memory each has")),
        ),
        Verb(
            "config unset", "reset a setting to its default",
            run=unset, positionals=(_NAME,), options=(JSON,),
            examples=(("stoker config unset gpus", "declare none"),),
        ),
    ),
    default="list",
    examples=(
        ("stoker config", "list all settings"),
        ("stoker config set gpus 0,1,2,3", "declare four GPUs"),
    ),
)  # fmt: skip
