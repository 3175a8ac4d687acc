"""The one background thread of a process: it hears of starts and ends as they happen.

It polls nothing. When the daemon goes away while a future still waits for a job, it comes back to
it with patience, as api/reconnect.py has it. After that it asks for what it has missed.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stoker.api.client import Client, ConnectionLost, NoAnswerYet
from stoker.api.holder import NotAnswering
from stoker.api.paths import Home
from stoker.api.reconnect import Reconnection
from stoker.errors import StokerError, Unavailable, Unreachable

if TYPE_CHECKING:
    from stoker.library.channel import Channel

log = logging.getLogger("stoker")


class Follower:
    """Follows groups on a connection of its own; the thread begins with the first of them."""

    def __init__(self, home: Home, listener: Channel) -> None:
        self._client = Client(home)
        self._reconnection = Reconnection(self._client, log.warning)
        self._listener = listener
        self._changed = threading.Condition()
        self._wanted: list[str] = []
        self._followed: set[str] = set()
        self._asking = 0  # callers of `follow` that wait for us
        self._refused: StokerError | None = None
        self._losses = 0  # how often the connection broke
        self._stale = False
        self._thread: threading.Thread | None = None
        self._events: deque[dict[str, Any]] = deque()
        self._wake_in, self._wake_out = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def follow(self, group: str) -> int:
        """Hear of a group; it is followed when this returns. The answer is for `still_heard`."""
        if threading.current_thread() is self._thread:
            return self._follow_from_callback(group)
        with self._changed:
            if group not in self._followed:
                self._ask(group)
            return self._losses

    def _follow_from_callback(self, group: str) -> int:
        """A callback submits something: no other thread would do this while we wait for it."""
        if group not in self._followed:
            self._note(group)
            try:
                if self._client.fileno() < 0:
                    return -1  # As below, for an earlier callback.
                self._follow(group)
            except StokerError:
                self._client.close()
                return -1  # The loop will notice that the connection broke, and mend it.
        return self._losses

    def still_heard(self, since: int) -> None:
        """A future waits for jobs queued after `follow` gave `since`: see that none is missed."""
        with self._changed:
            if self._losses == since:
                return
            self._stale = True
        self._wake()

    def _ask(self, group: str) -> None:
        self._refused = None
        self._note(group)
        self._asking += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="stoker", daemon=True)
            self._thread.start()
        self._wake()
        try:
            self._changed.wait_for(lambda: group in self._followed or self._refused is not None)
        finally:
            self._asking -= 1
        if self._refused is not None:
            raise self._refused

    def _note(self, group: str) -> None:
        if group not in self._wanted:
            self._wanted.append(group)

    def _wake(self) -> None:
        try:
            os.write(self._wake_out, b"x")
        except BlockingIOError:
            pass  # It has been woken many times over.

    # --- the thread ---

    def _run(self) -> None:
        while True:
            while not self._needed():
                self._pause(None)
            try:
                if self._come_back():
                    self._listen()
            except StokerError as error:
                self._reconnection.lost(error)
                with self._changed:
                    self._followed.clear()
                    self._losses += 1
                if not isinstance(error, Unreachable | Unavailable):
                    self._refuse(error)  # The daemon is there, and refuses.
                    self._listener.give_up(error)
                elif isinstance(error, NotAnswering) and self._is_asked():
                    self._refuse(error)  # It was stopped, say; what is queued is waited for.

    def _needed(self) -> bool:
        return self._is_asked() or self._listener.waits()

    def _is_asked(self) -> bool:
        with self._changed:
            return self._asking > 0 and self._refused is None

    def _come_back(self) -> bool:
        """Connect; False if that is not needed any more."""
        while self._needed():
            asked = self._is_asked()
            if asked:
                self._reconnection.wanted()
            trouble = self._reconnection.attempt()
            if trouble is None:
                return True
            # What is queued is waited for; a submission fails, and nothing is lost by that.
            if asked:
                self._refuse(trouble)
            self._pause(self._reconnection.pause_s)
        return False

    def _refuse(self, error: StokerError) -> None:
        with self._changed:
            self._refused = error
            self._changed.notify_all()

    def _listen(self) -> None:
        """Follow all that is wanted, and pass on what comes, until the connection breaks."""
        self._follow_wanted()
        # Whatever began before we followed, or while nothing listened, is asked for.
        self._catch_up()
        connection = self._client.fileno()
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(self._wake_in, select.POLLIN)
        while True:
            while self._events:
                event = self._events.popleft()
                with _mistakes_of_callbacks(f"job {event.get('id')}"):
                    self._listener.hear(event)
            if self._client.fileno() != connection:
                raise ConnectionLost("the connection broke while a callback used it")
            if not self._client.has_line():
                ready = [fd for fd, _ in poll.poll()]
                if self._wake_in in ready:
                    self._drain_wakes()
                    self._follow_wanted()
                    with self._changed:
                        stale, self._stale = self._stale, False
                    if stale:
                        self._catch_up()
                if connection not in ready:
                    continue
            try:
                self._events.append(self._client.receive(0))
            except NoAnswerYet:
                pass

    def _catch_up(self) -> None:
        with _mistakes_of_callbacks("jobs without news for a while"):
            self._listener.catch_up()

    def _follow_wanted(self) -> None:
        with self._changed:
            new = [group for group in self._wanted if group not in self._followed]
        for group in new:
            self._follow(group)

    def _follow(self, group: str) -> None:
        self._client.send("follow", group=group)
        while True:
            line = self._client.answer()
            if "event" not in line:
                break
            self._events.append(line)
        with self._changed:
            self._followed.add(group)
            self._changed.notify_all()

    def _pause(self, timeout_s: float | None) -> None:
        """Sleep until a thread wakes us, or so long."""
        poll = select.poll()
        poll.register(self._wake_in, select.POLLIN)
        poll.poll(None if timeout_s is None else timeout_s * 1000)
        self._drain_wakes()

    def _drain_wakes(self) -> None:
        try:
            os.read(self._wake_in, 4096)
        except BlockingIOError:
            pass


@contextmanager
def _mistakes_of_callbacks(whose: str) -> Iterator[None]:
    """Code of the user's runs in callbacks; its mistakes must not silence all others."""
    try:
        yield
    except StokerError:
        raise
    except Exception:
        log.exception("what was to be done for %s failed", whose)
