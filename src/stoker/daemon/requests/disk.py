"""`stoker disk`: what takes how much room."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.daemon import settings
from stoker.daemon.disk_use import disk_use
from stoker.daemon.requests.reply import Daemon, Fields


async def disk(daemon: Daemon, request: msg.Disk) -> Fields:
    """Counted in the thread of long lists: there may be a hundred thousand logs."""
    least = settings.least_rooms_of(daemon.store.settings())
    return await daemon.browsing.read(
        lambda browser: disk_use(daemon.home, browser.standings(), least)
    )
