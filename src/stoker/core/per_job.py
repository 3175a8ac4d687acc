"""What one job of many that were submitted together has for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class PerJob(Protocol):
    """What one of many alike jobs has for itself; for the rest it is as they are."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Its command, or ..."""

    @property
    def shell(self) -> str | None:
        """... that for the login shell; with one of them it has no other."""

    @property
    def name(self) -> str | None:
        """None, as below: that of all."""

    @property
    def out(self) -> str | None:
        """Where its output goes."""

    @property
    def err(self) -> str | None:
        """Where its errors go."""

    @property
    def params(self) -> Mapping[str, object] | None:
        """Of the point that it is."""

    @property
    def point(self) -> str | None:
        """Names that point."""
