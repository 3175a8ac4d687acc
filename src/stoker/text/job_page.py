"""All about a job on a few lines, with its attempts."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.text import duration_text, local_moment_text
from stoker.text.jobs import (
    FINAL_STATES,
    Job,
    gpus_text,
    need_text,
    now_ms,
    outcome,
    state_colour,
    state_shown,
    stood_ms,
    time_text,
    title,
)
from stoker.text.terminal import Column, escaped, painted, table

_NOT_BEGUN = ("waiting", "held", "submitted")


def job_page(job: Job, options: Iterable[tuple[str, str]], colour: bool) -> str:
    """A job on a few lines; `options` are those that are shown as they were written."""
    now = now_ms()
    shown = state_shown(job)
    state = painted(escaped(shown), state_colour(job), colour)
    why = escaped(outcome(job))
    # A reason that begins with the state ("held; ...") does not repeat it.
    same = why.startswith(shown)
    rest = why.removeprefix(shown) if same else f": {why}" if why else ""
    facts = [
        ("state", state + rest),
        ("command", escaped(job["command"])),
        ("parameters", escaped(_parameters(job.get("params") or {}))),
        ("directory", escaped(job["cwd"])),
        ("commit", escaped(_commit(job.get("git") or {}))),
        ("needs", escaped(need_text(job.get("need") or {}))),
        ("GPUs", escaped(gpus_text(job)) if job.get("gpus") else ""),
        ("cluster", escaped(_cluster(job))),
        ("group", escaped(job.get("group") or "")),
        ("user", escaped(job.get("user") or "")),
        ("priority", str(job["priority"]) if job.get("priority") else ""),
        ("after", _ids(job.get("after"))),
        ("after any", _ids(job.get("after_any"))),
        ("adopted", escaped(f"process {job['adopted']}" if job.get("adopted") else "")),
        ("after process", escaped(", ".join(job.get("after_pid") or ()))),
        ("not before", _moment(job.get("not_before_ms"), now)),
        ("time limit", _duration(job.get("time_limit_ms"))),
        ("grace", _duration(job.get("grace_ms"))),
        ("signal", escaped(_signal(job))),
        ("slice", _duration(job.get("slice_ms"))),
        ("requeue", escaped(_requeue(job))),
        ("gives way", _gives_way(job)),
        ("urgent", "yes" if job.get("urgent") else ""),
        ("retries", str(job["retries"]) if job.get("retries") else ""),
        ("notify", "yes" if job.get("notify") else ""),
        ("hook", escaped(job.get("hook") or "")),
        ("MPS", _mps(job)),
        *((name, escaped(value)) for name, value in options),
        ("left out", escaped(_left_out(job))),
        ("submitted", _moment(job.get("submitted_at_ms"), now)),
        ("started", _moment(job.get("started_at_ms"), now)),
        ("ended", _moment(job.get("ended_at_ms"), now)),
        ("waited" if job["state"] in _NOT_BEGUN else "ran", time_text(job, now)),
        ("suspended", _suspended(job, now)),
        ("ran in all", _in_all(job.get("attempts") or [], now)),
        ("time left", _time_left(job, now)),
        ("exit code", "" if job.get("exit_code") is None else str(job["exit_code"])),
        ("log", escaped(job.get("log") or "")),
        ("error log", escaped(job.get("err_log") or "")),
        ("checkpoints", escaped(job.get("checkpoint_dir") or "")),
    ]
    if job["state"] not in FINAL_STATES and job.get("pid"):
        facts.insert(5, ("process", str(job["pid"])))
    lines = [painted(escaped(title(job)), "bold", colour)]
    facts = [(name, value) for name, value in facts if value]
    width = max(10, *(len(name) for name, _ in facts))
    lines += [f"  {painted(name.ljust(width), 'dim', colour)}  {value}" for name, value in facts]
    page = "\n".join(lines) + "\n"
    attempts = job.get("attempts") or []
    # The only attempt of a job that has ended says what the lines above say already.
    if len(attempts) > 1 or (job["ended_at_ms"] is None and _ended(attempts)):
        page += "  attempts\n" + _attempts(attempts, now)
    return page


def _ended(attempts: list[Job]) -> bool:
    return any(one.get("ended_at_ms") is not None for one in attempts)


def _attempts(attempts: list[Job], now: int) -> str:
    columns = (
        Column("NO", "attempt", right=True),
        Column("STATE", state_shown, state_colour),
        Column("GPUS", lambda attempt: ",".join(attempt.get("gpus") or []), least=6),
        Column("STARTED", lambda attempt: _moment(attempt.get("started_at_ms"), now)),
        Column("TIME", lambda attempt: time_text(attempt, now), right=True),
        Column("NOTE", outcome, least=16),
        Column("LOG", "log", least=16),
    )
    return table(columns, attempts, indent="    ")


def _cluster(job: Job) -> str:
    """Where a job of the cluster is, and what its user told the cluster."""
    if job.get("executor", "local") == "local":
        return ""
    there = job.get("cluster") or {}
    parts = [job["executor"]]
    if there.get("id"):
        parts.append(f"job {there['id']}" + (f" on {there['node']}" if there.get("node") else ""))
    if job.get("slurm"):
        parts.append(" ".join(job["slurm"]))
    return ", ".join(parts)


def _commit(git: dict[str, object]) -> str:
    """The commit that was checked out when the job was queued, and whether files differed."""
    if not git:
        return ""
    dirty = git["dirty"]
    changed = "" if dirty is False else " and changes" if dirty else ", unknown whether changed"
    return f"{git['commit']}{changed}"


def _left_out(job: Job) -> str:
    """The variables of another run that it does not inherit."""
    names = job.get("env_left_out") or []
    return f"{', '.join(names)} (pass them on with --env-all)" if names else ""


def _parameters(params: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params.items())


def _time_left(job: Job, now: int) -> str:
    """Until the time limit, of a job that runs."""
    started, limit_ms = job.get("started_at_ms"), job.get("time_limit_ms")
    if job["state"] != "running" or started is None or limit_ms is None:
        return ""
    return duration_text(started + limit_ms + stood_ms(job, now) - now)


def _suspended(job: Job, now: int) -> str:
    """How long it has been suspended, in this attempt."""
    stood = stood_ms(job, now)
    return f"{duration_text(stood)} in all" if stood else ""


def _mps(job: Job) -> str:
    if not job.get("mps"):
        return ""
    threads = job.get("thread_percentage")
    return "yes" if threads is None else f"{threads} % of the GPU's threads"


def _signal(job: Job) -> str:
    """USR1, 2m before the time limit."""
    name, _, seconds = (job.get("signal_spec") or "").partition("@")
    if not seconds:
        return name
    before = duration_text(round(float(seconds[:-1]) * 1000))
    limited = job.get("time_limit_ms") is not None
    return f"{name}, {before} before {'the time limit' if limited else 'it is put back'}"


def _requeue(job: Job) -> str:
    """When a job is put back, and how often it was."""
    codes = ", ".join(map(str, job.get("requeue_on") or ()))
    parts = [f"on exit code {codes}"] if codes else []
    parts += ["after a power cut"] if job.get("requeue") else []
    parts += ["keeps its place"] if parts and job.get("keep_place") else []
    if job.get("resumes"):
        parts.append(f"put back {job['resumes']} times" if job["resumes"] > 1 else "put back once")
    return "; ".join(parts)


def _gives_way(job: Job) -> str:
    """Whether a job offers to give way for urgent ones."""
    if not job.get("preemptible"):
        return ""
    return f"for urgent jobs, at most {job['yields']} times in an hour"


def _in_all(attempts: list[Job], now: int) -> str:
    """How long all attempts of a job have run together, if there were several."""
    ran = [one for one in attempts if one.get("started_at_ms") is not None]
    if len(ran) < 2:
        return ""
    times = [
        (now if a.get("ended_at_ms") is None else a["ended_at_ms"])
        - a["started_at_ms"]
        - stood_ms(a, now)
        for a in ran
    ]
    return f"{duration_text(sum(times))} in {len(ran)} attempts"


def _ids(ids: list[int] | None) -> str:
    return ", ".join(str(one) for one in ids or [])


def _moment(at_ms: int | None, now: int) -> str:
    return "" if at_ms is None else local_moment_text(at_ms, now)


def _duration(value_ms: int | None) -> str:
    return "" if value_ms is None else duration_text(value_ms)
