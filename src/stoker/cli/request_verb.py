"""Verbs that are made alike: to name jobs and tell the daemon, or to pause and resume."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Option, Verb, print_json
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, required
from stoker.text.ids import id_list
from stoker.text.terminal import say


def request_verb(
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

    def run(args: Args) -> None:
        select = required(args, name)
        with Client() as client:
            ids = client.call(op, select=select)["ids"]
        if args["json"]:
            print_json({"ids": ids})
        elif ids:
            say(f"{done} {id_list(ids)}")
        else:
            say("nothing to do")

    return Verb(
        name,
        summary,
        run=run,
        positionals=(IDS,),
        options=(NAME, GROUP, Option("all", all_help), JSON),
        examples=examples,
        notes=(*notes, IDS_NOTE),
    )


def pausing_verb(
    name: str, summary: str, *, paused: bool, examples: tuple[tuple[str, str], ...]
) -> Verb:
    """`pause` or `resume`, of the whole queue or of a group."""

    def run(args: Args) -> None:
        group = args["group"]
        with Client() as client:
            client.call(name, **({} if group is None else {"group": group}))
        if args["json"]:
            print_json({"group": group, "paused": paused})
        else:
            what = "the whole queue" if group is None else f"group {group}"
            say(f"{'paused' if paused else 'resumed'}: {what}")

    group = Option("group", "only this group", "GROUP", quantities.label)
    return Verb(name, summary, run=run, options=(group, JSON), examples=examples)
