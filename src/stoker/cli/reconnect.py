"""Getting back to a daemon that went away while a command was waiting for it."""

from __future__ import annotations

from stoker.api import reconnect
from stoker.text.terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.client import Client


class Reconnection(reconnect.Reconnection):
    """How one waiting command comes back to its daemon; its user is told on stderr."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, lambda text: say(f"stoker: {text}"))
