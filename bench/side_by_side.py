"""Contenders side by side: the same load, in interleaved rounds, as multiples of the first.

A machine is not equally fast all the time, so each round's time is compared with that round's own
yardstick, and rounds are interleaved.

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

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
# The older tools have commands of the same names as ours, so they live in a place of their own.
PEERS = HERE.parent / ".venv-peers" / "bin"


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be run."""

    jobs: int
    slots: int
    scratch: Path


Contenders = dict[str, Callable[[Load], float]]


def timed(words: list[str], text: str | None = None) -> float:
    """How many seconds a command takes that reads `text`."""
    began = time.perf_counter()
    subprocess.run(
        words,
        input=text,
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def run_simple_gpu_scheduler(load: Load) -> float:
    """simple_gpu_scheduler, which puts `sh -c` before each line itself."""
    gpus = [str(number) for number in range(load.slots)]
    return timed([str(PEERS / "simple_gpu_scheduler"), "--gpus", *gpus], "true\n" * load.jobs)


def stop_daemon() -> None:
    """End the daemon of STOKER_HOME."""
    subprocess.run(
        [str(BIN / "stoker"), "daemon", "stop", "--kill"], check=True, stderr=subprocess.DEVNULL
    )


def measured(contenders: Contenders, load: Load, rounds: int) -> dict[str, list[float]]:
    """The seconds of each contender in each round."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(1, rounds + 1):
        for name, run in contenders.items():
            seconds[name].append(run(load))
            print(f"round {number}: {name} {seconds[name][-1]:.2f} s", file=sys.stderr)
    return seconds


def summary(seconds: dict[str, list[float]], jobs: int) -> list[dict[str, Any]]:
    """For each contender the median time, and its multiples of the first one's, round by round."""
    yardstick = next(iter(seconds))
    rows = []
    for name, times in seconds.items():
        ratios = [mine / least for mine, least in zip(times, seconds[yardstick], strict=True)]
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
    lines = [f"{'':<22}{'median':>9}{'jobs/s':>9}{'x first':>9}{'least':>8}{'most':>8}"]
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


def run(what: str, contenders: Contenders, results: Path, prepare: Callable[[Path], object]) -> int:
    """Measure as the command line says, print the table, and keep the numbers."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--jobs", type=int, default=2000, help="how many (%(default)s)")
    parser.add_argument("--slots", type=int, default=4, help="at once (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="how often (%(default)s)")
    parser.add_argument(
        "--results", type=Path, default=results, help="where to keep the numbers as JSON"
    )
    args = parser.parse_args()
    if not os.access(PEERS / "simple_gpu_scheduler", os.X_OK):
        sys.exit("bench: simple_gpu_scheduler is not there; `make bench` installs it")

    scratch = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    try:
        measured_on = machine(scratch)
        prepare(scratch)
        seconds = measured(contenders, Load(args.jobs, args.slots, scratch), args.rounds)
    finally:
        shutil.rmtree(scratch)
    rows = summary(seconds, args.jobs)
    print(f"{what}: {args.jobs} × `sh -c true`, {args.slots} at once, rounds: {args.rounds}\n")
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
