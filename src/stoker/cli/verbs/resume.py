"""`stoker resume`: undo pause: let jobs start again."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import JSON, Option, Verb
from stoker.text.terminal import out, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.cli.options import Args


def resume(args: Args) -> int:
    """Tell the daemon, and say what was done."""
    group = args["group"]
    with Client() as client:
        client.call("resume", **({} if group is None else {"group": group}))
    if args["json"]:
        from stoker.api.jsonline import dumps

        out(dumps({"schema": 1, "group": group, "paused": False}) + "\n")
    else:
        say("resumed: " + ("the whole queue" if group is None else f"group {group}"))
    return 0


VERB = Verb(
    "resume",
    "undo pause: let jobs start again",
    run=resume,
    options=(Option("group", "only this group", "GROUP", quantities.label), JSON),
    examples=(
        ("stoker resume", "resume the queue"),
        ("stoker resume --group sweep", "resume one group"),
    ),
)
