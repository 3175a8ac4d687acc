"""That this daemon, and no other machine's, has the state: taken at its start, kept, and given up.

The claim is a file in the state directory (see api.claim); the database says where the last daemon
ran (see executors.elsewhere). A daemon that slept while its state was claimed from another machine
finds that out before its next turn, and ends without touching the database again.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from stoker.api.claim import RENEWED_EVERY_S, Holding, read_claim, whose
from stoker.api.localstate import keep_from_tidying
from stoker.api.paths import Home
from stoker.daemon.loop import TurnLoop
from stoker.errors import Failed
from stoker.executors.adoption import Past
from stoker.executors.elsewhere import KEPT_AS, Elsewhere
from stoker.executors.ledger import Key
from stoker.machine import Place
from stoker.store.sqlite import SqliteStore

log = logging.getLogger("stoker.daemon")


class Tenure:
    """The claim of one daemon, which has the lock."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._holding = Holding(home)
        # What tidies up old files in /var/tmp leaves a locked directory alone.
        self._directory = os.open(home.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with suppress(OSError):
            fcntl.flock(self._directory, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def elsewhere(self, values: Mapping[str, str]) -> Elsewhere:
        """What earlier daemons had going where this one can't look."""
        return Elsewhere(values.get(KEPT_AS), shared=self._holding.shared)

    def refuse_if_kept(self, past: Past) -> None:
        """Jobs in another container of this machine are not to be taken for lost."""
        if past.kept_in_another_container() and not self._holding.claim.over_another:
            self._refuse("jobs of another container on this machine run with this state", None)

    def begin(self, elsewhere: Elsewhere, active: Sequence[Key], store: SqliteStore) -> None:
        """Put down that the state is here now, and what was given up for that."""
        self._renew()  # A long queue may have taken longer to load than a claim may be silent.
        if elsewhere.found and elsewhere.on_another_machine:
            if not self._holding.claim.over_another:
                self._refuse("jobs of another machine run with this state", elsewhere.last)
            log.warning("%d jobs of another machine are given up", len(elsewhere.found))
        news = elsewhere.to_remember(active)
        if news is not None:
            store.set_setting(KEPT_AS, news)
        self._holding.has_given_up_others()
        keep_from_tidying(self._home)

    def _refuse(self, what: str, where: Place | None) -> None:
        if where is not None:
            self._holding.release()  # There it may start.
        name = f" ({where.host})" if where is not None else ""
        raise Failed(
            f"{what}{name}: {self._home.root}",
            "use it there; or, if that one is gone, run `stoker daemon claim` here",
        )

    def keep(self, loop: asyncio.AbstractEventLoop, turn_loop: TurnLoop) -> None:
        """Renew the claim for as long as the loop runs, and never have a turn without it."""

        def renew() -> None:
            self._renew()
            loop.call_later(RENEWED_EVERY_S, renew)

        def look() -> None:
            if self._holding.is_overdue():
                self._renew()

        turn_loop.before_turn.append(look)
        renew()

    def _renew(self) -> None:
        if not self._holding.renew():
            now = read_claim(self._home)
            log.error("this state is in use by %s now", "no machine" if now is None else whose(now))
            os._exit(1)  # Not a word more to the database.

    def end(self, *, has_jobs: bool) -> None:
        """The daemon ends; what it leaves running stays this machine's."""
        if not has_jobs:
            self._holding.release()
