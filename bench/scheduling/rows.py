"""The rows: what is played, and which figures come of it, for each seed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scheduling.openb import allocated_percent
from scheduling.workloads import (
    GIB,
    GPUS,
    MEMORY_MIB,
    MINUTE_MS,
    bound_ms,
    mixed,
    perfect_ms,
)
from stoker.core.forecast import StartRange, expected_start
from stoker.core.run_times import likely
from stoker.sim import readers
from stoker.sim.play import Play, Ran, gpus_like
from stoker.sim.traces import TraceJob, arrival

TRACES = Path(
    os.environ.get("STOKER_TRACES") or Path(__file__).resolve().parents[3] / "shared" / "traces"
)

Figures = dict[str, float]


class NotThere(Exception):
    """A trace that a row is played on."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    what: str
    play: Callable[[int, str], Figures]  # for a seed, by a policy
    seeded: bool = True  # False: the same whatever the seed


def trace(name: str) -> Path:
    """A file of the traces."""
    path = TRACES / name
    if not path.exists():
        raise NotThere(f"{path} is not there (STOKER_TRACES says where traces are)")
    return path


# ---------------------------------------------------------------------- packing


def _packed(jobs: Sequence[TraceJob], seed: int, policy: str, memory: str = "auto") -> list[Ran]:
    arrivals = [arrival(one, memory) for one in jobs]
    gpus = gpus_like(GPUS, MEMORY_MIB, measured=True)
    return Play(arrivals, gpus, policy=policy, seed=seed).run()


def _packing(**how: object) -> Callable[[int, str], Figures]:
    def play(seed: int, policy: str) -> Figures:
        jobs = mixed(seed, **how)  # type: ignore[arg-type]
        ran = _packed(jobs, seed, policy)
        bound = bound_ms(jobs, GPUS, MEMORY_MIB)
        attempts = sum(len(one.stays) for one in ran)
        return {
            "x bound": makespan_ms(ran) / bound,
            "OOM %": 100 * sum(one.out_of_memory for one in ran) / attempts,
            "JCT min": mean_took_ms(ran) / MINUTE_MS,
            "unended": sum(one.ended_ms is None for one in ran),
        }

    return play


def _perfect(seed: int, _policy: str) -> Figures:
    jobs = mixed(seed)
    return {"x bound": perfect_ms(jobs, GPUS, MEMORY_MIB) / bound_ms(jobs, GPUS, MEMORY_MIB)}


def _whole(seed: int, policy: str) -> Figures:
    jobs = mixed(seed)
    ran = _packed(jobs, seed, policy, "whole")
    return {"x bound": makespan_ms(ran) / bound_ms(jobs, GPUS, MEMORY_MIB)}


def _four(_: int, policy: str) -> Figures:
    """Four that would fit onto one GPU by what they declare, and four GPUs that idle."""
    job = TraceJob(0, 60 * MINUTE_MS, says_mib=9 * GIB, peak_mib=9 * GIB, use=(95,), kind="big")
    gpus = gpus_like(GPUS, 40 * GIB, measured=True)
    ran = Play([arrival(job, "declared") for _ in range(4)], gpus, policy=policy).run()
    used = {gpu for one in ran for stay in one.stays for gpu in stay.gpus}
    return {"GPUs": len(used), "makespan min": makespan_ms(ran) / MINUTE_MS}


# ---------------------------------------------------------------------- order


def _group(_: int, policy: str) -> Figures:
    """One short job a minute for three hours, beside a thousand of ten minutes."""
    long = [TraceJob(0, 10 * MINUTE_MS, group="long", kind="long") for _ in range(1_000)]
    short = [TraceJob(n * MINUTE_MS, MINUTE_MS, group="short", kind="short") for n in range(1, 181)]
    arrivals = [arrival(one, "whole") for one in (*long, *short)]
    ran = Play(arrivals, gpus_like(8, None, measured=False), policy=policy).run()
    waits = [one.waited_ms or 0 for one in ran if one.arrival.group == "short"]
    return {"wait min": statistics.mean(waits) / MINUTE_MS, "worst min": max(waits) / MINUTE_MS}


