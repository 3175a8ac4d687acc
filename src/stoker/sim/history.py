"""The jobs of one's own database as a trace, and the GPUs that they had."""

from __future__ import annotations

from pathlib import Path

from stoker.ports import SeenGpu
from stoker.sim.readers import Trace, from_zero
from stoker.sim.traces import TraceJob
from stoker.store.past_jobs import PastJob, past_jobs


def read_history(database: Path, since_ms: int) -> tuple[Trace, list[SeenGpu]]:
    """The jobs that were queued since then and are over, and the GPUs that there are now."""
    jobs, memories = past_jobs(database, since_ms)
    trace = Trace([], "your own jobs")
    for job in jobs:
        why = _left_out(job)
        if why:
            trace.left_out[why] += 1
        else:
            trace.jobs.append(_played(job))
    trace.jobs = from_zero(trace.jobs)
    return trace, [SeenGpu(str(n), memory, n) for n, memory in enumerate(memories)]


def _left_out(job: PastJob) -> str:
    if job.terms.executor:
        return "of a cluster"
    if not job.need.gpus:
        return "without a GPU"
    return "that never ran" if job.ran_ms is None else ""


def _played(job: PastJob) -> TraceJob:
    return TraceJob(
        job.submitted_at_ms,
        max(1, job.ran_ms or 0),
        job.need.gpus,
        job.need.share_milli,
        job.need.mem_mib,
        job.peak_mib,
        None if job.use_percent is None else (job.use_percent,),
        job.need.kind or job.kind,
        job.group,
        job.priority,
        job.terms.time_limit_ms,
        job.name or f"job {job.id}",
    )
