"""`stoker why`: why a job waits and, once it can be told, when it will start."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Positional, Verb, print_json
from stoker.cli.selection import GROUP, IDS_NOTE, NAME, job_ids, required
from stoker.errors import NotFound, UsageError
from stoker.text import duration_text, local_moment_text
from stoker.text.jobs import Job, iso_times, now_ms
from stoker.text.searches import search_text
from stoker.text.terminal import escaped, out, say

_FIRST_OF_A_SWEEP = 20
_STANDING = {
    "succeeded": "has succeeded",
    "failed": "has failed",
    "stopped": "was stopped early",
    "cancelled": "was cancelled",
    "skipped": "was skipped",
    "lost": "was lost",
}


@dataclass(frozen=True, slots=True)
class _Sweep:
    """A word that may be the name of a sweep; else it is refused as what is no id."""

    name: str
    refusal: UsageError


def _ids_or_sweep(text: str) -> list[str] | _Sweep:
    try:
        return job_ids(text)
    except UsageError as error:
        return _Sweep(text, error)


def why(args: Args) -> None:
    """Tell the reasons of jobs, and what searches do."""
    sweeps = [one for one in args["id"] if isinstance(one, _Sweep)]
    ids = [one for one in args["id"] if not isinstance(one, _Sweep)]
    with Client() as client:
        answers = [_of_sweep(client, one) for one in sweeps]
        if ids or not sweeps or args["name"] or args["group"] is not None:
            select = required({**args, "id": ids}, "why")
            answers.append(client.call("why", select=select))
    searches = {one["name"]: one for answer in answers for one in answer.get("searches", ())}
    jobs = {job["id"]: job for answer in answers for job in answer["jobs"]}.values()
    if args["json"]:
        told = [one | {"text": search_text(one)} for one in searches.values()]
        told_jobs = {"jobs": [iso_times(job) for job in jobs]}
        print_json(told_jobs | ({"searches": told} if told else {}))
        return
    for search in searches.values():
        out(escaped(f"search {search['name']}: {search_text(search)}") + "\n")
    out("".join(f"{sentence(job, now_ms())}\n" for job in jobs))
    for sweep, answer in zip(sweeps, answers, strict=False):
        if answer["more"]:
            say(f"and {answer['more']} more; `stoker why --group {sweep.name}` has all")
        elif not answer["jobs"] and not answer["searches"]:
            say(f"all jobs of {sweep.name} have ended; see `stoker sweep show {sweep.name}`")


def _of_sweep(client: Client, sweep: _Sweep) -> Json:
    """The first jobs of a sweep that have not ended."""
    select = {"group": sweep.name}
    try:
        return client.call("why", select=select, first_unfinished=_FIRST_OF_A_SWEEP)
    except NotFound:
        raise sweep.refusal from None


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
        first: int = job.get("starts_earliest_at_ms") or starts
        last: int = job.get("starts_latest_at_ms") or starts
        if last - first >= _WORTH_A_RANGE_MS:
            soonest = duration_text(max(0, first - now))
            words += f", probably within {soonest} to {duration_text(last - now)}"
    return escaped(words)


_WORTH_A_RANGE_MS = 60_000
_IDS = Positional(
    "ID", "job ids: 7, a range 3-9, or last (the newest job); or the name of a sweep",
    _ids_or_sweep, many=True, optional=True,
)  # fmt: skip
VERB = Verb(
    "why",
    "explain why a job waits and estimate its start; what a search does",
    run=why,
    positionals=(_IDS,),
    options=(NAME, GROUP, JSON),
    examples=(
        ("stoker why 9", "e.g. job 9 is waiting: needs 2 GPUs, 1 is free"),
        ("stoker why last --json", "the reason as data"),
        ("stoker why lr-search", "a sweep or a search: how far it is, and what its jobs wait for"),
    ),
    notes=(IDS_NOTE,),
)
