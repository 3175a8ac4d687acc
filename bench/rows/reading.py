"""What the reader of metrics takes while jobs print, and how soon kept metrics are found.

Eight jobs print 10,000 lines a second each. Whether jobs start as fast beside them is measured with
and without --metric, in turns: the printing itself takes processor time either way.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from harness.instance import NO_OP, Instance, cpu_s, gpu_list, paused
from harness.measures import Goal, Report, measure
from harness.setting import Setting
from stoker.metrics.asking import metrics_of

_PRINTING = 8
_PRINT = """
import os, time
step, next_s = 0, time.monotonic()
while True:
    text = "".join(f"step {step + n}: train_loss={1 / (step + n + 1):.4f}, lr=1e-3\\n"
                   for n in range(100))
    os.write(1, text.encode())
    step, next_s = step + 100, next_s + 0.01
    time.sleep(max(0.0, next_s - time.monotonic()))
"""


def reading(setting: Setting) -> list[Report]:
    """The part of a core, the rate of starts beside it, and the time of an answer."""
    shares: list[float] = []
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number in range(setting.times(5)):
        for follows in (False, True) if number % 2 else (True, False):
            rate, share = _beside(setting, follows)
            rates[follows].append(rate)
            shares += [share] if follows else []
        setting.say(f"reading: {shares[-1]:.1f} % of a core")
    over = [mine / its for mine, its in zip(rates[True], rates[False], strict=True)]
    name = f"the reader, {_PRINTING} jobs with 10,000 lines a second"
    must = Goal(0.95, at_least=True)
    first, second, points = _answers(setting)
    return [
        Report("reading", "of one core, for metrics of jobs that run", [
            measure(name, shares, "%", must=Goal(50.0), slack=1.0),
            measure("starts beside it, over those without it", over, "x", must=must,
                    more_is_better=True, slack=0.05),
            measure(f"two metrics of {points} jobs, not read before", [first], "s", ours=False),
            measure(f"two metrics of {points} jobs", second, "s", must=Goal(1.0), slack=0.1),
        ]),
    ]  # fmt: skip


def _beside(setting: Setting, follows: bool) -> tuple[float, float]:
    """The starts a second while eight jobs print, and the part of a core that the reader takes."""
    jobs, spell_s = setting.so_many(2_000, 200), setting.so_many(20, 4)
    asked = {"metric": [r"last=lr=(\S+)"]} if follows else {}
    with Instance(setting.scratch, gpus=gpu_list(setting.slots)) as instance:
        printing = {"argv": [sys.executable, "-c", _PRINT], "gpus": 0, **asked}
        instance.submit([printing] * _PRINTING)
        time.sleep(setting.so_many(5, 2))
        share = 0.0
        if follows:
            pid = _reader(instance)
            before, began = cpu_s(pid), time.monotonic()
            time.sleep(spell_s)
            share = 100 * (cpu_s(pid) - before) / (time.monotonic() - began)
        with paused(instance, [NO_OP] * jobs) as ids:
            return jobs / instance.run_all(ids), share


def _reader(instance: Instance) -> int:
    """The process that reads for this instance."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for name in os.listdir("/proc"):
            with suppress(OSError):
                words = Path("/proc", name, "cmdline").read_bytes() if name.isdecimal() else b""
                if b"stoker.metrics.reader" in words and os.fsencode(instance.root) in words:
                    return int(name)
        time.sleep(0.1)
    raise AssertionError("no reader was started")


def _answers(setting: Setting) -> tuple[float, list[float], int]:
    """The seconds until the metrics of ended jobs are answered: at first, and from then on."""
    points = setting.so_many(10_000, 500)
    said = ["sh", "-c", "echo step 1 loss=0.5 acc=0.1; echo step 2 loss=0.25 acc=0.2"]
    with Instance(setting.scratch, gpus=gpu_list(setting.slots)) as instance:
        with paused(instance, [{"argv": said, "gpus": 1}] * points) as ids:
            instance.run_all(ids)
        select = {"ids": [f"{ids[0]}-{ids[-1]}"]}
        took = []
        for _ in range(1 + setting.times(5)):
            began = time.perf_counter()
            found = metrics_of(instance.call, select)
            took.append(time.perf_counter() - began)
            assert len(found) == 2 * points, f"{len(found)} of {2 * points} metrics were found"
    return took[0], took[1:], points
