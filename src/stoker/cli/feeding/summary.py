"""What is said when a feed has ended: the counts, what failed, and its last words."""

from __future__ import annotations

import os

from stoker.errors import StokerError
from stoker.submission.lines import shown
from stoker.text import duration_text
from stoker.text.ids import ranges
from stoker.text.jobs import STATE_COLOURS, now_ms, time_text
from stoker.text.terminal import Column, clipped, escaped, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.api.client import Client
    from stoker.cli.feeding.tally import Failure, Tally

_MOST_SHOWN = 20
_LAST_LINES = 5
_MOST_LINE_CHARS = 300
_MOST_LOG_BYTES = 65_536


def jobs_of(client: Client, failures: list[Failure]) -> dict[int, dict[str, Any]]:
    """What the daemon knows of the jobs that failed; nothing if it can't be asked any more."""
    ids = ranges([failure.job_id for failure in failures])
    try:
        jobs = client.call("list", select={"ids": ids}, all=True)["jobs"] if ids else []
    except StokerError:
        return {}
    return {job["id"]: job for job in jobs}


def headline(group: str, tally: Tally, took_s: float) -> str:
    """The counts in one sentence."""
    counts = {
        "succeeded": tally.succeeded, "succeeded before": tally.before, "failed": tally.failed,
        "stopped": tally.stopped, "not run": tally.not_run, "still running": tally.running,
        "still waiting": tally.waiting,
    }  # fmt: skip
    always = ("succeeded", "failed")
    parts = [f"{count} {what}" for what, count in counts.items() if count or what in always]
    return f"{group}: {', '.join(parts)}, in {duration_text(int(took_s * 1000))}"


def failures_text(failures: list[Failure], jobs: dict[int, dict[str, Any]]) -> str:
    """The table of what failed, then the last lines of each log."""
    if not failures:
        return ""
    now = now_ms()

    def job_of(failure: Failure) -> dict[str, Any]:
        return jobs.get(failure.job_id, {"state": failure.state})

    columns = (
        Column("ID", lambda failure: failure.job_id, right=True),
        Column("LINE", lambda failure: failure.number, right=True),
        Column("STATE", lambda failure: failure.state, lambda f: STATE_COLOURS.get(f.state, "")),
        Column("GPUS", lambda failure: ",".join(job_of(failure).get("gpus") or []), least=6),
        Column("TIME", lambda failure: time_text(job_of(failure), now), right=True),
        Column("COMMAND", lambda failure: shown(failure.text), least=16),
        Column("NOTE", lambda failure: failure.reason or job_of(failure).get("reason"), least=16),
    )
    text = table(columns, failures[:_MOST_SHOWN])
    for failure in failures[:_MOST_SHOWN]:
        text += last_words(failure.job_id, jobs.get(failure.job_id))
    return text


def unshown(tally: Tally, group: str) -> str:
    """A hint at the failures that the table has no room for."""
    jobs = tally.failed - tally.refused
    if jobs <= _MOST_SHOWN:
        return ""
    return f"and {jobs - _MOST_SHOWN} more: `stoker ls --all --group {group} --state failed`"


def last_words(job_id: int, job: dict[str, Any] | None, most: int = _LAST_LINES) -> str:
    """The last lines of a job's output and errors."""
    text = ""
    for key, whose in (("log", "output"), ("err_log", "errors")):
        lines = _last_lines(job[key], most) if job is not None and job.get(key) else []
        if lines:
            text += f"\nthe last {whose} of job {job_id}:\n"
            text += "".join(f"  {line}\n" for line in lines)
    return text


def _last_lines(path: str, most: int) -> list[str]:
    """The last lines of a log, as a terminal would have left them, read from its end only."""
    from stoker.text.loglines import Collapser, tamed  # slow to import, and mostly nothing failed

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            begin = max(os.fstat(fd).st_size - _MOST_LOG_BYTES, 0)
            data = os.pread(fd, _MOST_LOG_BYTES, begin)
        finally:
            os.close(fd)
    except OSError:
        return []
    collapser = Collapser()
    data = collapser.feed(data) + collapser.partial
    lines = tamed(data, colours=False).decode(errors="replace").rstrip("\n").split("\n")
    return [clipped(escaped(line), _MOST_LINE_CHARS) for line in lines[-most:] if line]


def summary_json(group: str, tally: Tally, jobs: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "schema": 1,
        "group": group,
        "succeeded": tally.succeeded,
        "succeeded_before": tally.before,
        "failed": tally.failed,
        "refused": tally.refused,
        "stopped": tally.stopped,
        "not_run": tally.not_run,
        "failures": [
            {
                "id": failure.job_id,
                "line": failure.number,
                "command": failure.text,
                "state": failure.state,
                "reason": failure.reason,
                "exit_code": jobs.get(failure.job_id, {}).get("exit_code"),
                "log": jobs.get(failure.job_id, {}).get("log"),
            }
            for failure in tally.failures
        ],
    }
