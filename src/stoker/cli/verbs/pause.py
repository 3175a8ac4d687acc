"""`stoker pause`: start nothing new, in the whole queue or in a group."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import JSON, Option, Verb
from stoker.text.terminal import out, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.cli.options import Args


def pause(args: Args) -> int:
    """Tell the daemon, and say what was done."""
    group = args["group"]
    with Client() as client:
        client.call("pause", **({} if group is None else {"group": group}))
    if args["json"]:
        from stoker.api.jsonline import dumps

        out(dumps({"schema": 1, "group": group, "paused": True}) + "\n")
    else:
        say("paused: " + ("the whole queue" if group is None else f"group {group}"))
    return 0


VERB = Verb(
    "pause",
    "start no new jobs, in the whole queue or in one group",
    run=pause,
    options=(Option("group", "only this group", "GROUP", quantities.label), JSON),
    examples=(
        ("stoker pause", "no new jobs start; running jobs continue"),
        ("stoker pause --group sweep", "pause only one group"),
    ),
)
