"""Verbs that are made alike: to name jobs and tell the daemon, or to pause and resume."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Option, Verb, tell
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, required
from stoker.text.ids import id_list


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
    """A verb that makes one request about the named jobs; `done` is how its success is told."""

    def run(args: Args) -> None:
        select = required(args, name)
        with Client() as client:
            ids = client.call(op, select=select)["ids"]
        tell(args, {"ids": ids}, f"{done} {id_list(ids)}" if ids else "nothing to do")

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
        words = "paused: " if paused else "resumed: "
        words += "the whole queue" if group is None else f"group {group}"
        tell(args, {"group": group, "paused": paused}, words)

    group = Option("group", "only this group", "GROUP", quantities.label)
    return Verb(name, summary, run=run, options=(group, JSON), examples=examples)
