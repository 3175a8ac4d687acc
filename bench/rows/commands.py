"""What a command takes, as multiples of a bare interpreter: `add`, `ls`, and `stoker` alone.

Each is a fresh process, as at a prompt. `add` is durable when it returns.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from harness.instance import NO_OP, Instance, gpu_list
from harness.measures import Goal, Measure, Report, measure
from harness.setting import Setting
from side_by_side import timed

BARE = "python -c pass"


def add(setting: Setting) -> list[Report]:
    """One submission from a fresh process."""
    with Instance(setting.scratch, gpus=gpu_list(setting.slots)) as instance:
        instance.call("pause")
        runs = {
            BARE: lambda: timed([sys.executable, "-c", "pass"]),
            "stoker add": lambda: timed(instance.words("add", "--", "true"), env=instance.env),
        }
        seconds = _interleaved(setting, runs, setting.times(60, 10))
    ours = _over_bare(seconds, "stoker add", must=Goal(2.5), aim=Goal(1.5))
    return [Report("add", f"one submission, over {BARE}", [_bare(seconds), ours])]


def ls(setting: Setting) -> list[Report]:
    """Few jobs and many: what is shown is as long, and so it must take as long."""
    many = setting.so_many(100_000, 5_000)
    sizes = {
        "100 jobs": lambda instance: _queue(instance, 100),
        f"{many:,} waiting": lambda instance: _queue(instance, many),
        f"{many:,} ended": lambda instance: _end(instance, many),
    }
    with ExitStack() as stack:
        runs: dict[str, Callable[[], float]] = {BARE: lambda: timed([sys.executable, "-c", "pass"])}
        for size, fill in sizes.items():
            instance = stack.enter_context(_filled(setting, fill))
            for verb, words in (("stoker ls", ["ls"]), ("stoker", [])):
                runs[f"{verb}, {size}"] = _command(instance, words)
        seconds = _interleaved(setting, runs, setting.times(30, 5))
    shown = [_bare(seconds)]
    for verb in ("stoker ls", "stoker"):
        few = f"{verb}, 100 jobs"
        shown.append(_over_bare(seconds, few, must=Goal(5.0)))
        for size in list(sizes)[1:]:
            name = f"{verb}, {size}"
            pairs = zip(seconds[name], seconds[few], strict=True)
            # Rounds are too short to be compared one by one: a single hiccup is a fifth of one.
            over = statistics.median(seconds[name]) / statistics.median(seconds[few])
            shown.append(
                measure(
                    f"{name}, over 100",
                    [over],
                    "x",
                    must=Goal(1.2),
                    slack=0.05,
                    note=f"{statistics.median(a / b for a, b in pairs):.2f} round by round",
                )
            )
    return [Report("ls", f"the list and the overview, over {BARE}", shown)]


@contextmanager
def _filled(setting: Setting, fill: Callable[[Instance], None]) -> Iterator[Instance]:
    with Instance(setting.scratch, gpus=gpu_list(setting.slots)) as instance:
        instance.call("pause")
        fill(instance)
        yield instance


def _queue(instance: Instance, count: int) -> None:
    instance.submit([NO_OP] * count)


def _end(instance: Instance, count: int) -> None:
    """So many jobs that have ended: called off, which is quicker than to run them."""
    _queue(instance, count)
    instance.call("cancel", select={"all": True})
    _queue(instance, 20)


def _command(instance: Instance, words: list[str]) -> Callable[[], float]:
    return lambda: timed(instance.words(*words), env=instance.env)


def _interleaved(
    setting: Setting, runs: dict[str, Callable[[], float]], rounds: int
) -> dict[str, list[float]]:
    for run in runs.values():
        run()  # What is read for the first time comes from the disk.
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    began = time.monotonic()
    for _ in range(rounds):
        for name, run in runs.items():
            seconds[name].append(run())
    setting.say(f"{rounds} rounds of {len(runs)} commands: {time.monotonic() - began:.0f} s")
    return seconds


def _bare(seconds: dict[str, list[float]]) -> Measure:
    return measure(BARE, [1000 * one for one in seconds[BARE]], "ms", ours=False)


def _over_bare(
    seconds: dict[str, list[float]], name: str, *, must: Goal, aim: Goal | None = None
) -> Measure:
    """A command's multiple of a bare interpreter."""
    bare = statistics.median(seconds[BARE])
    return measure(name, [one / bare for one in seconds[name]], "x", must=must, aim=aim)
