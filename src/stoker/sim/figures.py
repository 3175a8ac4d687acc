"""What a play came to, in figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.sim.play import Ran

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Waiting is until the first start of a job, whatever became of it."""

    jobs: int
    never_started: int
    wait_mean_ms: int
    wait_p99_ms: int
    wait_longest_ms: int
    took_mean_ms: int  # from submission to end
    makespan_ms: int
    gpu_hours_used: float  # in which at least one job was on the GPU
    gpu_hours_idle: float
    jobs_out_of_memory: int  # at least once
    attempts_out_of_memory: int
    attempts: int


def figures(ran: Sequence[Ran], gpus: int) -> Figures:
    """The figures of a play on so many GPUs."""
    waits = sorted(one.waited_ms for one in ran if one.waited_ms is not None)
    took = [one.took_ms for one in ran if one.took_ms is not None]
    first_ms = min((one.arrival.at_ms for one in ran), default=0)
    last_ms = max((one.ended_ms for one in ran if one.ended_ms is not None), default=first_ms)
    used_ms = sum(until - since for spans in busy(ran).values() for since, until in spans)
    return Figures(
        len(ran),
        len(ran) - len(waits),
        sum(waits) // max(1, len(waits)),
        percentile(waits, 99),
        waits[-1] if waits else 0,
        sum(took) // max(1, len(took)),
        last_ms - first_ms,
        used_ms / _HOUR_MS,
        (gpus * (last_ms - first_ms) - used_ms) / _HOUR_MS,
        sum(one.out_of_memory > 0 for one in ran),
        sum(one.out_of_memory for one in ran),
        sum(len(one.stays) for one in ran),
    )


def percentile(ordered: Sequence[int], percent: int) -> int:
    """The smallest that so many percent of all do not exceed."""
    if not ordered:
        return 0
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def busy(ran: Iterable[Ran]) -> dict[str, list[tuple[int, int]]]:
    """When each GPU had a job, by its name."""
    stays: dict[str, list[tuple[int, int]]] = {}
    for one in ran:
        for stay in one.stays:
            if stay.until_ms is not None:
                for gpu in stay.gpus:
                    stays.setdefault(gpu, []).append((stay.from_ms, stay.until_ms))
    return {gpu: _joined(sorted(spans)) for gpu, spans in stays.items()}


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for since, until in spans:
        if joined and since <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(until, joined[-1][1]))
        else:
            joined.append((since, until))
    return joined
