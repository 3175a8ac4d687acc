"""`stoker profiles`: what was learned of kinds of jobs; forget it."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import JSON, Option, Positional, Verb, print_json
from stoker.errors import UsageError
from stoker.text.terminal import Cell, Column, out, say, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.cli.options import Args


def list_profiles(args: Args) -> int:
    """What is known, one kind a line."""
    with Client() as client:
        profiles = client.call("profiles")["profiles"]
    if args["json"]:
        print_json({"profiles": profiles})
    elif profiles:
        out(_table(profiles))
    else:
        say("nothing is known yet: run jobs with `--mem auto`")
    return 0


def _table(profiles: list[dict[str, Any]]) -> str:
    columns = (
        Column("RUNS", right=True),
        Column("PEAK", right=True),
        Column("MEAN", right=True),
        Column("SPREAD", right=True),
        Column("USE", right=True),
        Column("OOM", right=True),
        Column("SETTLES", right=True),
        Column("KIND", least=20),
    )
    rows = [
        (
            Cell(str(one["count"])),
            Cell(f"{one['max_mib'] / 1024:.1f}G", "bold"),
            Cell(f"{one['mean_mib'] / 1024:.1f}G"),
            Cell(f"{one['deviation_mib'] / 1024:.2f}G"),
            Cell("-" if one["use_percent"] is None else f"{one['use_percent']}%"),
            Cell(str(one["out_of_memory"]) if one["out_of_memory"] else ""),
            Cell(quantities.duration_text(one["settle_ms"])),
            Cell(one["kind"]),
        )
        for one in profiles
    ]
    return table(columns, rows)


def forget(args: Args) -> int:
    """Let kinds be learned anew."""
    if bool(args["kind"]) == bool(args["all"]):
        raise UsageError(
            "no kind was named", "name one as `stoker profiles` shows it, or use --all"
        )
    with Client() as client:
        kinds = client.call("profiles_forget", kinds=args["kind"], all=args["all"])["kinds"]
    if args["json"]:
        print_json({"kinds": kinds})
    else:
        say(f"forgotten: {len(kinds)}" + (f" ({', '.join(kinds)})" if kinds else ""))
    return 0


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
