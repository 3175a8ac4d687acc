"""What the keys tell the daemon to do with jobs, and how that is told and asked back."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from stoker.api.client import Client
from stoker.api.job_written import shown_options
from stoker.command_lines import edit
from stoker.quantities import gpu_ids
from stoker.text import local_moment_text
from stoker.text.ids import id_list
from stoker.text.job_page import job_page
from stoker.text.jobs import FINAL_STATES, is_suspended, now_ms, time_text, title
from stoker.text.terminal import clipped, escaped
from stoker.top.gpu_rows import label
from stoker.top.paint import Line, piece

Job = dict[str, Any]

QUEUED = frozenset(("waiting", "held"))
_ACTIVE = frozenset(("running", "stopping"))
_MOST_NAMED = 8


@dataclass(frozen=True)
class Action:
    """What a key does to jobs: for which jobs it makes sense, and how it is given."""

    states: frozenset[str]
    only: str  # which jobs it is for, in words
    give: Callable[[Client, list[Job]], str]  # what was done, in words
    # What is asked before: the question, for so many columns, and the word for yes.
    asks: Callable[[Client, list[Job], int], tuple[list[Line], str]] | None = None


def _simple(op: str, done: str) -> Callable[[Client, list[Job]], str]:
    def give(client: Client, jobs: list[Job]) -> str:
        ids = client.call(op, select={"ids": [str(job["id"]) for job in jobs]})["ids"]
        return f"{done} {id_list(ids)}" if ids else "nothing to do"

    return give


def _shifted(by: int, done: str) -> Callable[[Client, list[Job]], str]:
    """Priorities are relative to what each job has: jobs with the same one are told together."""

    def give(client: Client, jobs: list[Job]) -> str:
        alike: dict[int, list[str]] = {}
        for job in jobs:
            alike.setdefault((job.get("priority") or 0) + by, []).append(str(job["id"]))
        for priority, ids in alike.items():
            client.call("edit", select={"ids": ids}, changes={"priority": priority})
        now = f"priority {next(iter(alike))}" if len(alike) == 1 else "one step"
        return f"{done}: {id_list([job['id'] for job in jobs])} ({now})"

    return give


def cancel_question(client: Client, jobs: list[Job], columns: int) -> tuple[list[Line], str]:
    """What is about to be lost, with the jobs that require it, and the word for doing it."""
    running = sum(1 for job in jobs if job["state"] in _ACTIVE)
    if len(jobs) == 1:
        head = f"Stop {title(jobs[0])}?" if running else f"Remove {title(jobs[0])} from the queue?"
    else:
        head = f"Cancel {len(jobs):,} jobs, {running:,} of them running?"
    now = now_ms()
    lines: list[Line] = [[piece(clipped(escaped(head), columns), "bold")]]
    for job in sorted(jobs, key=lambda job: job["state"] not in _ACTIVE)[:_MOST_NAMED]:
        words = f"{job['state']} {time_text(job, now)}  {job.get('command') or ''}"
        if len(jobs) > 1:
            words = f"{title(job)}  {words}"
        lines.append([piece(clipped(escaped(words), columns), "dim")])
    if len(jobs) > _MOST_NAMED:
        lines.append([piece(f"and {len(jobs) - _MOST_NAMED:,} more", "dim")])
    select = {"ids": [str(job["id"]) for job in jobs]}
    skipped = client.call("cancel", select=select, check=True)["skipped"]
    if skipped:
        words = f"{len(skipped):,} job{'' if len(skipped) == 1 else 's'}"
        lines.append([piece(clipped(f"{words} that require this will be skipped:", columns))])
        named = client.call("browse", ids=skipped[:_MOST_NAMED], sort="id")["jobs"]
        lines += [[piece(clipped(escaped(title(job)), columns), "dim")] for job in named]
        if len(skipped) > len(named):
            lines.append([piece(f"and {len(skipped) - len(named):,} more", "dim")])
    return lines, "stop it" if running and len(jobs) == 1 else "cancel"


CANCEL = Action(
    frozenset(("waiting", "held", "submitted", "running")),
    "only unfinished jobs can be cancelled",
    _simple("cancel", "cancelling"),
    cancel_question,
)
RETRY = Action(FINAL_STATES, "only finished jobs can be retried", _simple("retry", "queued again:"))
HOLD = Action(frozenset(("waiting",)), "only waiting jobs can be held", _simple("hold", "held"))
RELEASE = Action(
    frozenset(("held",)), "only held jobs can be released", _simple("release", "released")
)
_RUNNING = frozenset(("running",))
SUSPEND = Action(_RUNNING, "only running jobs can be suspended", _simple("suspend", "suspended:"))
GO_ON = Action(_RUNNING, "only running jobs are suspended", _simple("resume_jobs", "resumed:"))
SOONER = Action(QUEUED, "only waiting jobs can be moved", _shifted(-1, "sooner"))
LATER = Action(QUEUED, "only waiting jobs can be moved", _shifted(1, "later"))


def _hold_or_release(jobs: list[Job]) -> Action:
    """The one that makes sense: what is held, all of it, is released."""
    return RELEASE if all(job["state"] == "held" for job in jobs) else HOLD


def _suspend_or_resume(jobs: list[Job]) -> Action:
    """The one that makes sense: what is suspended, all of it, goes on."""
    return GO_ON if all(is_suspended(job) for job in jobs) else SUSPEND


def pause_or_resume(overview: Mapping[str, Any], group: str | None) -> Callable[[Client], str]:
    """Pause the queue or a group; if it is paused, let its jobs start again."""
    is_paused = (
        overview.get("paused") if group is None else group in (overview.get("paused_groups") or ())
    )
    fields = {} if group is None else {"group": group}
    what = "the whole queue" if group is None else f"group {group}"

    def give(client: Client) -> str:
        client.call("resume" if is_paused else "pause", **fields)
        return f"{'resumed' if is_paused else 'paused'}: {what}"

    return give


def drain_or_resume(gpus: Sequence[dict[str, Any]], typed: str) -> Callable[[Client], str]:
    """Drain the GPUs that are named; if all of them are drained, use them again."""
    idle = [gpu for gpu in gpus if gpu["state"] == "drained"]
    drained = {name for gpu in idle for name in (gpu["id"], label(gpu))}

    def give(client: Client) -> str:
        named = gpu_ids(typed)
        is_resumed = drained.issuperset(named)
        client.call("gpu_resume" if is_resumed else "gpu_drain", gpus=named)
        return f"{'resumed' if is_resumed else 'draining'} GPU {', '.join(named)}"

    return give


def edit_by_hand(jobs: list[Job]) -> None:
    """Let `stoker edit` open the user's editor; the terminal has to be free for it."""
    # Ctrl-C is for the editor, and does not end the view behind it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        if subprocess.run(edit(job["id"] for job in jobs)).returncode:
            with suppress(EOFError):
                input("Enter: back to the live view ")
    finally:
        signal.signal(signal.SIGINT, before)


