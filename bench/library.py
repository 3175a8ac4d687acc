"""What a call through the Python library costs: many that do nothing, four at once.

The yardstick is the same number of `python -c pass`, since each call has a process of its own. The
process pool of the standard library, whose processes serve many calls, is shown for comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import stoker
from side_by_side import (
    HERE,
    Contenders,
    Load,
    machine,
    measured,
    stop_daemon,
    summary,
    table,
    timed,
)


def nothing(number: int) -> int:
    return number


def run_python(load: Load) -> float:
    """Bare interpreters."""
    text = "".join(f"{number}\n" for number in range(load.jobs))
    words = ["xargs", f"-P{load.slots}", "-n1", sys.executable, "-c", "pass"]
    return timed(words, text)


def run_pool(load: Load) -> float:
    """Calls that share as many processes as there are slots."""
    began = time.perf_counter()
    with ProcessPoolExecutor(load.slots) as pool:
        assert list(pool.map(nothing, range(load.jobs))) == list(range(load.jobs))
    return time.perf_counter() - began


def run_by_name(load: Load) -> float:
    """`Executor.map` of what the workers can import, as functions of a package are."""
    return _run_executor(load, abs)


def run_by_code(load: Load) -> float:
    """`Executor.map` of a function of the script itself, which goes to the workers as code."""
    return _run_executor(load, nothing)


def _run_executor(load: Load, call: Callable[[int], int]) -> float:
    """The daemon is there already, as it is on every day but the first."""
    root = Path(tempfile.mkdtemp(prefix="home-", dir=load.scratch)) / "stoker"
    os.environ["STOKER_HOME"] = str(root)
    try:
        with stoker.Client() as client:
            client.set_config("gpus", f"0-{load.slots - 1}")
        began = time.perf_counter()
        with stoker.Executor() as executor:
            assert list(executor.map(call, range(load.jobs))) == list(range(load.jobs))
        return time.perf_counter() - began
    finally:
        stop_daemon()


CONTENDERS: Contenders = {
    "python -c pass": run_python,
    "stoker, by name": run_by_name,
    "stoker, by code": run_by_code,
    "process pool": run_pool,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="calls through the Python library")
    parser.add_argument("--jobs", type=int, default=200, help="how many (%(default)s)")
    parser.add_argument("--slots", type=int, default=4, help="at once (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often (%(default)s)")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "library.json")
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    try:
        measured_on = machine(scratch)
        seconds = measured(CONTENDERS, Load(args.jobs, args.slots, scratch), args.rounds)
    finally:
        shutil.rmtree(scratch)
    rows = summary(seconds, args.jobs)
    print(f"{args.jobs} calls, {args.slots} at once, rounds: {args.rounds}\n")
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
