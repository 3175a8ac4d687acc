"""`stoker ls`: the jobs, as a table or as JSON."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Option, Verb, print_json
from stoker.cli.selection import FILTER, GROUP, NAME, STATE, filtered, states_said
from stoker.text.jobs import STATES, has_line, iso_times, job_table
from stoker.text.terminal import out, say

SHOWN = 100
_INF = float("inf")


def _limit(text: str) -> int:
    from stoker.quantities import whole_number  # Most lines have no value to be read.

    return whole_number(text, 1, 1_000_000)


def ls(args: Args) -> None:
    """List jobs."""
    request: Json = {"select": filtered(args), "all": args["all"]}
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
        say(_none_words(request["select"]) if narrowed else "no jobs")
        return
    if args["tree"]:
        from stoker.text.tree import job_tree

        out(job_tree(jobs))
    else:
        out(job_table(jobs, places, values))
    left_out = total - len(jobs)
    if left_out > 0:
        say(f"and {left_out} more; --all or a larger --limit shows them")


def _none_words(select: Json) -> str:
    """That no job matches; a state that was typed alone is likely to mean `state:`."""
    from stoker.text.suggest import synonym

    word = select.get("text", "").lower()
    state = word if word in STATES else synonym(word, list(STATES))
    return f"no such jobs; did you mean `stoker ls state:{state}`?" if state else "no such jobs"


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
    positionals=(FILTER,),
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
        ("stoker ls state:failed,lost since:1d", "jobs that failed or were lost in the last day"),
        ("stoker ls 'group:night name:lr* -state:succeeded'", "a pattern or a `-` needs quotes"),
        ("stoker ls resnet gpu:0-3", "jobs with resnet in name, group or command, on these GPUs"),
        ("stoker ls --metric loss", "with the latest loss of each job"),
        ("stoker ls --tree --group night", "what waits for what in a group"),
        ("stoker ls --name 'run-*' --json | jq '.jobs[].exit_code'", "for scripts"),
    ),
    notes=(
        "Words are a filter, as in `stoker top` and on the page; a job must match all of them. A "
        "plain word is text in its name, group or command. state:failed, group:night, name:lr*, "
        "user:ada and gpu:0-3 narrow the list. Several values (state:failed,lost) are "
        "alternatives. since:2h means queued, started or ended in the last two hours. A `-` in "
        "front means not; if it comes first, write `stoker ls -- -state:succeeded`. In quotes "
        "('\"lr:0.1\"'), words are only text.",
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
