"""Attempts whose processes run in PID namespaces into which the daemon can't see.

That is looked at again and again: there is nothing that could wake us. See `namespaces`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress

from stoker.core.model import Exit
from stoker.executors.attempt_dir import read_exit
from stoker.executors.ledger import Key
from stoker.executors.namespaces import alive_lock, ask_client_to_signal
from stoker.locks import is_locked

_LOOK_AGAIN_MS = 200


class UnseenAttempts:
    """See the module. `ended` is told of the end of each, and how it ended if that is known."""

    def __init__(
        self, path_of: Callable[[Key], str], ended: Callable[[Key, Exit | None], None]
    ) -> None:
        self._path_of = path_of
        self._ended = ended
        self._again_ms: dict[Key, int] = {}
        self._asked: dict[Key, int] = {}  # the signal that each was sent last

    def __contains__(self, key: Key) -> bool:
        return key in self._again_ms

    def __bool__(self) -> bool:
        return bool(self._again_ms)

    def watch(self, key: Key, now_ms: int) -> None:
        """One more."""
        self._again_ms[key] = now_ms

    def look(self, now_ms: int) -> None:
        """Tell of those that are over."""
        for key in [key for key, moment in self._again_ms.items() if moment <= now_ms]:
            directory = self._path_of(key)
            self._again_ms[key] = now_ms + _LOOK_AGAIN_MS
            with suppress(OSError):  # Too many files are open to look.
                # First: what is gone has had its exit written.
                alive = is_locked(alive_lock(directory))
                how = read_exit(directory)
                if alive and how is None:
                    continue
                self._ended(key, how)
                del self._again_ms[key]
                self._asked.pop(key, None)

    def next_wakeup_ms(self) -> int | None:
        """When to look again."""
        return min(self._again_ms.values(), default=None)

    def stop(self, key: Key, force: bool) -> None:
        """Ask it to end; with `force`, end it."""
        number = signal.SIGKILL if force else signal.SIGTERM
        if self._asked.get(key) == number:
            return
        try:
            ask_client_to_signal(self._path_of(key), number)
        except OSError:
            return  # The order comes again.
        self._asked[key] = number
