"""How much a scheduler adds to the cost of its jobs: many that do nothing, on four slots.

Every contender runs `sh -c true` so many times, four at once. The first is the limit: a C loop of
posix_spawn. The others are shown as multiples of it, each round's against that round's own limit,
because a machine is not equally fast all the time. Rounds are interleaved for the same reason.

The home directories of Stoker's rounds are deleted after the last one: a file system that has just
deleted thousands of files is busy with that for a while.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker import __version__
from stoker.api.client import Client
from stoker.api.paths import Home

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
RESULTS = HERE / "results" / "dispatch.json"


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be run."""

    jobs: int
    slots: int
    scratch: Path


def compiled_limit(scratch: Path) -> Path:
    """The C loop, compiled on the spot."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("bench: no C compiler; `make bench` installs one where it may")
    program = scratch / "limit"
    subprocess.run([compiler, "-O2", "-Wall", "-o", program, HERE / "limit.c"], check=True)
    return program


def timed(words: list[str], text: str | None = None) -> float:
    """How many seconds a command takes that reads `text`."""
    began = time.perf_counter()
    subprocess.run(words, input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def run_limit(load: Load) -> float:
    """A loop in C."""
    return timed([str(load.scratch / "limit"), str(load.jobs), str(load.slots)])


def run_xargs(load: Load) -> float:
    """`xargs -P`, which gives each command one word that it does not look at."""
    text = "".join(f"{number}\n" for number in range(load.jobs))
    return timed(["xargs", f"-P{load.slots}", "-n1", "sh", "-c", "true"], text)


def run_simple_gpu_scheduler(load: Load) -> float:
    """simple_gpu_scheduler, which puts `sh -c` before each line itself."""
    gpus = [str(number) for number in range(load.slots)]
    program = str(BIN / "simple_gpu_scheduler")
    return timed([program, "--gpus", *gpus], "true\n" * load.jobs)


def run_stoker(load: Load) -> float:
    """A real daemon with the jobs already queued, from `resume` to the end of the last job."""
    root = Path(tempfile.mkdtemp(prefix="home-", dir=load.scratch)) / "stoker"
    os.environ["STOKER_HOME"] = str(root)
    home = Home(str(root))
    with Client(home) as client, Client(home) as waiting:
        try:
            gpus = ",".join(str(number) for number in range(load.slots))
            client.call("config_set", name="gpus", value=gpus)
            client.call("pause")
            job = {"argv": ["sh", "-c", "true"], "gpus": 1}
            ids = client.call(
                "submit",
                jobs=[job] * load.jobs,
                cwd="/",
                env=dict(os.environ),
                user="bench",
            )["ids"]
            waiting.connect()
            began = time.perf_counter()
            waiting.send("wait", select={"ids": [f"{ids[0]}-{ids[-1]}"]})
            client.call("resume")
            jobs: list[dict[str, Any]] = waiting.receive(600.0)["jobs"]
            took = time.perf_counter() - began
        finally:
            subprocess.run(
                [str(BIN / "stoker"), "daemon", "stop", "--kill"],
                check=True,
                stderr=subprocess.DEVNULL,
            )
    assert len(jobs) == load.jobs, f"{len(jobs)} jobs were reported"
    assert all(job["state"] == "succeeded" for job in jobs), "not every job succeeded"
    return took


CONTENDERS: dict[str, Callable[[Load], float]] = {
    "posix_spawn in C": run_limit,
    "xargs": run_xargs,
    "simple_gpu_scheduler": run_simple_gpu_scheduler,
    "Stoker": run_stoker,
}
LIMIT = next(iter(CONTENDERS))


def measured(load: Load, rounds: int) -> dict[str, list[float]]:
    """The seconds of each contender in each round."""
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for number in range(1, rounds + 1):
        for name, run in CONTENDERS.items():
            seconds[name].append(run(load))
            print(f"round {number}: {name} {seconds[name][-1]:.2f} s", file=sys.stderr)
    return seconds


def summary(seconds: dict[str, list[float]], jobs: int) -> list[dict[str, Any]]:
    """For each contender the median time, and its multiples of the limit round by round."""
    rows = []
    for name, times in seconds.items():
        ratios = [mine / least for mine, least in zip(times, seconds[LIMIT], strict=True)]
        median_s = statistics.median(times)
        rows.append(
            {
                "name": name,
                "median_s": round(median_s, 4),
                "jobs_a_second": round(jobs / median_s),
                "ratio_median": round(statistics.median(ratios), 3),
                "ratio_least": round(min(ratios), 3),
                "ratio_most": round(max(ratios), 3),
                "seconds": [round(one, 4) for one in times],
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The summary for people."""
    lines = [f"{'':<22}{'median':>9}{'jobs/s':>9}{'x limit':>9}{'least':>8}{'most':>8}"]
    lines += [
        f"{row['name']:<22}{row['median_s']:>7.2f} s{row['jobs_a_second']:>9}"
        f"{row['ratio_median']:>9.2f}{row['ratio_least']:>8.2f}{row['ratio_most']:>8.2f}"
        for row in rows
    ]
    return "\n".join(lines)


def machine(scratch: Path) -> dict[str, Any]:
    """On what it was measured; Stoker waits for the disk at each commit, so that counts too."""
    kind = subprocess.run(
        ["stat", "--file-system", "--format=%T", scratch],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "stoker": __version__,
        "file_system": kind.stdout.strip(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def main() -> int:
    """Measure, print the table, and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=2000, help="how many (%(default)s)")
    parser.add_argument("--slots", type=int, default=4, help="at once (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="how often (%(default)s)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="where to keep the numbers as JSON"
    )
    args = parser.parse_args()
    if not os.access(BIN / "simple_gpu_scheduler", os.X_OK):
        sys.exit("bench: simple_gpu_scheduler is not there; `make bench` installs it")

    scratch = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    try:
        measured_on = machine(scratch)
        compiled_limit(scratch)
        seconds = measured(Load(args.jobs, args.slots, scratch), args.rounds)
    finally:
        shutil.rmtree(scratch)
    rows = summary(seconds, args.jobs)
    print(f"{args.jobs} × `sh -c true`, {args.slots} at once, rounds: {args.rounds}\n")
    print(table(rows))
    record = {
        "schema": 1,
        "jobs": args.jobs,
        "slots": args.slots,
        "rounds": args.rounds,
        "machine": measured_on,
        "contenders": rows,
    }
    args.results.parent.mkdir(parents=True, exist_ok=True)
    args.results.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
