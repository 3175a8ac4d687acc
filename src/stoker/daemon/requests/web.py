"""`stoker web`: the page, which is a process of its own."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.daemon.requests.reply import Daemon, Fields, Later


def start(daemon: Daemon, request: msg.PageStart) -> Later:
    """Serve the page."""
    return daemon.page.start(request.changes)


async def stop(daemon: Daemon, request: msg.PageStop) -> Fields:
    """End the page, and forget its settings."""
    return {"stopped": await daemon.page.stop()}


def status(daemon: Daemon, request: msg.PageStatus) -> Fields:
    """Whether it runs, and where."""
    return daemon.page.status()
