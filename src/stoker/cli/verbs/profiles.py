"""`stoker profiles`: what was learned of kinds of jobs; forget it."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Option, Positional, Verb, print_json, tell
from stoker.errors import UsageError
from stoker.text import duration_text
from stoker.text.terminal import Column, out, say, table


def list_profiles(args: Args) -> None:
    """What is known, one kind a line."""
    with Client() as client:
        profiles = client.call("profiles")["profiles"]
    if args["json"]:
        print_json({"profiles": profiles})
    elif profiles:
        out(_table(profiles))
    else:
        say("nothing is known yet: run jobs with `--mem auto`")


def _table(profiles: list[Json]) -> str:
    def percent(one: Json) -> str:
        return "-" if one["use_percent"] is None else f"{one['use_percent']}%"

    columns = (
        Column("RUNS", "count", right=True),
        Column("PEAK", lambda one: f"{one['max_mib'] / 1024:.1f}G", "bold", right=True),
        Column("MEAN", lambda one: f"{one['mean_mib'] / 1024:.1f}G", right=True),
        Column("SPREAD", lambda one: f"{one['deviation_mib'] / 1024:.2f}G", right=True),
        Column("USE", percent, right=True),
        Column("OOM", lambda one: one["out_of_memory"] or None, right=True),
        Column("SETTLES", lambda one: duration_text(one["settle_ms"]), right=True),
        Column("KIND", "kind", least=20),
    )
    return table(columns, profiles)


def forget(args: Args) -> None:
    """Let kinds be learned anew."""
    if bool(args["kind"]) == bool(args["all"]):
        raise UsageError(
            "no kind was named", "name one as `stoker profiles` shows it, or use --all"
        )
    with Client() as client:
        kinds = client.call("profiles_forget", kinds=args["kind"], all=args["all"])["kinds"]
    words = f"forgotten: {len(kinds)}" + (f" ({', '.join(kinds)})" if kinds else "")
    tell(args, {"kinds": kinds}, words)


VERB = Verb(
    "profiles",
    "list or forget the GPU memory measured for each kind of job",
    verbs=(
        Verb(
            "profiles list",
            "list the kinds of jobs that were measured",
            run=list_profiles,
            options=(JSON,),
            examples=(("stoker profiles", "runs, peak, mean and spread per kind"),),
        ),
        Verb(
            "profiles forget",
            "forget kinds, so that they are measured again, e.g. after a program has changed",
            run=forget,
            positionals=(
                Positional("KIND", "a kind as listed, or a pattern", many=True, optional=True),
            ),
            options=(Option("all", "all kinds"), JSON),
            examples=(
                ("stoker profiles forget 'python train.py*'", "a pattern"),
                ("stoker profiles forget --all", "everything"),
            ),
        ),
    ),
    default="list",
    examples=(
        ("stoker profiles", "what is known"),
        ("stoker profiles forget 'python train.py*'", "measure these again"),
    ),
)
