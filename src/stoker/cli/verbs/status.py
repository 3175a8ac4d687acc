"""Bare `stoker`: GPUs and jobs at a glance."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Option, Verb, print_json
from stoker.quantities import number_within
from stoker.text.gpus import gpu_table, no_gpus
from stoker.text.jobs import FINAL_STATES, STATES, has_line, iso_times, job_table
from stoker.text.terminal import escaped, out, painted, say, wants_colour


def status(args: Args) -> None:
    """Show GPUs, counts and jobs."""
    request = {} if args["limit"] is None else {"limit": args["limit"]}
    with Client() as client:
        answer = client.call("status", **request)
        counts = answer["counts"]
        unfinished = sum(counts.get(state, 0) for state in STATES[:5])
        places = None
        if not args["json"] and has_line(answer["jobs"]):
            from stoker.cli.in_line import places as places_of

            places = places_of(client, answer["jobs"])
    if args["json"]:
        shown = {key: value for key, value in answer.items() if key != "ok"}
        shown["jobs"] = [iso_times(job) for job in answer["jobs"]]
        shown["daemon"] = iso_times(answer.get("daemon") or {})
        print_json(shown)
        return
    colour = wants_colour()
    parts = []
    if answer["gpus"]:
        parts.append(gpu_table(answer["gpus"], answer["jobs"]))
    else:
        parts.append(no_gpus(answer.get("gpus_why")) + "\n")
    parts.append(_summary(answer, colour))
    if answer["jobs"]:
        parts.append(job_table(answer["jobs"], places))
    out("\n".join(parts))
    more = unfinished - sum(job["state"] not in FINAL_STATES for job in answer["jobs"])
    if more > 0:
        say(f"and {more} more; `stoker ls` lists them")


def _summary(answer: Json, colour: bool) -> str:
    counts = answer["counts"]
    states = ("running", "submitted", "stopping", "waiting", "held", *STATES[5:])
    words = [f"{counts[state]} {state}" for state in states if counts.get(state)]
    line = ", ".join(words) or "no jobs"
    cpus = answer.get("cpus") or {}
    if cpus.get("used"):
        line += f"; {cpus['used']} of {cpus['total']} CPU slots taken"
    trouble = ["the queue is paused; `stoker resume` resumes it"] if answer.get("paused") else []
    trouble += [
        f"group {group} is paused: `stoker resume --group {group}`"
        for group in answer.get("paused_groups") or []
    ]
    if answer.get("short"):
        trouble.append(f"jobs can't be started: {answer['short']}; Stoker keeps trying")
    if answer.get("disk"):
        trouble.append(answer["disk"])
    lines = [painted(line, "bold", colour)]
    lines += [painted(escaped(words), "red", colour) for words in trouble]
    return "\n".join(lines) + "\n"


VERB = Verb(
    "status",
    "GPUs and jobs at a glance; the same as `stoker` alone",
    run=status,
    options=(Option("limit", "show at most N jobs", "N", number_within(1, 100_000)), JSON),
    examples=(
        ("stoker", "GPUs, running and waiting jobs, the latest finished ones"),
        ("stoker status --json", "the same for scripts"),
    ),
)
