"""`stoker pause`: start nothing new, in the whole queue or in a group."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Option, Verb, tell
from stoker.cli.request_verb import paused_or_resumed
from stoker.quantities import label


def run(args: Args) -> None:
    """Tell the daemon."""
    group = args["group"]
    with Client() as client:
        client.call("pause", **({} if group is None else {"group": group}))
    tell(args, {"group": group, "paused": True}, paused_or_resumed(group, paused=True))


VERB = Verb(
    "pause",
    "start no new jobs, in the whole queue or in one group",
    run=run,
    options=(Option("group", "only this group", "GROUP", label), JSON),
    examples=(
        ("stoker pause", "no new jobs start; running jobs continue"),
        ("stoker pause --group sweep", "pause only one group"),
    ),
    notes=("`stoker suspend` stops jobs that run already.",),
)
