"""Takeovers in a simulated world, with a crash after each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import takewhile

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Job, Launch
from stoker.core.takeover import AllowTakeovers, Standby
from stoker.sim.faults import Steps
from stoker.sim.world import World, successor_of


class CrashingTakeover:
    """See ports.Takeover."""

    def __init__(self, world: World, steps: Steps) -> None:
        self._world = world
        self._steps = steps
        self.allowed: AllowTakeovers | None = None

    def adopt(self, standbys: Iterable[Job], now_ms: int) -> None:
        """See ports.Takeover."""
        successors = {successor_of(fact) for fact in self._world.pending}
        known = [(job, job.attempt + 1, False) for job in standbys]
        self._world.adopt([one for one in known if (one[0].id, one[1]) in successors])

    def allow(self, takeovers: AllowTakeovers | None, launch_of: Callable[[int], Launch]) -> None:
        """See ports.Takeover."""
        self.allowed = None
        if takeovers is None:
            return
        self._steps.take()
        attempts, standbys = list(takeovers.attempts), []
        for standby in takeovers.standbys:
            key = (standby.job_id, standby.attempt)
            if key not in self._world.made:
                standbys.append(standby)
            elif standby.may_be_followed:  # It took over while this was committed.
                attempts.append(key)
        self.allowed = AllowTakeovers(tuple(attempts), tuple(standbys))

    def narrow_to(self, takeovers: AllowTakeovers | None) -> None:
        """See ports.Takeover."""
        if takeovers is None or self.allowed is None:
            self.allowed = None
            return
        attempts = [one for one in self.allowed.attempts if one in takeovers.attempts]
        pairs = zip(self.allowed.standbys, takeovers.standbys, strict=False)
        standbys = [now for now, then in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        self.allowed = AllowTakeovers(tuple(attempts), tuple(standbys))

    def take_over(self, now_ms: int) -> bool:
        """See ports.Takeover: while a turn goes on, processes may end that were about to."""
        self._world.end_those_due_within(self._world.in_a_turn_ms)
        self._world.took_over_in_a_turn += self.fill_places()
        return False

    def fill_places(self) -> int:
        """Let standbys take over; how many have."""
        count = 0
        for place in self._left_places():
            assert self.allowed is not None
            if not self.allowed.standbys:
                break
            standby, *others = self.allowed.standbys
            attempts = self.allowed.attempts
            if standby.may_be_followed:
                attempts = (*attempts, (standby.job_id, standby.attempt))
            self.allowed = AllowTakeovers(attempts, tuple(others))
            self._replace(place, standby)
            count += 1
            self._steps.take()
        return count

    def _left_places(self) -> list[ev.AttemptExited]:
        """The ends of attempts whose places are to be taken, and were not yet."""
        may_be_followed = () if self.allowed is None else self.allowed.attempts
        left = [
            fact
            for fact in self._world.pending
            if isinstance(fact, ev.AttemptExited)
            and fact.exit.ok
            and fact.taken_over_by is None
            and (fact.job_id, fact.attempt) in may_be_followed
        ]
        return sorted(left, key=lambda fact: fact.job_id)

    def _replace(self, left: ev.AttemptExited, standby: Standby) -> None:
        """Start another attempt where one has ended; where that can't be done, nothing happens."""
        world, key = self._world, (standby.job_id, standby.attempt)
        if world.short or world.behaviour_of(key).cannot_start is not None:
            return
        place = world.places[left.job_id, left.attempt]
        world.start(cmd.Start(*key, place, standby.grace_ms))
        followed = replace(left, taken_over_by=key)
        world.pending = [followed if fact is left else fact for fact in world.pending]
