"""`stoker wait`: return when jobs have ended, with an exit code that tells how."""

from __future__ import annotations

import time

from stoker import quantities
from stoker.api.client import Client, ConnectionLost, NoAnswerYet
from stoker.cli.options import JSON, Args, Json, Option, Verb, print_json
from stoker.cli.reconnect import Reconnection
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, required
from stoker.errors import NotFound, Unavailable
from stoker.text.ids import ranges
from stoker.text.jobs import ENDED_WELL, FINAL_STATES, Job, exit_code, outcome, title
from stoker.text.terminal import out, say

TIMED_OUT = 124


def wait(args: Args) -> int:
    """Wait for jobs to end."""
    select = required(args, "wait")
    deadline = None if args["timeout"] is None else time.monotonic() + args["timeout"] / 1000
    with Client() as client:
        select = _resolved(client, select, args["any"])
        jobs = _final(client, select, args["any"], deadline) if select else []
        if jobs is None and args["json"]:
            jobs_so_far = client.call("show", select=select)["jobs"]
            _print_json(jobs_so_far, timed_out=True)
    if jobs is None:
        which = "none" if args["any"] else "not all"
        say(f"stoker: timed out; {which} of these jobs {'has' if args['any'] else 'have'} ended")
        return TIMED_OUT
    if args["json"]:
        _print_json(jobs, timed_out=False)
    elif args["any"]:
        out("".join(f"{job['id']}\n" for job in jobs))
    elif len(jobs) > 1:
        for job in jobs:
            if job["state"] not in ENDED_WELL:
                words = outcome(job)
                say(f"{title(job)} {job['state']}" + (f": {words}" if words else ""))
    return exit_code(jobs)


def _resolved(client: Client, select: Json, any_of_them: bool) -> Json:
    """The same jobs named by number, so that they stay the same if the question is asked again.

    `last`, a name or `--all` may mean other jobs by the time that a daemon is back. Nothing is
    left of `--all` when every job has ended.
    """
    if set(select) == {"ids"} and "last" not in select["ids"]:
        return select
    if set(select) == {"group"} and not any_of_them:
        from stoker.text.searches import is_searching

        if is_searching(client.call, select["group"]):
            return select  # Its points are still to be chosen.
    if select.get("all"):
        states = ["held", "waiting", "submitted", "running", "stopping"]
        jobs = client.call("list", states=states, all=True)["jobs"]
    else:
        # `list` would narrow ids down by name and group, where a request means all that are named.
        mixed = "ids" in select and len(select) > 1
        jobs = client.call("show" if mixed else "list", select=select)["jobs"]
        if not jobs:
            raise NotFound("there are no such jobs", "see `stoker ls --all`")
    return {"ids": ranges([job["id"] for job in jobs])} if jobs else {}


def _final(
    client: Client, select: Json, any_of_them: bool, deadline: float | None
) -> list[Job] | None:
    """The jobs once all have ended, or those that have; None if the deadline comes first."""
    asked: Json = {"select": select, **({"any": True} if any_of_them else {})}
    reconnection = Reconnection(client)
    while True:
        try:
            client.send("wait", **asked)
            while True:
                left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                try:
                    jobs: list[Job] = client.receive(left_s)["jobs"]
                except NoAnswerYet:
                    client.close()
                    return None
                if all(job["state"] in FINAL_STATES for job in jobs):
                    return jobs
        except (ConnectionLost, Unavailable) as error:
            if not reconnection.wait(error, deadline):
                return None


def _print_json(jobs: list[Job], *, timed_out: bool) -> None:
    from stoker.text.jobs import iso_times

    shown = [iso_times(job) for job in jobs]
    print_json({"timed_out": timed_out, "jobs": shown})


VERB = Verb(
    "wait",
    "wait until jobs have ended; the exit code tells whether they succeeded",
    run=wait,
    positionals=(IDS,),
    options=(
        NAME,
        GROUP,
        Option("all", "all jobs that are unfinished now"),
        Option("any", "until one of them has ended; prints the ids of those that have"),
        Option(
            "timeout", "give up after this time, with exit code 124", "2h", quantities.duration_ms
        ),
        JSON,
    ),
    examples=(
        ("stoker wait 7 && echo done", "the exit code is that of job 7"),
        ("stoker wait --group sweep --timeout 2h", "1 if any failed, 124 if it takes longer"),
        ("stoker wait --any 7 8 9", "until the first of them ends, which is printed"),
    ),
    notes=(
        "Exit code: for one job, its own (128 + n if signal n ended it, 1 if it was cancelled, "
        "skipped or lost); for several jobs, 0 if all succeeded, else 1; 124 after --timeout; 3 "
        "if there is no such job. A point that its search stopped early (`stopped`) counts as 0.",
        "With --group, a search (`stoker sweep --minimize loss`) is waited for to its end, with "
        "all points that it chooses until then.",
        IDS_NOTE,
    ),
)
