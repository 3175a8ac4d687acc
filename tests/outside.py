"""Processes that Stoker did not start, for tests of jobs that wait for one, or that are one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

Process = subprocess.Popen[bytes]
Train = Callable[[], Process]


def end(process: Process) -> None:
    """Kill it, and let it go."""
    process.kill()
    process.wait()
