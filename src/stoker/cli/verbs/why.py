"""`stoker why`: why a job waits and, once it can be told, when it will start."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Verb, print_json
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, required
from stoker.text import duration_text, local_moment_text
from stoker.text.jobs import Job, iso_times, now_ms
from stoker.text.terminal import escaped, out

_STANDING = {
    "succeeded": "has succeeded",
    "failed": "has failed",
    "stopped": "was stopped early",
    "cancelled": "was cancelled",
    "skipped": "was skipped",
    "lost": "was lost",
}


def why(args: Args) -> None:
    """Tell the reasons of jobs."""
    select = required(args, "why")
    with Client() as client:
        jobs = client.call("why", select=select)["jobs"]
    if args["json"]:
        print_json({"jobs": [iso_times(job) for job in jobs]})
    else:
        out("".join(f"{sentence(job, now_ms())}\n" for job in jobs))


def sentence(job: Job, now: int) -> str:
    """The reason of one job, in words."""
    text = job.get("text") or ""
    words = f"job {job['id']} {_STANDING.get(job['state']) or 'is ' + job['state']}"
    # A text that says it all is not said twice.
    if text.startswith(("it is ", "it has ", "it was ")):
        words = f"job {job['id']}: {text}"
    elif text.startswith(job["state"]):
        words = f"job {job['id']} {'was' if job['state'] == 'stopped' else 'is'} {text}"
    elif text:
        words += f": {text}"
    ahead = job.get("jobs_ahead")
    if ahead and job["state"] == "waiting":
        words += f"; {ahead} " + ("job comes" if ahead == 1 else "jobs come") + " before it"
    starts = job.get("starts_at_ms")
    if starts is not None:
        when = local_moment_text(starts, now)
        words += f"; it should start in about {duration_text(starts - now)} ({when})"
    return escaped(words)


VERB = Verb(
    "why",
    "explain why a job waits and estimate its start",
    run=why,
    positionals=(IDS,),
    options=(NAME, GROUP, JSON),
    examples=(
        ("stoker why 9", "e.g. job 9 is waiting: needs 2 GPUs, 1 is free"),
        ("stoker why last --json", "the reason as data"),
    ),
    notes=(IDS_NOTE,),
)
