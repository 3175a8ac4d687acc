"""The feed's side of its connection: one request at a time, and the group's events in between.

Requests and events share one connection, so that a job's id is always known before the first event
about it. A connection that breaks is made again: a request that was under way is given again if
that can do no harm, and the feed is told to find out what it has missed.
"""

from __future__ import annotations

import time

from stoker.api.client import ConnectionLost, NoAnswerYet
from stoker.cli.reconnect import Reconnection
from stoker.errors import StokerError, Unavailable
from stoker.text.terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stoker.api.client import Client

_LOOK_UP_S = 0.25  # how long signals may be left unheard while a daemon is waited for
_TRY_AGAIN_S = 1.0


class Request:
    """A request, and what to do with its answer or with the error that it meets."""

    __slots__ = ("failed", "line", "repeatable", "then")

    def __init__(
        self,
        line: bytes,
        then: Callable[[dict[str, Any]], None],
        failed: Callable[[StokerError], None],
        *,
        repeatable: bool,
    ) -> None:
        self.line = line  # see client.line_of
        self.then = then
        self.failed = failed
        self.repeatable = repeatable


class Channel:
    """One conversation with the daemon about one group."""

    def __init__(self, client: Client, group: str) -> None:
        self.client = client
        self._group = group
        self._request: Request | None = None
        self._reconnection = Reconnection(client)
        self._lost: StokerError | None = None
        self._stopped: Unavailable | None = None
        self._again_at: float | None = None
        self._told_trouble = False
        self.missed_something = False  # events may have been lost: ask how things stand

    def begin(self) -> None:
        """Connect, and hear of the group from now on."""
        self.client.call("follow", group=self._group)

    @property
    def connected(self) -> bool:
        """Whether there is a daemon at the other end, as far as is known."""
        return self._lost is None

    @property
    def is_free(self) -> bool:
        """Whether the next request can be given."""
        return self._request is None and self._lost is None

    def due_s(self) -> float | None:
        """How long until something should be tried again."""
        if self._lost is not None:
            return 0.0
        if self._again_at is not None:
            return max(self._again_at - time.monotonic(), 0.0)
        return 0.0 if self.client.has_line() else None

    def give(self, request: Request) -> None:
        """Give a request; its answer is heard later."""
        assert self.is_free
        self._request = request
        self._send(request)

    def _send(self, request: Request) -> None:
        try:
            self.client.send_line(request.line)
        except StokerError as error:
            self._lose(error)

    def _lose(self, error: StokerError) -> None:
        self.client.close()
        self._lost = self._stopped or error
        self._again_at = None

    def hear(self, on_event: Callable[[dict[str, Any]], None]) -> None:
        """Take in all that has arrived, in its order; answers go to those who asked."""
        while self._lost is None:
            try:
                line = self.client.receive(0.0)
            except NoAnswerYet:
                return
            except ConnectionLost as error:
                self._lose(error)
            except Unavailable as error:
                self._put_off(error)
            except StokerError as error:
                request = self._answered()
                if request is None:
                    raise
                request.failed(error)
            else:
                self._stopped = None
                if "event" in line:
                    on_event(line)
                elif (request := self._answered()) is not None:
                    request.then(line)

    def _answered(self) -> Request | None:
        request, self._request = self._request, None
        self._told_trouble = False
        return request

    def _put_off(self, error: Unavailable) -> None:
        """The daemon says goodbye, or it can't save anything now: what it was asked must wait."""
        self._stopped = error
        if self._request is not None:
            self._again_at = time.monotonic() + _TRY_AGAIN_S

    def mend(self) -> None:
        """Do what is due: give a request again that had to wait, or connect again."""
        if self._lost is not None:
            self._connect_again(self._lost)
        elif self._again_at is not None and time.monotonic() >= self._again_at:
            self._again_at = None
            if self._stopped is not None and not self._told_trouble:
                self._told_trouble = True
                say(f"stoker: {self._stopped.message}; retrying until there is room")
            if self._request is not None:
                self._send(self._request)

    def _connect_again(self, error: StokerError) -> None:
        if not self._reconnection.wait(error, time.monotonic() + _LOOK_UP_S):
            return
        try:
            self.begin()
        except (ConnectionLost, Unavailable) as again:
            self._lose(again)
            return
        self._lost = self._stopped = None
        self.missed_something = True
        request = self._request
        if request is not None and request.repeatable:
            self._send(request)
        elif request is not None:
            self._request = None
            request.failed(error)
