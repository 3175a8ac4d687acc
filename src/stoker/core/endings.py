"""What an ended attempt amounts to, and how long a job waits before the next."""

from __future__ import annotations

from stoker.core.model import (
    CANCELLED,
    FAILED,
    SKIPPED,
    SUCCEEDED,
    Cause,
    Exit,
    Job,
    Outcome,
    Stop,
)

BACKOFF_FIRST_MS = 1_000
BACKOFF_MOST_MS = 300_000
_DONE = Outcome(SUCCEEDED, Cause.EXIT, Exit(code=0))


def backoff_ms(failures: int) -> int:
    """How long a job waits before the attempt that follows its nth failure."""
    return min(BACKOFF_FIRST_MS << min(failures - 1, 20), BACKOFF_MOST_MS)


def judged(job: Job, stop: Stop | None, how: Exit | None) -> Outcome:
    """What an ended attempt amounts to. The exit code is never invented: it may be unknown."""
    if stop is not None and stop.cause is Cause.REQUIREMENT:
        unmet = [r.job_id for r in job.requires or () if r.must_succeed]
        return Outcome(SKIPPED, stop.cause, how, str(unmet[0]) if unmet else "")
    if stop is not None:
        failed = stop.cause in (Cause.TIME_LIMIT, Cause.GPU_LOST)
        state = FAILED if failed else CANCELLED
        return Outcome(state, stop.cause, how)
    assert how is not None
    return _DONE if how.ok else Outcome(FAILED, Cause.EXIT, how)
