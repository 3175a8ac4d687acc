"""`stoker show`: all about a job, with its attempts."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.api.job_written import shown_options
from stoker.cli.options import JSON, Args, Verb, print_json
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, required
from stoker.text.job_page import job_page
from stoker.text.jobs import Job, iso_times
from stoker.text.terminal import out, wants_colour

_MOST_WITH_METRICS = 10


def show(args: Args) -> None:
    """Show jobs."""
    select = required(args, "show")
    with Client() as client:
        jobs = client.call("show", select=select)["jobs"]
        pages = [] if args["json"] else _pages(client, jobs)
    if args["json"]:
        shown = [iso_times(job) for job in jobs]
        one = len(shown) == 1 and _names_one(select)
        print_json({"job": shown[0]} if one else {"jobs": shown})
        return
    out("\n".join(pages))


def _pages(client: Client, jobs: list[Job]) -> list[str]:
    """The jobs in words; a few of them with their metrics, which may have to be read first."""
    pages = [job_page(job, shown_options(job), wants_colour()) for job in jobs]
    if len(jobs) > _MOST_WITH_METRICS:
        return pages
    from stoker.cli.job_metrics import section

    return [page + section(client, job) for page, job in zip(pages, jobs, strict=True)]


def _names_one(select: dict[str, list[str]]) -> bool:
    """Whether what was typed means one job whatever exists, so that the form of JSON is settled."""
    ids = select.get("ids", [])
    return len(select) == 1 and len(ids) == 1 and "-" not in ids[0]


VERB = Verb(
    "show",
    "show everything about a job, with its attempts",
    run=show,
    positionals=(IDS,),
    options=(NAME, GROUP, JSON),
    examples=(
        ("stoker show 7", "state, needs, times, where its log is"),
        ("stoker show last --json | jq .job.log", "for scripts"),
    ),
    notes=(
        IDS_NOTE,
        "JSON has a single `job` if one id was given, else a list `jobs`.",
        "Of up to ten jobs the metrics are shown too, on a terminal each with a small curve. "
        "`stoker metrics` has more of them, also as JSON.",
    ),
)
