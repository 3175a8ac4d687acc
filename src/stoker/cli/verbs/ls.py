"""`stoker ls`: the jobs, as a table or as JSON."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import JSON, Option, Verb
from stoker.cli.selection import GROUP, IDS, NAME, selected
from stoker.errors import UsageError
from stoker.text.jobs import STATES, iso_times, job_table
from stoker.text.terminal import out, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.cli.options import Args


SHOWN = 100


def _states(text: str) -> list[str]:
    states = [word.strip().lower() for word in text.split(",")]
    for state in states:
        if state not in STATES:
            from stoker.text.suggest import nearest

            guess = nearest(state, list(STATES))
            raise UsageError(
                f"there is no state {quantities.quoted(state)}",
                f"did you mean {guess}?" if guess else f"states are {', '.join(STATES)}",
            )
    return states


def _limit(text: str) -> int:
    return quantities.whole_number(text, 1, 1_000_000)


def ls(args: Args) -> int:
    """List jobs."""
    order: dict[str, Any] = {"select": selected(args), "all": args["all"]}
    if args["state"]:
        order["states"] = [state for states in args["state"] for state in states]
    if args["user"] is not None:
        order["user"] = args["user"]
    narrowed = order["select"] or args["state"] or args["user"] is not None or args["all"]
    if args["limit"] is not None:
        order["limit"] = args["limit"]
    elif not narrowed and not args["json"]:
        # Nobody reads a hundred thousand lines, and to print them takes seconds.
        order["limit"] = SHOWN
    with Client() as client:
        answer = client.call("list", **order)
    jobs = answer["jobs"]
    if args["json"]:
        from stoker.api.jsonline import dumps

        shown = [iso_times(job) for job in jobs]
        out(dumps({"schema": 1, "jobs": shown, "total": answer.get("total", len(jobs))}) + "\n")
        return 0
    if not jobs:
        say("no jobs" if not order["select"] and not args["state"] else "no such jobs")
        return 0
    out(job_table(jobs))
    left_out = answer.get("total", len(jobs)) - len(jobs)
    if left_out > 0:
        say(f"and {left_out} more; --all or a larger --limit shows them")
    return 0


VERB = Verb(
    "ls",
    "list jobs: those that are not finished, and the last that are",
    run=ls,
    positionals=(IDS,),
    options=(
        Option(
            "state", "only jobs in these states", "STATE,...", _states, repeat=True, choices=STATES
        ),
        GROUP,
        NAME,
        Option("user", "only this user's jobs", "USER"),
        Option("all", "finished jobs of any age too", short="a"),
        Option("limit", f"at most so many; {SHOWN} if nothing else is asked for", "N", _limit),
        JSON,
    ),
    examples=(
        ("stoker ls", "what runs, what waits and why, what ended last"),
        ("stoker ls --state failed,lost --all", "all that went wrong"),
        ("stoker ls --name 'run-*' --json | jq '.jobs[].exit_code'", "for scripts"),
    ),
    notes=(
        "--name with --group means the jobs of that name in that group; --state and --user narrow "
        "the list further.",
        "GPUS are the ids of a job's GPUs, or x2 for the two that it waits for. TIME is how long "
        "it has run or, for one that has not started, has waited.",
    ),
)
