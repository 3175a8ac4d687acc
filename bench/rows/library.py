"""What a call through the Python library costs: many that do nothing, four at once.

The yardstick is the same number of `python -c pass`, since each call has a process of its own. That
of a warm call is a copy of one that has its interpreter loaded. The process pool of the standard
library, whose processes serve many calls, is shown for comparison.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from types import FunctionType

import stoker
from harness import peers
from harness.instance import Instance, gpu_list
from harness.measures import Goal, Report, measure
from harness.setting import Setting
from side_by_side import Contenders, Load, measured, ratios, timed

BARE = "python -c pass"
WARM = "Executor.map, warm"


def library(setting: Setting) -> list[Report]:
    """Calls by name and calls as code, beside bare interpreters."""
    jobs = setting.so_many(1_000, 40)
    contenders: Contenders = {
        BARE: run_python,
        "Executor.map, by name": run_by_name,
        "Executor.map, by code": run_by_code,
        WARM: run_warm,
        "process pool": run_pool,
    }
    seconds = measured(contenders, setting.load(jobs), setting.times(3))
    shown = []
    for name in contenders:
        a_call = [1000 * one / jobs for one in seconds[name]]
        aim = Goal(5.0) if name == WARM else None
        shown.append(measure(f"{name}, a call", a_call, "ms", ours=False, aim=aim))
    for name in list(contenders)[1:4]:
        over = ratios(seconds, name, BARE)
        must = Goal(1.0 if name == WARM else 1.5)
        shown.append(measure(f"{name}, over {BARE}", over, "x", must=must))
    return [Report("library", f"{jobs:,} calls that do nothing", shown)]


def nothing(number: int) -> int:
    return number


def run_python(load: Load) -> float:
    """Bare interpreters."""
    words = ["xargs", f"-P{load.slots}", "-n1", sys.executable, "-c", "pass"]
    return timed(words, peers.numbers(load))


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
    return _run_executor(load, _of_the_script())


def run_warm(load: Load) -> float:
    """The same, each in a copy of a process that is ready; those before it is ready are cold."""
    return _run_executor(load, _of_the_script(), warm=True)


def _of_the_script() -> FunctionType:
    """As if this file were the script: by name, the workers would load all of the benchmarks."""
    return FunctionType(nothing.__code__, {"__name__": "__main__"})


def _run_executor(load: Load, call: Callable[[int], int], *, warm: bool = False) -> float:
    """The daemon is there already, as it is on every day but the first."""
    with Instance(load.scratch, gpus=gpu_list(load.slots)) as instance:
        os.environ["STOKER_HOME"] = str(instance.root)
        try:
            began = time.perf_counter()
            with stoker.Executor(warm=warm) as executor:
                assert list(executor.map(call, range(load.jobs))) == list(range(load.jobs))
            return time.perf_counter() - began
        finally:
            del os.environ["STOKER_HOME"]
