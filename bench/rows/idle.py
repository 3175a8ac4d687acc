"""What the daemon takes while there is nothing to do: eight GPUs that it reads, and no job."""

from __future__ import annotations

import time

from harness.instance import Instance, cpu_s
from harness.measures import Goal, Report, measure
from harness.setting import Setting
from harness.watched import watched_gpus

_GPUS = 8


def idle(setting: Setting) -> list[Report]:
    """The part of one core that it takes, in some spells."""
    spell_s = setting.so_many(20, 4)
    samples = []
    with Instance(setting.scratch, env=watched_gpus(setting, _GPUS)) as instance:
        seen = instance.call("gpus")["gpus"]
        assert len(seen) == _GPUS, f"{len(seen)} GPUs are seen: {instance.call('gpus')['why']}"
        pid = instance.pid()
        time.sleep(setting.so_many(5, 1))  # What follows from the start is over.
        for _ in range(setting.times(3)):
            before, began = cpu_s(pid), time.monotonic()
            time.sleep(spell_s)
            took = time.monotonic() - began
            samples.append(100 * (cpu_s(pid) - before) / took)
            setting.say(f"idle: {samples[-1]:.3f} % of a core")
    name = f"{_GPUS} GPUs read by a stand-in driver"
    ours = measure(name, samples, "%", must=Goal(0.5), slack=0.1)
    return [Report("idle", "of one core, with nothing to do", [ours])]
