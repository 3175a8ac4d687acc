"""Getting back to a daemon that went away while a client was waiting for it.

A daemon that died is started again, and if it can't be started (it was killed once more, the disk
is full for a moment) that is tried again for as long as the client waits. One that was stopped on
purpose says so, and is left stopped: it is waited for instead. What a daemon refuses for good, it
refuses here too.
"""

from __future__ import annotations

import time

from stoker.errors import StokerError, TooManyClients, Unavailable, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.api.client import Client

_LOOK_AGAIN_S = 0.25
_LONGEST_PAUSE_S = 5.0
_ROOM_S = 2.0


class Reconnection:
    """How one client comes back to its daemon; `say` tells its user, once each time."""

    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self._client = client
        self._say = say
        self._stopped = False  # on purpose
        self._told = False
        self.pause_s = _LOOK_AGAIN_S  # how long to wait before the next attempt

    def lost(self, error: StokerError) -> None:
        """The connection is gone; the error says how."""
        self._client.close()
        if isinstance(error, TooManyClients):
            # It is there, and will have room when others have gone.
            self._say_once(f"{error.message}; {error.hint}; trying again")
        else:
            self._stopped = isinstance(error, Unavailable)

    def wanted(self) -> None:
        """There is a new request: that is a reason to start a daemon that was stopped."""
        self._stopped = False

    def attempt(self) -> Unreachable | None:
        """Try once to connect; None if that went well, else why it did not."""
        client, autostart = self._client, self._client.autostart
        client.autostart = autostart and not self._stopped
        try:
            client.connect()
        except Unreachable as trouble:
            if client.autostart:
                hint = f" ({trouble.hint})" if trouble.hint else ""
                self._say_once(f"the daemon is gone: {trouble.message}{hint}; trying again")
                self.pause_s = min(self.pause_s * 2, _LONGEST_PAUSE_S)
            else:
                self._say_once("the daemon was stopped; waiting for it (`stoker daemon start`)")
            return trouble
        finally:
            client.autostart = autostart
        self.pause_s = _LOOK_AGAIN_S
        self._told = False
        return None

    def wait(self, error: StokerError, deadline: float | None = None) -> bool:
        """Connect again after an error; False if the deadline (monotonic) comes first."""
        self.lost(error)
        if isinstance(error, TooManyClients) and not _paused(_ROOM_S, deadline):
            return False
        while self.attempt() is not None:
            if not _paused(self.pause_s, deadline):
                return False
        return True

    def _say_once(self, text: str) -> None:
        if not self._told:
            self._told = True
            self._say(text)


def _paused(pause_s: float, deadline: float | None) -> bool:
    """Wait that long; False if the deadline comes first."""
    if deadline is not None:
        pause_s = min(pause_s, deadline - time.monotonic())
        if pause_s <= 0:
            return False
    time.sleep(pause_s)
    return True
