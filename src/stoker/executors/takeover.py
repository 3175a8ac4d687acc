"""Attempts that take the place of others: which may, and which have."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import takewhile

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit, Job, Launch
from stoker.core.takeover import AllowTakeovers, Standby
from stoker.executors.adoption import Finding, Gone, Living, NeverStarted, Past
from stoker.executors.ledger import Key
from stoker.executors.reaping import Reaping
from stoker.executors.running import Attempts, Running
from stoker.executors.starting import Starting


class Takeovers:
    """See ports.Takeover: what was allowed, and what has come of it."""

    def __init__(
        self,
        attempts: Attempts,
        starting: Starting,
        reaping: Reaping,
        past: Past,
        is_known: Callable[[Key], bool],
        observe: Callable[[int], object],
    ) -> None:
        """`observe` looks who has ended; of these, `is_known` has heard."""
        self._attempts = attempts
        self._starting = starting
        self._reaping = reaping
        self._past = past
        self._is_known = is_known
        self._observe = observe
        self._may_be_followed: set[Key] = set()
        self._standbys: deque[Standby] = deque()
        self._launch_of: Callable[[int], Launch] | None = None
        reaping.ended_well = self._replace

    def allow(self, takeovers: AllowTakeovers | None, launch_of: Callable[[int], Launch]) -> None:
        """See ports.Takeover."""
        self._launch_of = launch_of
        self._may_be_followed.clear()
        self._standbys.clear()
        if takeovers is None:
            return
        self._may_be_followed.update(takeovers.attempts)
        for standby in takeovers.standbys:
            key = (standby.job_id, standby.attempt)
            if not self._is_known(key):
                self._standbys.append(standby)
            elif standby.may_be_followed:  # It took over while this was committed.
                self._may_be_followed.add(key)

    def narrow_to(self, takeovers: AllowTakeovers | None) -> None:
        """See ports.Takeover. Those who are to be first must be first now."""
        if takeovers is None:
            self._standbys.clear()
            return
        self._may_be_followed.intersection_update(takeovers.attempts)
        pairs = zip(self._standbys, takeovers.standbys, strict=False)
        same = takewhile(lambda pair: pair[0] == pair[1], pairs)
        self._standbys = deque([standby for standby, _ in same])

    def take_over(self, now_ms: int) -> bool:
        """See ports.Takeover."""
        if not self._standbys:
            return False
        self._observe(now_ms)
        pending = self._attempts.pending
        return (
            bool(self._standbys)
            and not pending.warned
            and all(
                isinstance(fact, ev.AttemptExited) and fact.taken_over_by is not None
                for fact in pending.over_with.values()
            )
        )

    def _replace(self, ended: Running) -> None:
        """Start the next one in the place of an attempt that has ended well, if one stands by.

        One that can't be started is left to the next turn, which then gives it its place.
        """
        start = ended.start
        if start is None or self._launch_of is None or not self._standbys:
            return
        if ended.key not in self._may_be_followed:
            return
        standby = self._standbys.popleft()
        key = (standby.job_id, standby.attempt)
        if standby.may_be_followed:
            self._may_be_followed.add(key)
        try:
            launch = self._launch_of(standby.job_id)
        except Exception:
            return  # Whatever is wrong with the record: that one has ended must be told.
        gpus, labels, vendor, by_uuid = start.gpus, start.labels, start.vendor, start.uuids_only
        grace_ms, group = standby.grace_ms, start.group  # Both are of the same group.
        command = cmd.Start(*key, gpus, grace_ms, labels, vendor, uuids_only=by_uuid, group=group)
        intend = partial(self._attempts.ledger.intend, key, ended.key)
        if self._starting.make(command, launch, {}, intend=intend) is None:
            self._attempts.taken_over_by[ended.key] = key

    # ------------------------------------------------------------------ after a restart

    def adopt(self, standbys: Iterable[Job], now_ms: int) -> None:
        """See ports.Takeover. Some had taken over, or were about to, when the daemon was killed."""
        self._attempts.now_ms = now_ms
        taken_over: list[tuple[Job, Key]] = []
        for job in standbys:
            key = (job.id, job.attempt + 1)
            followed = self._past.taken_over_by(key)
            if followed is not None:
                self._attempts.taken_over_by[followed] = key
                taken_over.append((job, followed))
        for job, followed in taken_over:
            self._adopt(job, followed)

    def _adopt(self, job: Job, followed: Key) -> None:
        attempts, key = self._attempts, (job.id, job.attempt + 1)
        found, now_ms = self._past.find(key, attempts.marker(key), False), attempts.now_ms
        if key in attempts.taken_over_by:
            end_of_followed(attempts, key, found)
        elif isinstance(found, NeverStarted):
            del attempts.taken_over_by[followed]  # It came to nothing.
        elif isinstance(found, Living):
            attempts.tell(ev.AttemptStarted(now_ms, *key, found.process.pid))
            self._reaping.watch(key, found.process, False, True, job.terms.grace_ms)
        elif not isinstance(found, Gone) or found.exit is None:
            why = found.why if isinstance(found, Gone) else "it can't be seen from here"
            attempts.tell(ev.AttemptVanished(now_ms, *key, why))
        else:
            attempts.exited(key, found.exit, None, min(found.at_ms or now_ms, now_ms))


def end_of_followed(attempts: Attempts, key: Key, found: Finding) -> None:
    """Tell the end of one whose place was taken, which is done only where it ended well."""
    how, at_ms = Exit(code=0), None
    if isinstance(found, Gone) and found.exit is not None:
        how, at_ms = found.exit, found.at_ms
    attempts.exited(key, how, None, min(at_ms or attempts.now_ms, attempts.now_ms))
