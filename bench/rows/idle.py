"""What the daemon takes while there is nothing to do: eight GPUs that it reads, and no job."""

from __future__ import annotations

import sys
import time

from harness.instance import Instance, cpu_s
from harness.measures import Goal, Report, measure
from harness.setting import Setting
from side_by_side import HERE

_GPUS = 8


def idle(setting: Setting) -> list[Report]:
    """The part of one core that it takes, in some spells."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from fakegpu.build import build
    from fakegpu.driver import FakeDriver

    driver = FakeDriver.create(setting.scratch / "gpus", _GPUS, 24 * 1024)
    env = driver.environment(build(setting.scratch / "fakegpu"))
    spell_s = setting.so_many(20, 4)
    samples = []
    with Instance(setting.scratch, env=env) as instance:
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
