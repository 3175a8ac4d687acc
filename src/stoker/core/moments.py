"""When something becomes due for a job although nothing happens: limits, warnings, grace times."""

from __future__ import annotations

from enum import IntEnum

from stoker.core.model import Job


class Timer(IntEnum):
    """What may be due at a moment."""

    READY = 0
    WARNING = 1
    LIMIT = 2
    GRACE = 3


def deadline_ms(job: Job) -> int | None:
    """When the active attempt reaches its time limit; a cluster sees to that itself."""
    assert job.active is not None
    limit = job.terms.time_limit_ms
    if limit is None or job.terms.executor:
        return None
    started = job.active.started_at_ms
    if started is None and job.terms.attached:
        return None  # Its terminal is to start it, and has a time of its own for that.
    return (job.active.placed_at_ms if started is None else started) + limit


def latest_end_ms(job: Job) -> int | None:
    """When the active attempt is over at the latest: its limit, and its grace time."""
    attempt = job.active
    assert attempt is not None
    if attempt.stop is not None:
        return kill_ms(job)
    deadline = deadline_ms(job)
    return None if deadline is None else deadline + job.terms.grace_ms


def warning_ms(job: Job) -> int | None:
    """When the active attempt is to get its signal before the limit."""
    deadline = deadline_ms(job)
    if deadline is None or job.terms.signal is None:
        return None
    return deadline - job.terms.signal_before_ms


def kill_ms(job: Job) -> int:
    """When a stopping attempt's grace time is over."""
    assert job.active is not None and job.active.stop is not None
    return job.active.stop.at_ms + job.terms.grace_ms


def ready_ms(job: Job) -> int:
    """When a waiting job may be looked at."""
    if job.not_before_ms is None and job.backoff_until_ms is None:
        return 0
    if job.terms.executor:  # A cluster is told the time, and waits for it itself.
        return job.backoff_until_ms or 0
    return max(job.not_before_ms or 0, job.backoff_until_ms or 0)


def attempt_timers(job: Job) -> list[tuple[int, Timer]]:
    """The moments that lie ahead of the active attempt."""
    attempt = job.active
    assert attempt is not None
    if attempt.stop is not None:
        return [(kill_ms(job), Timer.GRACE)]
    if job.terms.time_limit_ms is None:
        return []
    moments = ((deadline_ms(job), Timer.LIMIT), (warning_ms(job), Timer.WARNING))
    return [(moment, kind) for moment, kind in moments if moment is not None]
