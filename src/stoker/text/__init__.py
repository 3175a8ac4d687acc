"""How jobs, GPUs, times and logs are said, in the terminal, the live view and Python alike."""

from __future__ import annotations

import time


def duration_text(value_ms: int) -> str:
    """A duration for people, in two units at most: "0.3s", "4m 05s", "2h 05m", "3d 04h"."""
    value_ms = max(value_ms, 0)
    if value_ms < 10_000:
        return f"{value_ms // 100 / 10:g}s"
    seconds = value_ms // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02}s"
    if seconds < 86_400:
        return f"{seconds // 3600}h {seconds // 60 % 60:02}m"
    return f"{seconds // 86_400}d {seconds // 3600 % 24:02}h"


def iso_utc(at_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds: "2026-12-01T08:00:00.000Z"."""
    t = time.gmtime(at_ms // 1000)
    return (
        f"{t.tm_year:04}-{t.tm_mon:02}-{t.tm_mday:02}"
        f"T{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02}.{at_ms % 1000:03}Z"
    )


def local_moment_text(at_ms: int, now_ms: int) -> str:
    """A moment for people, in local time; the date is left out if it is today."""
    t, today = time.localtime(at_ms // 1000), time.localtime(now_ms // 1000)
    clock = f"{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02}"
    if t[:3] == today[:3]:
        return clock
    return f"{t.tm_year:04}-{t.tm_mon:02}-{t.tm_mday:02} {clock}"
