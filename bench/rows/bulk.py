"""How fast very many jobs get into the queue, durable: by the client, `sweep`, `batch` and `feed`.

The commands are timed as whole processes, from their start. The queue is paused meanwhile, and the
feed, which would stay until its last line has run, until the last line is queued.
"""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stoker
from harness.instance import NO_OP, Instance, gpu_list
from harness.measures import Goal, Report, measure
from harness.setting import Setting, bare_python_s
from side_by_side import timed

Way = Callable[[Instance, int, Path], float]


def bulk(setting: Setting) -> list[Report]:
    """Each way, in interleaved rounds."""
    jobs = setting.so_many(100_000, 5_000)
    ways: dict[str, Way] = {
        "one message": _message,
        "client": _client,
        "sweep": _sweep,
        "batch": _batch,
        "feed": _feed,
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    bare_s = bare_python_s()
    for number in range(setting.times(3)):
        for name, way in ways.items():
            # Each into an empty queue, so that none pays for those before it.
            with Instance(setting.scratch, gpus=gpu_list(setting.slots)) as instance:
                instance.call("pause")
                rates[name].append(jobs / way(instance, jobs, setting.scratch))
                waiting = instance.counts()["waiting"]
                assert waiting == jobs, f"{name}: {waiting} of {jobs} jobs are queued"
            setting.say(f"round {number + 1}: {name} {rates[name][-1]:,.0f} jobs/s")
    goals: dict[str, Any] = {}
    if not setting.quick:
        goals = {"must": Goal(50_000, at_least=True), "aim": Goal(100_000, at_least=True)}
    shown = [
        measure(f"{name}, {jobs:,}", rates[name], "jobs/s", yardstick=1 / bare_s,
                more_is_better=True, **goals)
        for name in ways
    ]  # fmt: skip
    return [Report("bulk", "jobs queued by one call, durable", shown)]


def _message(instance: Instance, jobs: int, scratch: Path) -> float:
    """The plain order over the socket: jobs that are all alike."""
    each: list[dict[str, Any]] = [{}] * jobs
    began = time.perf_counter()
    instance.call("submit", jobs=[NO_OP], each=each, cwd="/", env={}, user="bench")
    return time.perf_counter() - began


def _client(instance: Instance, jobs: int, scratch: Path) -> float:
    """`Client.add_many` of the library, with commands that all differ."""
    os.environ["STOKER_HOME"] = str(instance.root)
    try:
        some = [{"command": ["echo", "--seed", str(number)]} for number in range(jobs)]
        with stoker.Client() as client:
            began = time.perf_counter()
            client.add_many(some)
            return time.perf_counter() - began
    finally:
        del os.environ["STOKER_HOME"]


def _sweep(instance: Instance, jobs: int, scratch: Path) -> float:
    space = [f"seed=range(0,{jobs // 10},1)", "lr=1,2,3,4,5,6,7,8,9,10"]
    words = ["sweep", *space, "--", "echo", "--seed", "{seed}", "--lr", "{lr}"]
    return timed(instance.words(*words), env=instance.env)


def _batch(instance: Instance, jobs: int, scratch: Path) -> float:
    file = scratch / f"rows-{jobs}.csv"
    if not file.exists():
        with open(file, "w", encoding="utf-8", newline="") as text:
            writer = csv.writer(text)
            writer.writerow(["command", "priority"])
            writer.writerows([f"echo --seed {number}", number % 10] for number in range(jobs))
    return timed(instance.words("batch", str(file), "--no-wait"), env=instance.env)


def _feed(instance: Instance, jobs: int, scratch: Path) -> float:
    file = scratch / f"lines-{jobs}"
    if not file.exists():
        lines = (f"echo --seed {number}\n" for number in range(jobs))
        file.write_text("".join(lines), encoding="utf-8")
    began = time.perf_counter()
    process = subprocess.Popen(
        instance.words("feed", str(file)),
        env=instance.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while instance.counts().get("waiting", 0) < jobs:
            assert time.perf_counter() - began < 120, "the feed goes no further"
            assert process.poll() is None, "the feed has ended before its lines were queued"
            time.sleep(0.01)
        return time.perf_counter() - began
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
