"""`stoker groups`: what groups there are, and how many of each may run at a time."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Positional, Verb, print_json, tell
from stoker.text.jobs import counts_colour, counts_text, in_order
from stoker.text.terminal import Column, out, say, table

_MOST = 1_000_000


def list_groups(args: Args) -> None:
    """List the groups, the newest last."""
    with Client() as client:
        groups = client.call("groups")["groups"]
    for group in groups:
        group["counts"] = in_order(group["counts"])
    if args["json"]:
        print_json({"groups": groups})
    elif groups:
        out(_table(groups))
    else:
        say("no groups")


def _table(groups: list[Json]) -> str:
    columns = (
        Column("GROUP", "group", "bold", least=12),
        Column("LIMIT", "max_running", right=True),
        Column("STATES", lambda group: counts_text(group["counts"]), counts_colour, least=20),
        Column("", lambda group: "paused" if group["paused"] else "", "red"),
    )
    return table(columns, groups)


def _limit_of(text: str) -> int | str:
    """A number, or "none"."""
    return "none" if text == "none" else quantities.whole_number(text, 1, _MOST)


def limit_group(args: Args) -> None:
    """Set or lift the limit of a group's running jobs."""
    group = args["group"]
    most = None if args["n"] == "none" else args["n"]
    with Client() as client:
        client.call("limit_group", group=group, max_running=most, known_only=True)
    words = f"at most {most} of group {group} run at a time"
    if most is None:
        words = f"no limit for group {group} any more"
    tell(args, {"group": group, "max_running": most}, words)


_LIST = Verb(
    "groups list",
    "list the groups, with their jobs by state and their limits",
    run=list_groups,
    options=(JSON,),
    examples=(("stoker groups", "all groups, the newest last"),),
)
_LIMIT = Verb(
    "groups limit",
    "run at most N of a group's jobs at a time",
    run=limit_group,
    positionals=(
        Positional("GROUP", "the group, e.g. the name of a sweep", quantities.label),
        Positional("N", "a number, or none for no limit", _limit_of, choices=("none",)),
    ),
    options=(JSON,),
    examples=(
        ("stoker groups limit lr-search 8", "at most eight of the sweep lr-search"),
        ("stoker groups limit lr-search none", "no limit"),
    ),
    notes=("Running jobs continue, even if there are more than the new limit.",),
)

VERB = Verb(
    "groups",
    "list groups; limit how many jobs of a group run at a time",
    verbs=(_LIST, _LIMIT),
    default="list",
    examples=(
        ("stoker groups", "list them"),
        ("stoker groups limit lr-search none", "lift the limit of a sweep"),
    ),
    notes=(
        "Set a job's group with --group; every sweep and feed has a group of its own. `stoker "
        "pause --group NAME` and `stoker cancel --group NAME` act on all jobs of a group.",
    ),
)
