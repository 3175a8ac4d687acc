"""`stoker gpus`: list, declare, remove, drain and resume GPUs."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Option, Positional, Verb, print_json, tell
from stoker.text.gpus import gpu_table, no_gpus
from stoker.text.terminal import out, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


_WATCH_S = 1.0


def list_gpus(args: Args) -> None:
    """List the GPUs."""
    with Client() as client:
        if args["watch"]:
            _watch(client, args["json"])
        answer = client.call("gpus")
        gpus = answer["gpus"]
    if args["json"]:
        print_json({"gpus": gpus})
    elif gpus:
        out(gpu_table(gpus, []))
    else:
        say(no_gpus(answer.get("why")))


def _watch(client: Client, as_json: bool) -> NoReturn:
    """A new table, or line of JSON, whenever the GPUs were read; until it is interrupted."""
    import sys
    import time

    from stoker.api.jsonline import dumps

    live = sys.stdout.isatty() and not as_json
    drawn = 0
    while True:
        gpus = client.call("gpus")["gpus"]
        text = dumps({"schema": 1, "gpus": gpus}) + "\n" if as_json else gpu_table(gpus, [])
        # Lines are drawn over one by one, so that nothing flickers.
        out((f"\x1b[{drawn}F\x1b[J" if live and drawn else "") + text)
        sys.stdout.flush()
        drawn = text.count("\n")
        time.sleep(_WATCH_S)


def _declared(text: str) -> list[str]:
    pairs = quantities.declared_gpus(text)
    return [quantities.declared_gpus_text([pair]) for pair in pairs]


def _member(
    word: str,
    summary: str,
    *,
    op: str,
    done: str,
    help: str,
    convert: Callable[[str], Any],
    examples: tuple[tuple[str, str], ...],
) -> Verb:
    def run(args: Args) -> None:
        wanted = [one for several in args["gpu"] for one in several]
        with Client() as client:
            client.call(op, gpus=wanted)
            gpus = client.call("gpus")["gpus"] if args["json"] else []
        tell(args, {"gpus": gpus}, f"{done} {', '.join(wanted)}")

    return Verb(
        f"gpus {word}",
        summary,
        run=run,
        positionals=(Positional("GPU", help, convert, many=True),),
        options=(JSON,),
        examples=examples,
    )


_LIST = Verb(
    "gpus list",
    "list the GPUs, their memory, and the jobs on them",
    run=list_gpus,
    options=(Option("watch", "refresh every second until Ctrl-C"), JSON),
    examples=(
        ("stoker gpus", "all GPUs"),
        ("stoker gpus --watch", "live"),
        ("stoker gpus --json", "for scripts"),
    ),
)

VERB = Verb(
    "gpus",
    "list GPUs; add, remove, drain or resume some, without a restart",
    verbs=(
        _LIST,
        _member(
            "add", "add GPUs that were removed, or declare new ones with their memory",
            op="gpu_add", done="added GPU", help="ids, e.g. 4, 4-7 or 4:24G", convert=_declared,
            examples=(("stoker gpus add 4", "use GPU 4 from now on"),
                      ("stoker gpus add 4-7:24G", "four GPUs of 24 GiB each")),
        ),
        _member(
            "remove", "remove GPUs; their running jobs finish first",
            op="gpu_remove", done="removing GPU", help="ids, e.g. 3 or 0,1",
            convert=quantities.gpu_ids,
            examples=(("stoker gpus remove 3", "GPU 3 finishes its jobs and is removed"),),
        ),
        _member(
            "drain", "start no new jobs on some GPUs",
            op="gpu_drain", done="draining GPU", help="ids, e.g. 2 or 0,1",
            convert=quantities.gpu_ids,
            examples=(("stoker gpus drain 2", "GPU 2 finishes its jobs and stays idle"),),
        ),
        _member(
            "resume", "undo drain",
            op="gpu_resume", done="resumed GPU", help="ids, e.g. 2 or 0,1",
            convert=quantities.gpu_ids,
            examples=(("stoker gpus resume 2", "GPU 2 takes jobs again"),),
        ),
    ),
    default="list",
    examples=(
        ("stoker gpus", "list them"),
        ("stoker gpus drain 2", "start no new jobs on GPU 2"),
    ),
)  # fmt: skip
