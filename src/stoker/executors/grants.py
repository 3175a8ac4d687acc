"""Attempts that were granted to clients at their terminals, until each is accepted or void.

Law: nothing is told of the end of a grant before it is void. Until then its client may start it,
so its GPUs stay held: a client may be stopped, and its messages late or lost, for any time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from stoker.core import events as ev
from stoker.executors.acceptances import Acceptance, Accepted, Failed, Torn, Void
from stoker.executors.ledger import Key

_TRY_AGAIN_MS = 500

End = ev.AttemptNotStarted | ev.AttemptPutBack | ev.AttemptEvicted


class Acceptances(Protocol):
    """Where acceptances are decided; see the module of that name."""

    def read(self, key: Key) -> Acceptance | None:
        """What was decided, if anything was."""

    def void(self, key: Key) -> Acceptance:
        """Take a grant back, unless it was accepted. OSError: that can't be done now."""


@dataclass(slots=True)
class Grant:
    """A client may accept it."""

    grace_ms: int
    end: End | None = None  # set: it is to be void, and then this is told
    stops: bool = False  # its job was told to stop, so all of its processes are to end
    accepted: bool = False  # by its process, which could not be looked at yet
    again_ms: int = 0  # when to try the one or the other again

    @property
    def is_decided(self) -> bool:
        """Whether something is left to be done here, whatever its client does."""
        return self.accepted or self.end is not None


class Grants:
    """All that are neither accepted nor void, as far as is known here."""

    def __init__(
        self,
        acceptances: Acceptances,
        begun: Callable[[Key, Accepted | Torn, int, bool], None],
        tell: Callable[[End], None],
    ) -> None:
        """`begun` is told of those that were accepted: their grace times, whether they stop."""
        self._acceptances = acceptances
        self._begun = begun
        self._tell = tell
        self._open: dict[Key, Grant] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._open

    def __bool__(self) -> bool:
        return bool(self._open)

    def offer(self, key: Key, grace_ms: int, now_ms: int) -> bool:
        """An attempt is to be started; whether its client is to be told (again)."""
        grant = self._open.setdefault(key, Grant(grace_ms))
        if grant.end is not None:
            return False
        acceptance = self._acceptances.read(key)
        if acceptance is not None:
            self._decided(key, acceptance, now_ms)
        return acceptance is None

    def is_accepted(self, key: Key, pid: int, now_ms: int) -> bool:
        """A client says that it has started it; whether that is so."""
        grant = self._open.get(key)
        if grant is None:
            return False
        try:
            acceptance = self._acceptances.read(key)
        except OSError:
            grant.accepted, grant.again_ms = True, now_ms + _TRY_AGAIN_MS
            return True  # It is taken at its word until there are files to look.
        if not isinstance(acceptance, Accepted) or acceptance.process.pid != pid:
            return False
        self._decided(key, acceptance, now_ms)
        return True

    def end(self, end: End, now_ms: int, grace_ms: int = 0, *, stops: bool = False) -> None:
        """Take a grant back, be it one of an earlier daemon; if it was accepted, it has begun."""
        key = (end.job_id, end.attempt)
        grant = self._open.setdefault(key, Grant(grace_ms))
        grant.stops = grant.stops or stops
        grant.end = grant.end or end
        self._void(key, grant, now_ms)

    def declined(self, end: End) -> None:
        """The client itself says that it did not accept it, and it tries only once.

        So nothing has to be written for it, which a full disk would not take.
        """
        key = (end.job_id, end.attempt)
        with suppress(OSError):  # Then it is taken back, as soon as that can be done.
            if key in self._open and self._acceptances.read(key) is None:
                end = self._open.pop(key).end or end
                self._tell(end)

    def try_again(self, now_ms: int) -> None:
        """Void those that could not be (the disk was full, say), or watch what was accepted."""
        for key, grant in list(self._open.items()):
            if grant.is_decided and grant.again_ms <= now_ms:
                self._void(key, grant, now_ms)

    def next_wakeup_ms(self) -> int | None:
        """When to try again."""
        moments = [grant.again_ms for grant in self._open.values() if grant.is_decided]
        return min(moments, default=None)

    def _void(self, key: Key, grant: Grant, now_ms: int) -> None:
        try:
            acceptance = self._acceptances.void(key)
        except OSError:
            grant.again_ms = now_ms + _TRY_AGAIN_MS
            return
        self._decided(key, acceptance, now_ms)

    def _decided(self, key: Key, acceptance: Acceptance, now_ms: int) -> None:
        grant = self._open[key]
        match acceptance:
            case Void():
                why = "its grant was taken back"
                self._tell(grant.end or ev.AttemptNotStarted(now_ms, *key, why))
            case Failed(why=why):
                self._tell(ev.AttemptNotStarted(now_ms, *key, why, acceptance.cause))
            case Accepted() | Torn():
                try:
                    self._begun(key, acceptance, grant.grace_ms, grant.stops)
                except OSError:
                    # Too many files are open to look at its process, which is there all the same.
                    grant.accepted, grant.again_ms = True, now_ms + _TRY_AGAIN_MS
                    return
        del self._open[key]
