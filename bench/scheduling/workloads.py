"""Jobs as labs have them, from a seed: what they take, when they grow, what their users say.

Nothing here looks at how Stoker decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from stoker.sim.devices import Phase
from stoker.sim.traces import TraceJob

GIB = 1024
GPUS = 4
MEMORY_MIB = 24 * GIB
CONTEXT_MIB = 400  # what a program has before it begins its work
SECOND_MS = 1_000
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Kind:
    """Trainings that differ in their parameters alone."""

    name: str
    peak_mib: int
    runs_ms: int
    use: int
    loads_ms: tuple[int, int]  # how long it loads before it uses the GPU: from, to
    late_at: float | None = None  # the part of its run after which it grows to its peak
    spikes: int = 0
    says: float | None = None  # the part of its peak that its user declares


def kinds(random: Random, count: int, loads_s: tuple[int, int]) -> list[Kind]:
    """Kinds of all sorts: a quarter grows late, some have spikes, some users declare too little."""
    loads_ms = (loads_s[0] * SECOND_MS, loads_s[1] * SECOND_MS)
    made = []
    for number in range(count):
        peak = round(
            random.choice((1.5, 2, 3, 4, 5, 6, 8, 10, 13)) * GIB * random.uniform(0.9, 1.1)
        )
        sort = random.random()
        made.append(
            Kind(
                f"kind{number}",
                peak,
                round(random.uniform(8, 40) * MINUTE_MS),
                # Larger models keep a GPU busier.
                random.randrange(4, 12) + peak * 25 // (10 * GIB),
                loads_ms,
                late_at=random.uniform(0.4, 0.8) if sort < 0.25 else None,
                spikes=random.randrange(1, 4) if 0.25 <= sort < 0.40 else 0,
                says=random.uniform(0.4, 0.7) if 0.40 <= sort < 0.55 else None,
            )
        )
    return made


def training(random: Random, kind: Kind, at_ms: int = 0, spread: float = 0.2) -> TraceJob:
    """One run: its time varies with its parameters, its memory a little."""
    runs_ms = max(MINUTE_MS, round(kind.runs_ms * random.lognormvariate(0, spread)))
    peak = round(kind.peak_mib * random.uniform(0.95, 1.05))
    loads_ms = min(runs_ms // 3, random.randrange(kind.loads_ms[0], kind.loads_ms[1] + 1))
    use, firm = (kind.use,), peak
    if kind.late_at is not None:
        firm = peak * 7 // 10
    elif kind.spikes:
        firm = peak * 8 // 10
    phases = [Phase(0, CONTEXT_MIB), Phase(loads_ms, firm // 2, use)]
    phases.append(Phase(loads_ms + random.randrange(5, 40) * SECOND_MS, firm, use))
    if kind.late_at is not None:
        phases.append(Phase(round(runs_ms * kind.late_at), peak, use))
    moments = sorted(random.uniform(0.2, 0.95) for _ in range(kind.spikes))
    for moment in moments:
        begins = max(round(runs_ms * moment), phases[-1].from_ms + SECOND_MS)
        phases.append(Phase(begins, peak, use))
        phases.append(Phase(begins + random.randrange(2, 20) * SECOND_MS, firm, use))
    says = None if kind.says is None else round(kind.peak_mib * kind.says)
    return TraceJob(
        at_ms, runs_ms, says_mib=says, peak_mib=peak, use=use, kind=kind.name,
        name=kind.name, phases=tuple(phases),
    )  # fmt: skip


def mixed(
    seed: int,
    *,
    jobs: int = 160,
    count: int = 16,
    loads_s: tuple[int, int] = (5, 15),
    by_kind: bool = False,
    spread: float = 0.2,
) -> list[TraceJob]:
    """Jobs of many kinds, all there at once: as they come, or kind by kind."""  # fmt: skip
    random = Random(f"{seed} mixed")
    sorts = kinds(random, count, loads_s)
    made = [training(random, sorts[number % count], spread=spread) for number in range(jobs)]
    random.shuffle(made)
    if by_kind:
        order = list({one.kind: None for one in made})
        made.sort(key=lambda one: order.index(one.kind))
    return made


def bound_ms(jobs: Sequence[TraceJob], gpus: int, memory_mib: int) -> float:
    """What they take at least: by peak memory and time, by use and time, and by the longest."""
    by_memory = sum((one.peak_mib or 0) * one.runs_ms for one in jobs) / (gpus * memory_mib)
    by_use = sum((one.use or (0,))[0] * one.runs_ms for one in jobs) / (gpus * 100)
    return max(by_memory, by_use, max(one.runs_ms for one in jobs))


def perfect_ms(jobs: Sequence[TraceJob], gpus: int, memory_mib: int) -> int:
    """The makespan where all is known beforehand, and the largest jobs go first."""
    waiting = sorted(jobs, key=lambda one: -(one.peak_mib or 0) * one.runs_ms)
    running: list[tuple[int, int, TraceJob]] = []  # until when, on which GPU
    now_ms = 0
    while waiting or running:
        for one in list(waiting):
            rooms = []
            for gpu in range(gpus):
                there = [job for _, on, job in running if on == gpu]
                memory = sum(job.peak_mib or 0 for job in there) + (one.peak_mib or 0)
                use = sum((job.use or (0,))[0] for job in (*there, one))
                if memory <= memory_mib and use <= 100:
                    rooms.append((use, gpu))
            if rooms:
                waiting.remove(one)
                running.append((now_ms + one.runs_ms, min(rooms)[1], one))
        now_ms = min(end for end, _, _ in running)
        running = [place for place in running if place[0] > now_ms]
    return now_ms
