"""Jobs as people and scripts read them: the rows of a table, and JSON with ISO times."""

from __future__ import annotations

import time

from stoker.text import duration_text, iso_utc
from stoker.text.terminal import Column, escaped, has_terminal, table, terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Job = dict[str, "Any"]

_WIDE = 160  # columns, in which names and commands are shown side by side

STATES = (
    "held", "waiting", "submitted", "running", "stopping",
    "succeeded", "stopped", "failed", "cancelled", "skipped", "lost",
)  # fmt: skip
FINAL_STATES = frozenset(STATES[5:])
ENDED_WELL = ("succeeded", "stopped")  # What its search stops early has done what it was for.

STATE_COLOURS = {
    "held": "blue", "waiting": "yellow", "submitted": "cyan", "running": "green",
    "stopping": "magenta", "requeued": "", "succeeded": "", "stopped": "dim", "failed": "red",
    "cancelled": "dim",
    "skipped": "dim", "lost": "red",
}  # fmt: skip


def now_ms() -> int:
    """The time of the reader, for ages and for "today"."""
    return time.time_ns() // 1_000_000


def in_order(counts: dict[str, int]) -> dict[str, int]:
    """Counts in the order in which states follow each other, without those that are 0."""
    return {state: counts[state] for state in STATES if counts.get(state)}


def counts_text(counts: dict[str, int]) -> str:
    """How many jobs there are in each state."""
    return ", ".join(f"{count} {state}" for state, count in in_order(counts).items())


def counts_colour(view: dict[str, Any]) -> str:
    """The colour for the counts of a group or a sweep."""
    return "red" if view["counts"].get("failed") or view["counts"].get("lost") else ""


def iso_times(view: Job) -> Job:
    """A view from the wire with its moments in ISO 8601 (`*_at`, `not_before`), for JSON."""
    shown: Job = {}
    for key, value in view.items():
        if key.endswith("_at_ms") or key == "not_before_ms":
            shown[key[:-3]] = None if value is None else iso_utc(value)
        elif key == "attempts" and isinstance(value, list):
            shown[key] = [iso_times(attempt) for attempt in value]
        else:
            shown[key] = value
    return shown


def state_shown(view: Job) -> str:
    """The state of a job or an attempt for people: what is suspended runs, and stands still."""
    return "suspended" if is_suspended(view) else str(view["state"])


def is_suspended(view: Job) -> bool:
    """Whether its processes are stopped until they are continued."""
    return view["state"] == "running" and view.get("suspended_at_ms") is not None


def state_colour(view: Job) -> str:
    """The colour of a job's or an attempt's state."""
    return "blue" if is_suspended(view) else STATE_COLOURS.get(view["state"], "")


def rank(job: Job) -> tuple[int, int]:
    """By which waiting jobs stand in line; one that was put back has a place of its own."""
    place = job.get("place")
    return (job.get("priority") or 0, job["id"] << 24 if place is None else place)


def has_line(jobs: list[Job]) -> bool:
    """Whether there are waiting jobs whose place in the line a reader would want to know."""
    return has_terminal() and any(job["state"] == "waiting" for job in jobs)


def _standing(job: Job) -> tuple[int, ...]:
    """What runs, then the line, then what is held, then what has ended, as it came."""
    if job["state"] == "waiting":
        return (1, *rank(job))
    return (3,) if job["state"] in FINAL_STATES else (2,) if job["state"] == "held" else (0,)


def job_table(
    jobs: list[Job],
    places: dict[int, str] | None = None,
    values: dict[str, dict[int, float]] | None = None,
) -> str:
    """Jobs in columns; those that say nothing for any job are left out.

    `places`: what is known of the place of waiting jobs in the line; `values`: the last values of
    metrics, by name and job.
    """
    now = now_ms()
    jobs = sorted(jobs, key=_standing)
    # Where there is no room for both, a name stands for its command: it was given to be read.
    narrow = (terminal_width() or _WIDE) < _WIDE

    def label(job: Job) -> str:
        name = job.get("name") or ""
        # That of a call says it all, and begins with the name if that was not given.
        says_more = job["command"].partition("(")[0].endswith(name) and is_call(job)
        return job["command"] if narrow and (says_more or not name) else name

    def faint(job: Job) -> str:
        return "dim" if job["state"] in ("stopped", "cancelled", "skipped") else ""

    def of_note(job: Job) -> str:
        return "red" if job["state"] in ("failed", "lost") else "dim"

    columns = (
        Column("ID", "id", faint, right=True),
        Column("STATE", state_shown, state_colour),
        Column("JOB" if narrow else "NAME",
               label, lambda job: faint(job) or ("bold" if job.get("name") else ""), least=16,
               middle=True),
        Column("GROUP", "group", faint, least=8, middle=True),
        Column("GPUS", gpus_text, faint, least=6),
        Column("TIME", lambda job: time_text(job, now), faint, right=True),
        *(_value_column(name, of) for name, of in (values or {}).items()),
        Column("PLACE", lambda job: (places or {}).get(job["id"])),
        Column("COMMAND", "" if narrow else "command", faint, least=16, middle=True),
        Column("NOTE", note, of_note, least=24),
    )  # fmt: skip
    return table(columns, jobs)


def _value_column(name: str, values: dict[int, float]) -> Column:
    def text(job: Job) -> str:
        return f"{values[job['id']]:.5g}" if job["id"] in values else ""

    return Column(escaped(name), text, right=True, least=6)


def is_call(job: Job) -> bool:
    """Whether it is a call from Python."""
    return (job.get("argv") or ())[2:3] == ["--call"]


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
    """How long a job has run, or ran; how long it has waited, since it was last queued."""
    started, ended = job.get("started_at_ms"), job.get("ended_at_ms")
    if job["state"] in ("waiting", "held", "submitted"):
        started, ended = job.get("queued_at_ms") or job.get("submitted_at_ms"), None
    if started is None:
        return ""
    stood = 0 if job["state"] in ("waiting", "held", "submitted") else stood_ms(job, now)
    return duration_text((now if ended is None else ended) - started - stood)


def stood_ms(job: Job, now: int) -> int:
    """How long a job (or an attempt) has been suspended."""
    since = job.get("suspended_at_ms")
    return (job.get("suspended_ms") or 0) + (0 if since is None else max(0, now - since))


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
        from stoker.quantities import memory_text  # A table of jobs does not show it.

        each = " on each" if (need.get("gpus") or 1) > 1 else ""
        parts.append(memory_text(need["mem_mib"]) + each)
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
    """The job's own for one that ran to its end; else 0 if all ended well, and 1 if not.

    What a cancelled process ended with tells of the cancelling, and nothing of the job.
    """
    if len(jobs) != 1 or jobs[0]["state"] != "failed":
        return int(any(job["state"] not in ENDED_WELL for job in jobs))
    job = jobs[0]
    if job.get("signal"):
        return 128 + int(job["signal"])
    return job.get("exit_code") or 1
