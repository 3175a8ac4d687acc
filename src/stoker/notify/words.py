"""What a message says: of a job, of the first failure of a group, of a whole group, of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.text import duration_text
from stoker.text.failing import MOST_CHARS, complaint_of

Fields = dict[str, Any]
_FAILURES = ("failed", "lost")
_ORDER = ("succeeded", "stopped", "failed", "lost", "skipped", "cancelled")
_SAID = {"stopped": "stopped early"}


def message(notice: Fields, host: str, best_point: Callable[[str], str]) -> tuple[str, str]:
    """The title and the text of a notice, as the daemon has handed it over.

    `best_point` says which point of a sweep was best.
    """
    what, subject, body, job = (notice[name] for name in ("what", "subject", "body", "job"))
    if what == "gpu":
        return f"GPU {subject} of {host} is lost", f"{body['reason']}; jobs there have failed."
    if what == "group":
        best = best_point(subject) if body["sweep"] else ""
        return _of_group(subject, body, job, host, best)
    title = f"{_called(subject, job)} {_has(body['state'])}"
    lines = [f"on {host}: {body['reason']}" if body["reason"] else f"on {host}"]
    if what == "failure":
        title += f", the first of {body['group']}"
    lines += _about(job, notice["at_ms"])
    if body["state"] in _FAILURES:
        lines += _complaint(job)
    return title, "\n".join(lines)


def severity(notice: Fields) -> str:
    """What sort of news it is, in the words of Apprise; services show each in its own colour."""
    body = notice["body"]
    if notice["what"] == "gpu":
        return "failure"
    states = set(body["counts"]) if notice["what"] == "group" else {body["state"]}
    if states.intersection(_FAILURES):
        return "failure"
    return "success" if states <= {"succeeded", "stopped"} else "warning"


def _of_group(
    name: str, body: Fields, failed: Fields | None, host: str, best: str
) -> tuple[str, str]:
    counts: dict[str, int] = body["counts"]
    total = sum(counts.values())
    said = [f"{counts[state]} {_SAID.get(state, state)}" for state in _ORDER if counts.get(state)]
    kind = "sweep" if body["sweep"] else "group"
    lines = [f"on {host}: {total} job{'s' if total != 1 else ''}, {', '.join(said)}"]
    if best:
        lines.append(_short(best))
    if failed is not None:
        lines.append(f"first failure: {_called(str(failed['id']), failed)}: {failed['reason']}")
        lines += _complaint(failed)
    return f"{kind} {name} has ended: {', '.join(said)}", "\n".join(lines)


def _called(job_id: str, job: Fields | None) -> str:
    name = job and job.get("name")
    return f"job {job_id} ({name})" if name else f"job {job_id}"


def _has(state: str) -> str:
    said = _SAID.get(state, state)
    return f"has {said}" if state in ("succeeded", "failed") else f"was {said}"


def _about(job: Fields | None, ended_at_ms: int) -> list[str]:
    if job is None:
        return []  # It was removed meanwhile.
    lines = [_short(job["command"])]
    if job.get("started_at_ms") is not None:
        where = f" on GPU {', '.join(job['gpus'])}" if job.get("gpus") else ""
        ran_ms = ended_at_ms - job["started_at_ms"] - (job.get("suspended_ms") or 0)
        lines.append(f"ran {duration_text(ran_ms)}{where}")
    return lines


def _complaint(job: Fields | None) -> list[str]:
    line = complaint_of(job) if job is not None else ""
    return [line] if line else []


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"
