"""The pane under the list with all that is known of a job, asked for anew while it is open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from stoker.api.client import Client
from stoker.top.actions import details
from stoker.top.paint import Line
from stoker.top.rows import Scroller

_RENEWED_S = 1.0

Ask = Callable[[Callable[[Client], Any], Callable[[Any], None]], None]


class DetailsPane(Scroller):
    """All about one job."""

    def __init__(self, ask: Ask, *, id: str) -> None:
        super().__init__(id=id, indent=14)
        self._ask = ask
        self._asked_at = 0.0
        self.job_id: int | None = None

    def open(self, job_id: int) -> None:
        """Show this job from now on."""
        if job_id != self.job_id:
            self.show_all([])
        self.job_id = job_id
        self._asked_at = time.monotonic()

        def show(lines: list[Line]) -> None:
            if self.job_id == job_id:
                self.show_all(lines)

        self._ask(lambda client: details(client, job_id), show)

    def renew(self) -> None:
        """Ask again, if that was a while ago."""
        if self.job_id is not None and time.monotonic() - self._asked_at >= _RENEWED_S:
            self.open(self.job_id)

    def close(self) -> None:
        """Show none."""
        self.job_id = None
        self.show_all([])
