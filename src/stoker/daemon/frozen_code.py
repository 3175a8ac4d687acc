"""Frozen code that no job needs any more: deleted after jobs were removed, in a thread."""

from __future__ import annotations

import asyncio
import logging
import os

from stoker.core.change import Change
from stoker.daemon.browsing import Browsing
from stoker.errors import StokerError
from stoker.store.browsing import Browser
from stoker.submission.rules import TREES

log = logging.getLogger("stoker.daemon")


class FrozenCode:
    """The trees of one home; there is at most one look at a time."""

    def __init__(self, home: str, browsing: Browsing) -> None:
        self._home = home
        self._browsing = browsing
        self._look: asyncio.Task[None] | None = None

    def jobs_removed(self, change: Change) -> None:
        """Delete what only removed jobs have used."""
        idle = self._look is None or self._look.done()
        if change.removed and idle and os.path.isdir(os.path.join(self._home, TREES)):
            self._look = asyncio.get_running_loop().create_task(self._collect())

    async def _collect(self) -> None:
        try:
            gone = await self._browsing.read(self._unused)
        except (StokerError, OSError) as error:
            log.warning("can't look for frozen code that is no longer needed: %s", error)
        else:
            if gone:
                log.info("%d frozen trees were deleted, which no job needs any more", gone)

    def _unused(self, browser: Browser) -> int:
        from stoker.submission.snapshots import Snapshots  # Most daemons never need it.

        return Snapshots(self._home).collect(browser.snapshots())
