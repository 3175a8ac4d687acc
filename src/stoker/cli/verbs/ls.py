"""`stoker ls`: the jobs, as a table or as JSON."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Option, Verb, print_json
from stoker.cli.selection import GROUP, IDS, NAME, STATE, selected, states_said
from stoker.text.jobs import has_line, iso_times, job_table
from stoker.text.terminal import out, say

SHOWN = 100
_INF = float("inf")


def _limit(text: str) -> int:
    from stoker.quantities import whole_number  # Most lines have no value to be read.

    return whole_number(text, 1, 1_000_000)


def ls(args: Args) -> None:
    """List jobs."""
    request: Json = {"select": selected(args), "all": args["all"]}
    if args["state"]:
        request["states"] = states_said(args)
    if args["user"] is not None:
        request["user"] = args["user"]
    narrowed = request["select"] or args["state"] or args["user"] is not None or args["all"]
    if args["limit"] is not None:
        request["limit"] = args["limit"]
    elif not narrowed and not args["json"]:
        # A hundred thousand lines take seconds to print, and are more than anyone reads.
        request["limit"] = SHOWN
    with Client() as client:
        answer = client.call("list", **request)
        jobs = answer["jobs"]
        total = answer.get("total", len(jobs))
        places = None
        if not (args["json"] or args["tree"]) and has_line(jobs):
            from stoker.cli.in_line import places as places_of

            places = places_of(client, jobs)
        values = {}
        if args["metric"]:
            from stoker.cli.job_metrics import last_values

            values = last_values(client, (job["id"] for job in jobs), args["metric"])
    if args["json"]:
        shown = [iso_times(job) | _metrics(job, values) for job in jobs]
        print_json({"jobs": shown, "total": total})
        return
    if not jobs:
        say("no jobs" if not request["select"] and not args["state"] else "no such jobs")
        return
    if args["tree"]:
        from stoker.text.tree import job_tree

        out(job_tree(jobs))
    else:
        out(job_table(jobs, places, values))
    left_out = total - len(jobs)
    if left_out > 0:
        say(f"and {left_out} more; --all or a larger --limit shows them")


def _metrics(job: Json, values: dict[str, dict[int, float]]) -> Json:
    """The metrics that were asked for, with nan and inf as text."""
    if not values:
        return {}
    last = {name: by_job.get(job["id"]) for name, by_job in values.items()}
    finite = {
        name: one if one is None or abs(one) < _INF else repr(one) for name, one in last.items()
    }
    return {"metrics": finite}


VERB = Verb(
    "ls",
    "list unfinished jobs and the latest finished ones",
    run=ls,
    positionals=(IDS,),
    options=(
        STATE,
        GROUP,
        NAME,
        Option("user", "only this user's jobs", "USER"),
        Option("tree", "draw each job below the jobs that it waits for (--after, --after-any)"),
        Option(
            "metric",
            "also show the last value of this metric; may be repeated",
            "METRIC",
            repeat=True,
        ),
        Option("all", "also show all finished jobs", short="a"),
        Option(
            "limit", f"show at most N jobs (default: {SHOWN}, if no jobs are named)", "N", _limit
        ),
        JSON,
    ),
    examples=(
        ("stoker ls", "running jobs, waiting jobs with the reason, the latest finished jobs"),
        ("stoker ls --state failed,lost --all", "all jobs that failed or were lost"),
        ("stoker ls --metric loss", "with the latest loss of each job"),
        ("stoker ls --tree --group night", "what waits for what in a group"),
        ("stoker ls --name 'run-*' --json | jq '.jobs[].exit_code'", "for scripts"),
    ),
    notes=(
        "--name together with --group means the jobs with that name in that group; --state and "
        "--user narrow the list further.",
        "Running jobs come first, then waiting jobs in the order of the line, held ones, and "
        "those that have ended. GPUS are the ids of the job's GPUs, or x2 for a job that waits "
        "for two. TIME is how long the job has run or, if it has not started, has waited. PLACE "
        "(on a terminal) is its place in the line and, if it is known, when it should start.",
        "--tree draws each job once: a skipped job below the one that failed, any other below the "
        "last of the jobs that it requires. NOTE names the others, also those that the list leaves "
        "out.",
    ),
)
