"""A daemon with a long queue of mixed jobs, shared by the rows that ask what its length costs."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from harness.instance import Instance, cpu_s
from harness.setting import Setting

_GPUS = "0:24G,1:24G,2:24G,3:24G"
# What the jobs ask for, in turn: whole GPUs, several, parts of one by memory or share, none.
_NEEDS: tuple[dict[str, Any], ...] = (
    {"gpus": 1},
    {"gpus": 1, "mem_mib": 8 * 1024},
    {"gpus": 2},
    {"share": 0.5},
    {"gpus": 1, "cpus": 1},
    {"gpus": 1, "mem_mib": 4 * 1024, "time_limit_ms": 3_600_000},
    {"gpus": 0, "cpus": 1},
    {"gpus": 4},
)
_PRIORITIES = 10
_GROUPS = 5


def mixed(count: int) -> list[dict[str, Any]]:
    """So many jobs that do nothing, with mixed needs, priorities and groups."""
    return [
        {
            "argv": ["sh", "-c", "true"],
            "priority": number % _PRIORITIES,
            "group": f"group-{number % _GROUPS}",
            # By another beat than the priorities, so that each has all kinds of needs.
            **_NEEDS[number // _PRIORITIES % len(_NEEDS)],
        }
        for number in range(count)
    ]


@dataclass(frozen=True, slots=True)
class Spell:
    """What was seen while some jobs of the queue ran."""

    jobs_a_second: float
    cpu_us_a_job: float
    turn_ms: float  # that 99 of 100 turns did not exceed


class LongQueue:
    """So many waiting jobs, paused but for spells of measuring."""

    def __init__(self, setting: Setting, waiting: int, dependent: int = 0) -> None:
        self._stack = ExitStack()
        self.instance = self._stack.enter_context(Instance(setting.scratch, gpus=_GPUS))
        self.waiting = waiting
        self.instance.call("pause")
        began = time.monotonic()
        if dependent:
            # They wait for a job that is held, and so for ever.
            (held,) = self.instance.submit([{"argv": ["true"], "hold": True}])
            some = mixed(dependent)
            self.instance.submit([{**job, "after": [str(held)]} for job in some])
        self.instance.submit(mixed(waiting))
        setting.say(f"{waiting + dependent:,} jobs queued in {time.monotonic() - began:.1f} s")

    def spell(self, jobs: int) -> Spell:
        """Let about so many jobs run, and put as many new ones in their place."""
        pid = self.instance.pid()
        before, cpu_before, turns = self._ended(), cpu_s(pid), self.instance.turns()["count"]
        began = time.perf_counter()
        self.instance.call("resume")
        while self._ended() - before < jobs:
            time.sleep(0.02)
        took, cpu = time.perf_counter() - began, cpu_s(pid) - cpu_before
        ran = self._ended() - before
        turn_ms = self.instance.turns(since=int(turns))["p99_ms"]
        self.instance.call("pause")
        while self.instance.counts().get("running", 0):
            time.sleep(0.005)
        self.instance.submit(mixed(self._ended() - before))
        return Spell(ran / took, 1e6 * cpu / ran, turn_ms)

    def _ended(self) -> int:
        return self.instance.counts().get("succeeded", 0)

    def close(self) -> None:
        """End the daemon."""
        self._stack.close()


def long_queue(setting: Setting, waiting: int, dependent: int = 0) -> LongQueue:
    """The queue of that length, made when it is first asked for."""
    key = f"{waiting}+{dependent}"
    if key not in setting.queues:
        setting.queues[key] = LongQueue(setting, waiting, dependent)
    return setting.queues[key]
