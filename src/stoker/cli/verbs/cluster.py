"""`stoker cluster`: what of the Slurm cluster works, and what is missing."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Verb, print_json
from stoker.errors import Failed
from stoker.text.terminal import Column, out, say, table

_WORDS = {True: ("ok", "green"), False: ("missing", "red"), None: ("note", "yellow")}


def check(args: Args) -> None:
    """Try the cluster, and say what was found."""
    with Client() as client:
        checks = client.call("cluster_check")["checks"]
    if args["json"]:
        print_json({"checks": checks})
    else:
        columns = (
            Column("CHECK", "name", "bold"),
            Column("RESULT", lambda one: _WORDS[one["ok"]][0], lambda one: _WORDS[one["ok"]][1]),
            Column("WHAT WAS FOUND", "text", least=40),
        )
        out(table(columns, checks))
    missing = [one["name"] for one in checks if one["ok"] is False]
    if missing:
        raise Failed(
            f"something is missing: {', '.join(missing)}",
            "mend what is marked above, then run `stoker cluster check` again",
        )
    say("jobs can run there: stoker add --on-cluster -- ...")


_CHECK = Verb(
    "cluster check",
    "try the Slurm cluster: commands, GPUs, shares, accounting, the shared directory",
    run=check,
    options=(JSON,),
    examples=(("stoker cluster check", "what works, and what is missing"),),
    notes=(
        "This runs a small job on the cluster, which writes a file into the shared directory. "
        "Exit code: 0 if jobs can run there, 1 if something is missing.",
    ),
)

VERB = Verb(
    "cluster",
    "the Slurm cluster: what works there, and what is missing",
    verbs=(_CHECK,),
    default="check",
    examples=(("stoker cluster check", "what works, and what is missing"),),
)