def _muri(name: str, memory: str) -> Callable[[int, str], Figures]:
    def play(seed: int, policy: str) -> Figures:
        jobs = readers.read_trace(trace(f"muri/{name}.csv")).jobs
        if memory == "auto":
            # The trace tells no memory. Where jobs share GPUs, it is not what they lack.
            jobs = [replace(one, peak_mib=4 * GIB) for one in jobs]
        arrivals = [arrival(one, memory) for one in jobs]
        gpus = gpus_like(64, MEMORY_MIB, measured=memory == "auto")
        ran = Play(arrivals, gpus, policy=policy, seed=seed).run()
        took = sorted((one.took_ms or 0) / 1e6 for one in ran)
        return {
            "JCT ks": statistics.mean(took),
            "makespan ks": makespan_ms(ran) / 1e6,
            "p99 JCT ks": took[len(took) * 99 // 100],
        }

    return play


def _philly(_: int, policy: str) -> Figures:
    jobs = readers.read_trace(trace("philly/philly_jobs.csv")).jobs
    arrivals = [arrival(one, "whole") for one in jobs]
    ran = Play(arrivals, gpus_like(480, None, measured=False), policy=policy).run()
    waits = sorted((one.waited_ms or 0) / 1000 for one in ran)
    return {
        "queue s": statistics.mean(waits),
        "p99 queue s": waits[len(waits) * 99 // 100],
        "jobs": len(ran),
    }


def _openb(seed: int, _policy: str) -> Figures:
    nodes = trace("openb/openb_node_list_gpu_node.csv")
    pods = trace("openb/openb_pod_list_default.csv")
    return {"allocated %": allocated_percent(nodes, pods, seed)}


# ---------------------------------------------------------------------- the forecast


def _forecast(memory: str) -> Callable[[int, str], Figures]:
    def play(seed: int, policy: str) -> Figures:
        errors: list[float] = []
        jobs = mixed(seed, spread=0.5)
        measured = memory == "auto"
        gpus = gpus_like(GPUS, MEMORY_MIB, measured=measured)
        game = Play([arrival(one, memory) for one in jobs], gpus, policy=policy, seed=seed)
        asked: list[tuple[int, int, StartRange]] = []  # job, when asked (own time), what was told
        untold = 0
        for ended in (20, 40, 60, 80, 100):
            while game.ended < ended and game.step():
                pass
            told, silent = _told(game)
            asked += told
            untold += silent
        ran, ahead_ms = game.run(), game.clock.wall_ahead_ms
        held = 0
        for job_id, at_ms, told_range in asked:
            began_ms = ran[job_id - 1].stays[0].from_ms + ahead_ms
            errors.append(abs(told_range.at_ms - began_ms) / max(began_ms - at_ms, MINUTE_MS))
            held += told_range.from_ms - MINUTE_MS <= began_ms <= told_range.until_ms + MINUTE_MS
        figures = {"untold %": 100 * untold / max(1, untold + len(asked))}
        if errors:
            figures["error %"] = 100 * statistics.median(errors)
            figures["in range %"] = 100 * held / len(errors)
        return figures

    return play


def _told(game: Play) -> tuple[list[tuple[int, int, StartRange]], int]:
    """What `why` would say of waiting jobs near and far, and of how many it would say nothing."""
    state = game.engine.state
    times = state.order.run_times

    def expect(job_id: int) -> Sequence[int]:
        job = state.jobs.get(job_id)
        known = () if job is None else times.of(job.terms.run_kind, job.need.gpus)
        return likely(known, times.usual)

    waiting = [job.id for job in state.jobs.values() if job.attempt == 0]
    told, silent = [], 0
    for job_id in [waiting[place - 1] for place in IN_LINE if place <= len(waiting)]:
        expected = expected_start(state, job_id, expect)
        if expected is None:
            silent += 1
        else:
            told.append((job_id, state.now_ms, expected))
    return told, silent


# ---------------------------------------------------------------------- figures


def makespan_ms(ran: Iterable[Ran]) -> int:
    """From the first arrival to the last end."""
    some = list(ran)
    return max(one.ended_ms or 0 for one in some) - min(one.arrival.at_ms for one in some)


def mean_took_ms(ran: Iterable[Ran]) -> float:
    """The average time from arrival to end."""
    return statistics.mean(one.took_ms or 0 for one in ran)


LOADING_S = (40, 120)
IN_LINE = (1, 2, 4, 8, 16, 32, 64)  # the places of those that are asked about

ROWS: dict[str, Row] = {
    "packing": Row("160 jobs of mixed kinds on 4 x 24 GB", _packing()),
    "by_kind": Row("the same, submitted kind by kind", _packing(by_kind=True)),
    "loading": Row("trainings that load for 40-120 s first", _packing(loads_s=LOADING_S)),
    "loading_by_kind": Row(
        "the same, submitted kind by kind", _packing(loads_s=LOADING_S, by_kind=True)
    ),
    "perfect": Row("mixed kinds, all known beforehand, largest first", _perfect),
    "whole": Row("mixed kinds, one job a GPU", _whole),
    "four": Row("four jobs with --mem 9G and 95 % use on four idle GPUs", _four, seeded=False),
    "muri1": Row("Muri trace1 on 64 GPUs, whole", _muri("trace1", "whole"), seeded=False),
    "muri2": Row("Muri trace2 on 64 GPUs, whole", _muri("trace2", "whole"), seeded=False),
    "muri1_packed": Row("Muri trace1 on 64 GPUs, --mem auto", _muri("trace1", "auto"), False),
    "muri2_packed": Row("Muri trace2 on 64 GPUs, --mem auto", _muri("trace2", "auto"), False),
    "philly": Row("Philly, one pool of 480 GPUs", _philly, seeded=False),
    "group": Row("one short job a minute beside 1,000 of ten minutes", _group, seeded=False),
    "openb": Row("openb at 130 %, our rule for shares", _openb),
    "forecast": Row("`why`: median error over the wait, one job a GPU", _forecast("whole")),
    "forecast_packed": Row("the same, packed", _forecast("auto")),
}
