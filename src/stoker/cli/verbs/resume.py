"""`stoker resume`: let suspended jobs go on; or undo pause, so that jobs start again."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Option, Verb, tell
from stoker.cli.request_verb import paused_or_resumed, request_about_jobs
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME
from stoker.text.ids import id_list


def run(args: Args) -> None:
    """Jobs that are named go on; else the queue does, or a group with all that is of it."""
    if args["id"] or args["name"] or args["all"]:
        request_about_jobs(args, "resume", "resume_jobs", "resumed:")
        return
    group = args["group"]
    with Client() as client:
        answer = client.call("resume", **({} if group is None else {"group": group}))
    ids = answer.get("ids") or []
    words = paused_or_resumed(group, paused=False)
    words += f", and its suspended jobs {id_list(ids)}" if ids else ""
    tell(args, {"group": group, "paused": False, **({"ids": ids} if ids else {})}, words)


VERB = Verb(
    "resume",
    "let suspended jobs go on; without ids, undo pause: jobs start again",
    run=run,
    positionals=(IDS,),
    options=(NAME, GROUP, Option("all", "all suspended jobs"), JSON),
    examples=(
        ("stoker resume 7", "the suspended job 7 goes on"),
        ("stoker resume --all", "all suspended jobs go on"),
        ("stoker resume", "resume the queue: jobs start again"),
        ("stoker resume --group sweep", "resume one group, with its suspended jobs"),
    ),
    notes=(
        "Without ids, `stoker resume` undoes `stoker pause`, and suspended jobs stay as they are. "
        "With --group alone it does both for the group: its jobs start again, and those that are "
        "suspended go on.",
        IDS_NOTE,
    ),
)
