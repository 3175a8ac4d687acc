"""Orders to jobs that are all alike: name the jobs, tell the daemon, say which it told."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Option, Verb
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, required
from stoker.text.ids import id_list
from stoker.text.terminal import out, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.cli.options import Args


def order_verb(
    name: str,
    summary: str,
    *,
    op: str,
    done: str,
    all_help: str,
    examples: tuple[tuple[str, str], ...],
    notes: tuple[str, ...] = (),
) -> Verb:
    """A verb that gives one order to the jobs that are named; `done` is how its success is told."""

    def run(args: Args) -> int:
        select = required(args, name)
        with Client() as client:
            ids = client.call(op, select=select)["ids"]
        if args["json"]:
            from stoker.api.jsonline import dumps

            out(dumps({"schema": 1, "ids": ids}) + "\n")
        elif ids:
            say(f"{done} {id_list(ids)}")
        else:
            say("nothing to do")
        return 0

    return Verb(
        name,
        summary,
        run=run,
        positionals=(IDS,),
        options=(NAME, GROUP, Option("all", all_help), JSON),
        examples=examples,
        notes=(*notes, IDS_NOTE),
    )
