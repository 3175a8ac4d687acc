"""What the length of the queue costs: the rate of starts, the time of a turn, memory, a restart.

The jobs are mixed in what they need, in priority and in group. The queues are all there at once,
and their spells interleaved; what has run is queued anew, so that each keeps its length.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from pathlib import Path
from typing import Any

from harness.instance import resident_bytes
from harness.long_queue import Spell, long_queue
from harness.measures import Goal, Report, measure
from harness.setting import Setting, bare_python_s

_LONGEST = 1_000_000


def growth(setting: Setting) -> list[Report]:
    """The rate of starts and the time of a turn, with more and more waiting jobs."""
    sizes = [1_000, 5_000] if setting.quick else [1_000, 10_000, 100_000, _LONGEST]
    dependent = setting.so_many(100_000, 5_000)
    queues = {f"{size:,}": long_queue(setting, size) for size in sizes}
    held_back = f"1,000, and {dependent:,} held by dependencies"
    queues[held_back] = long_queue(setting, 1_000, dependent)
    spells: dict[str, list[Spell]] = {name: [] for name in queues}
    jobs = setting.so_many(800, 200)
    for number in range(setting.times(5) + 1):
        # There and back, so that a machine that gets slower or faster meanwhile favours none.
        for name in reversed(queues) if number % 2 else queues:
            spell = queues[name].spell(jobs)
            setting.say(
                f"round {number}: {name}: {spell.jobs_a_second:.0f} jobs/s, "
                f"{spell.cpu_us_a_job:.0f} µs a job, turn {spell.turn_ms:.2f} ms"
            )
            if number:  # The first round warms up.
                spells[name].append(spell)
    shown = []
    first = next(iter(queues))
    for name in queues:
        rates = [one.jobs_a_second for one in spells[name]]
        shown.append(measure(f"starts, {name} waiting", rates, "jobs/s", ours=False))
    for name in queues:
        turns = [one.turn_ms for one in spells[name]]
        shown.append(measure(f"p99 of a turn, {name} waiting", turns, "ms", ours=False))
    for name in queues:
        cpu = [one.cpu_us_a_job for one in spells[name]]
        shown.append(measure(f"processor time a job, {name} waiting", cpu, "µs", ours=False))
    for name in list(queues)[1:]:
        both = zip(spells[name], spells[first], strict=True)
        over = [mine.jobs_a_second / its.jobs_a_second for mine, its in both]
        must = Goal(0.9, at_least=True)
        shown.append(measure(f"{name} over {first}", over, "x", must=must, more_is_better=True))
    points = [[float(size), _rate(spells[f"{size:,}"])] for size in sizes]
    turn = [[float(size), _turn(spells[f"{size:,}"])] for size in sizes]
    return [
        Report(
            "growth",
            "the rate of starts, and the time of a turn, by the length of the queue",
            shown,
            curves={"starts a second": points, "p99 of a turn, ms": turn},
        )
    ]


def _rate(spells: list[Spell]) -> float:
    return round(statistics.median(one.jobs_a_second for one in spells), 1)


def _turn(spells: list[Spell]) -> float:
    return round(statistics.median(one.turn_ms for one in spells), 3)


def memory(setting: Setting) -> list[Report]:
    """The memory of a daemon, for each of very many waiting jobs."""
    size = setting.so_many(_LONGEST, 5_000)
    queue = long_queue(setting, size)
    used = resident_bytes(queue.instance.pid())
    # A daemon that was started anew has not the marks of the submissions on it.
    queue.instance.stop()
    queue.instance.start()
    anew = resident_bytes(queue.instance.pid())
    goals: dict[str, Any] = {} if setting.quick else {"must": Goal(1024), "aim": Goal(512)}
    return [
        Report(
            "memory",
            f"of the daemon for each of {size:,} waiting jobs",
            [
                measure(f"a job of {size:,}", [used / size], "B", **goals),
                measure(f"a job of {size:,}, started anew", [anew / size], "B", **goals),
            ],
        )
    ]


def restart(setting: Setting) -> list[Report]:
    """From the start of a daemon, after the last one was killed, to the start of a job."""
    size = setting.so_many(_LONGEST, 5_000)
    queue = long_queue(setting, size)
    instance = queue.instance
    seconds = []
    for _ in range(setting.times(3)):
        instance.call("resume")
        instance.kill()
        latest = _latest_start_ms(queue.instance.root)
        began_ms, began = time.time() * 1000, time.perf_counter()
        instance.start()
        while (started := _latest_start_ms(queue.instance.root)) <= max(latest, began_ms):
            assert time.perf_counter() - began < 120, "no job was started"
            time.sleep(0.005)
        seconds.append((started - began_ms) / 1000)
        setting.say(f"restart with {size:,} jobs: {seconds[-1]:.2f} s")
        instance.call("pause")
    ours = measure(
        f"{size:,} jobs in the database", seconds, "s", yardstick=bare_python_s(),
        must=Goal(5.0), aim=Goal(1.0),
    )  # fmt: skip
    return [Report("restart", "killed, until the next job starts", [ours])]


def _latest_start_ms(root: Path) -> float:
    """When the latest attempt was started, by the database."""
    with sqlite3.connect(f"file:{root / 'stoker.db'}?mode=ro", uri=True) as database:
        row = database.execute("SELECT max(started_at_ms) FROM attempts").fetchone()
    return float(row[0] or 0)
