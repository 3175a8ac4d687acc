"""Getting back to a daemon that went away while a command was waiting for it.

A daemon that died is started again: the user still waits for an answer. One that was stopped on
purpose says so, and is left stopped: it is waited for instead.
"""

from __future__ import annotations

import time

from stoker.cli.terminal import say
from stoker.errors import StokerError, Unavailable, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.client import Client

_RETRY_S = 0.25


class Reconnection:
    """How one waiting command comes back to its daemon."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told = False

    def wait(self, error: StokerError, deadline: float | None = None) -> bool:
        """Connect again after an error; False if the deadline (monotonic) comes first."""
        client = self._client
        client.close()
        autostart = client.autostart
        client.autostart = autostart and not isinstance(error, Unavailable)
        try:
            while True:
                try:
                    client.connect()
                    return True
                except Unreachable:
                    # Starting it has failed already, which the error explains.
                    if client.autostart:
                        raise
                self._tell()
                pause_s = _RETRY_S
                if deadline is not None:
                    pause_s = min(pause_s, deadline - time.monotonic())
                    if pause_s <= 0:
                        return False
                time.sleep(pause_s)
        finally:
            client.autostart = autostart

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            say("stoker: the daemon was stopped; waiting for it (`stoker daemon start`)")
