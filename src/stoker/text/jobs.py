"""Jobs as people and scripts read them: the rows of a table, and JSON with ISO times."""

from __future__ import annotations

import time

from stoker import quantities
from stoker.text.terminal import Cell, Column, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Job = dict[str, Any]

STATES = (
    "held", "waiting", "submitted", "running", "stopping",
    "succeeded", "failed", "cancelled", "skipped", "lost",
)  # fmt: skip
FINAL_STATES = frozenset(STATES[5:])

STATE_COLOURS = {
    "held": "blue",
    "waiting": "yellow",
    "submitted": "cyan",
    "running": "green",
    "stopping": "magenta",
    "succeeded": "",
    "failed": "red",
    "cancelled": "dim",
    "skipped": "dim",
    "lost": "red",
}


def now_ms() -> int:
    """The time of the reader, for ages and for "today"."""
    return time.time_ns() // 1_000_000


def iso_times(view: Job) -> Job:
    """A view from the wire with its moments in ISO 8601 (`*_at`, `not_before`), for JSON."""
    shown: Job = {}
    for key, value in view.items():
        if key.endswith("_at_ms") or key == "not_before_ms":
            shown[key[:-3]] = None if value is None else quantities.iso_utc(value)
        elif key == "attempts" and isinstance(value, list):
            shown[key] = [iso_times(attempt) for attempt in value]
        else:
            shown[key] = value
    return shown


def job_table(jobs: list[Job]) -> str:
    """Jobs in columns; those that say nothing for any job are left out."""
    now = now_ms()
    columns = (
        Column("ID", right=True),
        Column("STATE"),
        Column("NAME", least=8),
        Column("GROUP", least=8),
        Column("GPUS", least=6),
        Column("TIME", right=True),
        Column("COMMAND", least=16),
        Column("NOTE", least=24),
    )
    rows = []
    for job in jobs:
        state = job["state"]
        colour = STATE_COLOURS.get(state, "")
        faint = "dim" if state in ("cancelled", "skipped") else ""
        rows.append(
            (
                Cell(str(job["id"]), faint),
                Cell(state, colour),
                Cell(job.get("name") or "", faint or "bold"),
                Cell(job.get("group") or "", faint),
                Cell(gpus_text(job), faint),
                Cell(time_text(job, now), faint),
                Cell(job.get("command") or "", faint),
                Cell(note(job), colour if state in ("failed", "lost") else "dim"),
            )
        )
    return table(columns, rows)


def gpus_text(job: Job) -> str:
    """The ids of a job's GPUs or, while it has none, how many it wants ("x2")."""
    if job.get("gpus"):
        return ",".join(job["gpus"])
    if job["state"] in FINAL_STATES:
        return ""
    need = job.get("need") or {}
    if need.get("share"):
        return f"x{need['share']:g}"
    return f"x{need['gpus']}" if need.get("gpus") else ""


def time_text(job: Job, now: int) -> str:
    """How long a job has run, or ran; how long it has waited, if it never started."""
    started, ended = job.get("started_at_ms"), job.get("ended_at_ms")
    if job["state"] in ("waiting", "held", "submitted"):
        started, ended = job.get("submitted_at_ms"), None
    if started is None:
        return ""
    return quantities.duration_text((now if ended is None else ended) - started)


def outcome(job: Job) -> str:
    """Why a job is where it is: its reason, else its exit code or signal."""
    if job.get("reason"):
        return str(job["reason"])
    if job["state"] != "failed":
        return ""
    if job.get("signal"):
        return f"signal {job['signal']}"
    return "" if job.get("exit_code") is None else f"exit code {job['exit_code']}"


def note(job: Job) -> str:
    """What else is worth a column: the outcome, and which attempt it is if not the first."""
    words = outcome(job)
    attempt = job.get("attempt") or 0
    if attempt > 1:
        words = f"attempt {attempt}" + (f": {words}" if words else "")
    return words


def title(job: Job) -> str:
    """A job in a sentence: "job 7 (big)"."""
    return f"job {job['id']} ({job['name']})" if job.get("name") else f"job {job['id']}"


def need_text(need: dict[str, Any]) -> str:
    """What a job needs, in words."""
    parts = []
    if need.get("share"):
        parts.append(f"{need['share']:g} of a GPU")
    elif need.get("gpus"):
        parts.append(f"{need['gpus']} GPU" + ("s" if need["gpus"] > 1 else ""))
    else:
        parts.append("no GPU")
    if need.get("mem_mib"):
        each = " on each" if (need.get("gpus") or 1) > 1 else ""
        parts.append(quantities.memory_text(need["mem_mib"]) + each)
    if need.get("mem") == "auto":
        parts.append("memory as measured for its kind")
    if need.get("exclusive"):
        parts.append("exclusive")
    if need.get("on"):
        parts.append("on " + ",".join(need["on"]))
    if need.get("prefer"):
        parts.append("preferably on " + ",".join(need["prefer"]))
    if need.get("cpus"):
        parts.append(f"{need['cpus']} CPU" + ("s" if need["cpus"] > 1 else ""))
    if need.get("max_per_gpu"):
        parts.append(f"at most {need['max_per_gpu']} per GPU")
    return ", ".join(parts)


def exit_code(jobs: list[Job]) -> int:
    """The job's own for one; for several, 1 if any did not succeed."""
    if len(jobs) != 1:
        return int(any(job["state"] != "succeeded" for job in jobs))
    job = jobs[0]
    if job["state"] == "succeeded":
        return 0
    if job.get("signal"):
        return 128 + int(job["signal"])
    return job.get("exit_code") or 1
