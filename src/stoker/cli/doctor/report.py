"""What a report of the drivers says, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def in_words(report: Mapping[str, Any]) -> str:
    """How many GPUs, of which driver; or why there are none."""
    parts = []
    for driver in report["drivers"]:
        if driver["hangs"]:
            parts.append(f"the {driver['vendor']} driver hangs in {driver['hangs']['function']}")
        elif "gpus" in driver:
            count = len(driver["gpus"])
            version = driver["versions"]["driver"] or "unknown"
            gpus = f"{count} GPU" if count == 1 else f"{count} GPUs"
            parts.append(f"{gpus}, {driver['vendor']} driver {version}")
    return "; ".join(parts) or "; ".join(driver["why"] for driver in report["drivers"])
