"""How much memory a child took at most, from its first instruction to its end.

What wait4 tells of a child has in it what its parent had when it was made, and the process of a
large test suite is large.
"""

from __future__ import annotations

import os
from pathlib import Path

from waiting import eventually


def ended_with_peak(pid: int, timeout_s: float = 120.0) -> tuple[int, int]:
    """Wait for our child to end: its exit code (negative for a signal), and its peak in bytes."""
    peak = 0

    def over() -> tuple[int, int] | None:
        nonlocal peak
        peak = max(peak, peak_so_far(pid))
        ended, status = os.waitpid(pid, os.WNOHANG)
        return (os.waitstatus_to_exitcode(status), peak) if ended else None

    found = eventually(over, f"process {pid} has ended", timeout_s)
    assert found is not None
    return found


def peak_so_far(pid: int) -> int:
    """The peak so far; it only ever grows, so the last look before the end is close to it."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    sizes = [line.split()[1] for line in text.splitlines() if line.startswith("VmHWM:")]
    return int(sizes[0]) * 1024 if sizes else 0