# Which action a key means may depend on the jobs.
BY_NAME: dict[str, Callable[[list[Job]], Action]] = {
    "cancel": lambda jobs: CANCEL,
    "retry": lambda jobs: RETRY,
    "hold": _hold_or_release,
    "suspend": _suspend_or_resume,
    "sooner": lambda jobs: SOONER,
    "later": lambda jobs: LATER,
}


def details(client: Client, job_id: int) -> list[Line]:
    """All that is known of a job."""
    select = {"ids": [str(job_id)]}
    job = client.call("show", select=select)["jobs"][0]
    lines: list[Line] = []
    if job["state"] in QUEUED or job["state"] == "submitted":
        why = client.call("why", select=select)["jobs"][0]
        words = f"why: {why['text']}"
        if why.get("starts_at_ms"):
            now = now_ms()
            words += f"; estimated start {local_moment_text(why['starts_at_ms'], now)}"
        if why.get("jobs_ahead"):
            ahead = why["jobs_ahead"]
            words += f"; {ahead:,} job{'' if ahead == 1 else 's'} before it"
        lines += [[piece(words, "bold")], []]
    # The page is made of printable text: its only control characters are the ends of its lines.
    page = job_page(job, shown_options(job), colour=False)
    lines += [[piece(text)] for text in page.rstrip("\n").split("\n")]
    return lines
