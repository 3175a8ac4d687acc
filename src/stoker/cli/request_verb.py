"""Verbs that are made alike: they name jobs, and make one request about them."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Option, Verb, tell
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, STATE, required
from stoker.text.ids import id_list
from stoker.text.jobs import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def request_verb(
    name: str,
    summary: str,
    *,
    op: str,
    done: str,
    all_help: str,
    examples: tuple[tuple[str, str], ...],
    notes: tuple[str, ...] = (),
    own: Option | None = None,
) -> Verb:
    """A verb that makes one request about the named jobs; `done` is how its success is told.

    `own`: an option that no other of these verbs has.
    """

    def run(args: Args) -> None:
        request_about_jobs(args, name, op, done)

    return Verb(
        name,
        summary,
        run=run,
        positionals=(IDS,),
        options=(NAME, GROUP, STATE, *([own] if own else []), Option("all", all_help), JSON),
        examples=examples,
        notes=(*notes, IDS_NOTE),
    )


def request_about_jobs(args: Args, name: str, op: str, done: str) -> None:
    """Make the request `op` about the jobs that a line names, and tell what came of it."""
    older_ms = args.get("older")
    select = required(args, name, all_of_them=older_ms is not None)
    with Client() as client:
        said = {} if older_ms is None else {"older_ms": older_ms}
        if args.get("let_go"):
            said["let_go"] = True
        answer = client.call(op, select=select, **said)
    ids = answer["ids"]
    ended = f"no more points of {', '.join(answer.get('searches', ()))}"
    nothing = ended if answer.get("searches") else "nothing to do"
    words = f"{done} {id_list(ids)}" if ids else nothing
    counts, left_out = answer.get("counts"), answer.get("left_out")
    if counts:
        words += f" ({', '.join(f'{count} {state}' for state, count in counts.items())})"
    if left_out:
        words += f"; left out: {', '.join(_counted(left_out))}"
    told = {"ids": ids, "counts": counts, "left_out": left_out}
    tell(args, {key: one for key, one in told.items() if one is not None}, words)


def _counted(left_out: dict[str, list[int]]) -> Iterator[str]:
    """Why jobs were left out; what is so of several jobs is said once."""
    alike: dict[str, list[str]] = {}
    for why, ids in left_out.items():
        if why in STATES:
            yield f"{len(ids)} {why}"
        else:
            alike.setdefault(why.removeprefix(f"job {ids[0]} "), []).append(why)
    for what, whys in alike.items():
        yield whys[0] if len(whys) == 1 else f"each of {len(whys)} jobs {what}"


def paused_or_resumed(group: str | None, *, paused: bool) -> str:
    """What was done to the queue, or to a group."""
    words = "paused: " if paused else "resumed: "
    return words + ("the whole queue" if group is None else f"group {group}")
