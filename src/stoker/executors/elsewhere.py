"""Attempts that ran where this daemon can't look: on another machine, or before the last restart.

The database says where the last daemon ran. If that was on another machine, all that it had going
is that machine's, and given up once the state is claimed. It is remembered by name, since what
starts here from now on is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress

from stoker.executors.ledger import Key
from stoker.machine import Place, here

KEPT_AS = "place"


class Elsewhere:
    """What of an earlier daemon's is out of reach."""

    def __init__(self, remembered: str | None, *, shared: bool) -> None:
        self._given_up: dict[Key, str] = {}
        self.found: set[Key] = set()  # those that were asked about, and are out of reach
        self.last: Place | None = None
        # An earlier version, or a later one: the ledgers say the same of most.
        with suppress(ValueError, KeyError, TypeError):
            kept = json.loads(remembered or "null") or {}
            if kept:
                self.last = Place(**kept["place"])
                self._given_up = {(job, number): why for job, number, why in kept["given_up"]}
        last = self.last
        self.on_another_machine = last is not None and not here().is_machine_of(last, shared=shared)
        self.before_restart = last is not None and last.boot != here().boot

    def why_gone(self, key: Key, by_pid_file: bool) -> str | None:
        """Why an attempt of which there is no exit is lost, whatever its pid is now; else None.

        `by_pid_file`: its pid is known from its client, and not with the place where that ran.
        """
        if self.on_another_machine:
            assert self.last is not None
            self._given_up[key] = f"it ran on {self.last.host}, and this machine has its state now"
        elif self.before_restart and by_pid_file:
            self._given_up[key] = "it ran when the machine went down"
        why = self._given_up.get(key)
        if why is not None:
            self.found.add(key)
        return why

    def to_remember(self, active: Iterable[Key]) -> str | None:
        """What the next daemon has to know, if that is something new."""
        if self.last == here():
            return None
        wanted = set(active)
        given_up = [[*key, why] for key, why in self._given_up.items() if key in wanted]
        return json.dumps({"place": here()._asdict(), "given_up": given_up})
