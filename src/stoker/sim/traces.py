"""Jobs of a trace, and how they become arrivals of a play.

What a trace does not tell of a job is None, and nothing is made up for it: a job whose memory is
not known has its GPUs for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.model import Need, Terms
from stoker.sim.devices import Phase
from stoker.sim.play import Arrival

MEMORY_WAYS = ("auto", "declared", "whole")


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job, as a trace tells it."""

    at_ms: int
    runs_ms: int
    gpus: int = 1
    share_milli: int | None = None  # of one GPU
    says_mib: int | None = None  # what its user declared, on each GPU
    peak_mib: int | None = None  # what it really took
    use: tuple[int, ...] | None = None  # percent of each GPU: its cores, then whatever is known
    kind: str = ""
    group: str | None = None
    priority: int = 0
    limit_ms: int | None = None
    name: str = ""
    phases: tuple[Phase, ...] = ()  # where more is known than a peak


def arrival(job: TraceJob, memory: str) -> Arrival:
    """A job as it is submitted where memory is learned, declared, or left alone."""
    phases = job.phases
    if not phases and (job.peak_mib is not None or job.use is not None):
        phases = (Phase(0, job.peak_mib or 0, job.use or (0,)),)
    terms = Terms(time_limit_ms=job.limit_ms, run_kind=job.kind or job.name)
    need = _need(job, memory)
    return Arrival(
        job.at_ms, need, job.runs_ms, phases, terms, job.priority, job.group, job.name or job.kind
    )


def _need(job: TraceJob, memory: str) -> Need:
    if job.share_milli is not None and memory != "whole":
        return Need(1, share_milli=job.share_milli)
    if memory == "auto" and job.peak_mib is not None:
        return Need(job.gpus, kind=job.kind or f"{job.name}", mem_mib=job.says_mib)
    if memory == "declared" and job.says_mib is not None:
        return Need(job.gpus, mem_mib=job.says_mib, kind=job.kind or None)
    return Need(job.gpus)
