"""How well GPUs are filled: two hundred trainings of eight kinds on four stand-in GPUs of 24 GiB.

The same jobs are run three ways: one job a GPU; with memory that is learned beforehand, each kind
briefly and one after the other; and as Stoker does it, learning while it works. In a fourth run the
daemon is killed in the middle. Times are those of the trainings, whose clock goes faster than ours.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fakegpu.build import build
from fakegpu.driver import FakeDriver
from fakegpu.workload import KINDS, Training, lower_bound_s, trainings
from stoker_home import StokerHome

GPUS = 4
MEMORY_MIB = 24 * 1024
RESERVED_MIB = 512
BRIEFLY_S = 60  # of a training, to learn its peak beforehand
# Where memory is learned, the clock of the trainings goes so much slower: to look at the GPUs and
# to come back after a kill takes the daemon a moment, which else would count a hundredfold.
SLOWER = 3

# What must hold of Stoker's own way.
MOST_OVER_BOUND = 1.15
MOST_OVER_ONE_A_GPU = 0.5
MOST_OUT_OF_MEMORY = 0.02  # of the attempts


@dataclass
class Outcome:
    """What came of a run."""

    makespan_s: float
    failed: int
    attempts: int
    out_of_memory: int
    began_ms: int
    series: dict[str, dict[str, list[Any]]]


class Machine(StokerHome):
    """Stand-in GPUs and a daemon that reads them."""

    def __init__(self, root: Path, speed: float) -> None:
        super().__init__(root)
        self.speed = speed
        built = build(Path(tempfile.gettempdir()) / "stoker-bench-fakegpu")
        driver = FakeDriver.create(root / "gpus", GPUS, MEMORY_MIB)
        self.env |= driver.environment(built, speed)
        self.stoker("daemon", "start")
        # As a second and ten seconds of the trainings' time, as far as the machine can follow.
        for name, value in (("poll", "50ms"), ("settle", f"{max(150, round(8000 / speed))}ms")):
            self.call("config_set", name=name, value=value)

    def finish(self, ids: list[int]) -> None:
        """Wait until all have ended."""
        with self.client() as client:
            client.send("wait", select={"ids": [f"{min(ids)}-{max(ids)}"]})
            client.receive(3600)

    def outcome(self, ids: list[int], began: float) -> Outcome:
        makespan_s = (time.time() - began) * self.speed
        jobs = self.call("show", select={"ids": [f"{min(ids)}-{max(ids)}"]})["jobs"]
        attempts = [attempt for job in jobs for attempt in job["attempts"]]
        return Outcome(
            makespan_s,
            sum(job["state"] != "succeeded" for job in jobs),
            len(attempts),
            sum(attempt["reason"] == "out of memory" for attempt in attempts),
            round(began * 1000),
            self.call("gpu_history", since_ms=round(began * 1000))["histories"],
        )


def one_a_gpu(machine: Machine, jobs: list[Training]) -> Outcome:
    """Each has a GPU for itself."""
    began = time.time()
    ids = machine.submit_all([job.request("whole") for job in jobs])
    machine.finish(ids)
    return machine.outcome(ids, began)


def learning(machine: Machine, jobs: list[Training]) -> Outcome:
    """As Stoker does it."""
    began = time.time()
    ids = machine.submit_all([job.request("auto") for job in jobs])
    machine.finish(ids)
    return machine.outcome(ids, began)


def killed_in_the_middle(machine: Machine, jobs: list[Training]) -> Outcome:
    """The same, with a daemon that dies when half of it is done."""
    began = time.time()
    ids = machine.submit_all([job.request("auto") for job in jobs])
    while machine.call("status")["counts"]["succeeded"] < len(jobs) // 2:
        time.sleep(0.05)
    machine.kill_daemon()
    machine.stoker("daemon", "start")
    machine.finish(ids)
    return machine.outcome(ids, began)


def profiled_first(machine: Machine, jobs: list[Training]) -> Outcome:
    """Each kind is run briefly, one after the other; then all are packed by what was seen."""
    began = time.time()
    for kind in KINDS:
        brief = next(job for job in jobs if job.kind is kind).command
        brief[brief.index("--seconds") + 1] = str(BRIEFLY_S)
        machine.finish([machine.submit(*brief, kind=kind.name, mem="auto")])
    ids = machine.submit_all(
        [{**job.request("auto"), "mem": "auto", "mem_mib": None} for job in jobs]
    )
    machine.finish(ids)
    return machine.outcome(ids, began)


RUNS: dict[str, Callable[[Machine, list[Training]], Outcome]] = {
    "one job a GPU": one_a_gpu,
    "profiled first": profiled_first,
    "learning": learning,
    "learning, killed": killed_in_the_middle,
}


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200, help="how many (%(default)s)")
    parser.add_argument("--speed", type=float, default=100, help="of the trainings (%(default)s)")
    parser.add_argument("--only", choices=RUNS, action="append", help="only this way")
    parser.add_argument("--results", type=Path, help="where to keep the numbers and the curves")
    args = parser.parse_args()
    jobs = trainings(args.jobs)
    bound_s = lower_bound_s(jobs, GPUS, MEMORY_MIB - RESERVED_MIB)
    print(f"{len(jobs)} trainings of {len(KINDS)} kinds, {GPUS} GPUs; at least {bound_s:.0f} s\n")
    print(f"{'':<18}{'makespan':>10}{'x bound':>9}{'failed':>8}{'attempts':>10}{'no memory':>11}")
    rows: dict[str, Any] = {}
    for name in args.only or RUNS:
        with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
            speed = args.speed / (1 if RUNS[name] is one_a_gpu else SLOWER)
            machine = Machine(Path(scratch), speed)
            try:
                out = RUNS[name](machine, jobs)
            finally:
                machine.clean_up()
        rows[name] = {
            "makespan_s": round(out.makespan_s, 1),
            "x_bound": round(out.makespan_s / bound_s, 3),
            "failed": out.failed,
            "attempts": out.attempts,
            "out_of_memory": out.out_of_memory,
            "gpus": _curves(out, speed),
        }
        print(
            f"{name:<18}{out.makespan_s:>8.0f} s{out.makespan_s / bound_s:>9.2f}{out.failed:>8}"
            f"{out.attempts:>10}{out.out_of_memory:>11}",
            flush=True,
        )
    missed = _missed(rows)
    print("\n" + ("; ".join(missed) if missed else "all that must hold does"))
    if args.results is not None:
        record = {"jobs": len(jobs), "bound_s": round(bound_s, 1), "runs": rows}
        args.results.write_text(json.dumps(record) + "\n", encoding="utf-8")
    return bool(missed)


Curve = list[tuple[float, float]]
_POINTS = 160  # of a curve


def _curves(out: Outcome, speed: float) -> dict[str, Curve]:
    """What our jobs used of each GPU, in GiB, at the same moments for all of them.

    A daemon that is killed may lose the last minute of what it saw: the curve begins after that.
    """
    moments = [round(out.makespan_s * number / _POINTS, 1) for number in range(_POINTS + 1)]
    seen = {
        gpu: [(round((at - out.began_ms) / 1000 * speed, 1), round((mib or 0) / 1024, 2))
              for at, mib in zip(columns["at_ms"], columns["ours_mib"], strict=True)]
        for gpu, columns in sorted(out.series.items())
    }  # fmt: skip
    first = max(samples[0][0] for samples in seen.values())
    return {
        gpu: [(moment, _last_before(moment, samples)) for moment in moments if moment >= first]
        for gpu, samples in seen.items()
    }


def _last_before(moment: float, samples: Curve) -> float:
    at = bisect_right(samples, (moment, math.inf)) - 1
    return samples[max(0, at)][1]


def _missed(rows: dict[str, Any]) -> list[str]:
    """What does not hold of the runs that were made."""
    alone = rows.get("one job a GPU")
    missed = []
    for name in ("learning", "learning, killed"):
        row = rows.get(name)
        if row is None:
            continue
        if row["failed"]:
            missed.append(f"{name}: {row['failed']} jobs failed")
        if row["out_of_memory"] > MOST_OUT_OF_MEMORY * row["attempts"]:
            missed.append(f"{name}: over {MOST_OUT_OF_MEMORY:.0%} of attempts out of memory")
        if row["x_bound"] > MOST_OVER_BOUND:
            missed.append(f"{name}: over {MOST_OVER_BOUND} x the bound")
        if alone and row["makespan_s"] > MOST_OVER_ONE_A_GPU * alone["makespan_s"]:
            missed.append(f"{name}: over {MOST_OVER_ONE_A_GPU} x one job a GPU")
    return missed


if __name__ == "__main__":
    sys.exit(main())
