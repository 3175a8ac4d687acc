"""Contenders side by side: the same load, in interleaved rounds, as multiples of the first.

A machine is not equally fast all the time, so each round's time is compared with that round's own
yardstick, and rounds are interleaved. Who comes first in a round changes, so that none always
runs after the same other one.

What Stoker leaves on disk is deleted after the last round: a file system that has just deleted
thousands of files is busy with that for a while.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker import __version__

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be run."""

    jobs: int
    slots: int
    scratch: Path


Contenders = dict[str, Callable[[Load], float]]


def timed(
    words: list[str],
    text: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> float:
    """How many seconds a command takes that reads `text`."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as complaints:
        done = subprocess.run(
            words,
            input=text,
            text=True,
            check=False,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL if text is None else None,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
        )
        took = time.perf_counter() - began
        if done.returncode != 0:
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").strip()
            raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {said[-500:]}")
    return took


def stop_daemon() -> None:
    """End the daemon of STOKER_HOME."""
    subprocess.run(
        [str(BIN / "stoker"), "daemon", "stop", "--kill"], check=True, stderr=subprocess.DEVNULL
    )


def measured(contenders: Contenders, load: Load, rounds: int) -> dict[str, list[float]]:
    """The seconds of each contender in each round."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(contenders[name](load))
            print(f"round {number + 1}: {name} {seconds[name][-1]:.3f} s", file=sys.stderr)
    return seconds


def ratios(seconds: Mapping[str, list[float]], name: str, over: str) -> list[float]:
    """One contender's multiples of another, round by round."""
    return [mine / its for mine, its in zip(seconds[name], seconds[over], strict=True)]


def summary(seconds: dict[str, list[float]], jobs: int) -> list[dict[str, Any]]:
    """For each contender the median time, and its multiples of the first one's, round by round."""
    yardstick = next(iter(seconds))
    rows = []
    for name, times in seconds.items():
        multiples = ratios(seconds, name, yardstick)
        median_s = statistics.median(times)
        rows.append(
            {
                "name": name,
                "median_s": round(median_s, 4),
                "jobs_a_second": round(jobs / median_s),
                "ratio_median": round(statistics.median(multiples), 3),
                "ratio_least": round(min(multiples), 3),
                "ratio_most": round(max(multiples), 3),
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
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "stoker": __version__,
        "file_system": kind.stdout.strip(),
        "load_before": round(os.getloadavg()[0], 2),
    }
