"""GPUs that a benchmark's daemon reads: a stand-in driver, as the tests have it."""

from __future__ import annotations

import sys

from harness.setting import Setting
from side_by_side import HERE

_MEMORY_MIB = 24 * 1024


def watched_gpus(setting: Setting, count: int) -> dict[str, str]:
    """The environment in which a daemon sees so many GPUs."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from fakegpu.build import build
    from fakegpu.driver import FakeDriver

    driver = FakeDriver.create(setting.scratch / f"gpus-{count}", count, _MEMORY_MIB)
    return driver.environment(build(setting.scratch / "fakegpu"))
