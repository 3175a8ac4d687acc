"""What one job of many that were submitted together has for itself."""

from __future__ import annotations

from typing import Any, Protocol


class PerJob(Protocol):
    """What one of many alike jobs has for itself; for the rest it is as they are."""

    argv: tuple[str, ...]  # its command, or ...
    shell: str | None  # ... that for the login shell; with one of them it has no other
    name: str | None  # None, as below: that of all
    out: str | None  # where its output goes
    err: str | None
    params: dict[str, Any] | None  # of the point that it is
    point: str | None  # names that point
