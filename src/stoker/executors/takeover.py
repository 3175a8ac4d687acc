"""Attempts that take the place of others: which may, and which have."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit, Job, Launch
from stoker.executors.adoption import Finding, Gone, Living, NeverStarted, Past
from stoker.executors.ledger import Key
from stoker.executors.reaping import Reaping
from stoker.executors.running import Attempts, Running
from stoker.executors.starting import Starting


class Takeovers:
    """What was allowed, and what has come of it."""

    def __init__(
        self,
        attempts: Attempts,
        starting: Starting,
        reaping: Reaping,
        is_known: Callable[[Key], bool],
    ) -> None:
        self._attempts = attempts
        self._starting = starting
        self._reaping = reaping
        self._is_known = is_known
        self._may_be_relieved: set[Key] = set()
        self._standbys: deque[cmd.Standby] = deque()
        self._launch_of: Callable[[int], Launch] | None = None
        reaping.ended_well = self._replace

    def allow(self, commands: Iterable[cmd.Command], launch_of: Callable[[int], Launch]) -> None:
        """Take the order, if there is one; any other does not hold any more.

        Some of the standbys may have taken over while it was committed, and are known.
        """
        self._launch_of = launch_of
        self._may_be_relieved.clear()
        self._standbys.clear()
        for command in commands:
            if isinstance(command, cmd.Relieve):
                self._may_be_relieved.update(command.attempts)
                for standby in command.standbys:
                    key = (standby.job_id, standby.attempt)
                    if not self._is_known(key):
                        self._standbys.append(standby)
                    elif standby.may_be_relieved:
                        self._may_be_relieved.add(key)

    def keep_to(self, order: cmd.Relieve | None) -> None:
        """See ports.Executor. Those who are to be first must be first now."""
        if order is None:
            self._standbys.clear()
            return
        self._may_be_relieved.intersection_update(order.attempts)
        pairs = zip(self._standbys, order.standbys, strict=False)
        alike = takewhile(lambda pair: pair[0] == pair[1], pairs)
        self._standbys = deque([standby for standby, _ in alike])

    def __bool__(self) -> bool:
        """Whether any job stands by."""
        return bool(self._standbys)

    def _replace(self, ended: Running) -> None:
        """Start the next one in the place of an attempt that has ended well, if one stands by.

        One that can't be started is left to the next turn, which then gives it its place.
        """
        start = ended.start
        if start is None or self._launch_of is None or not self._standbys:
            return
        if ended.key not in self._may_be_relieved:
            return
        standby = self._standbys.popleft()
        key = (standby.job_id, standby.attempt)
        if standby.may_be_relieved:
            self._may_be_relieved.add(key)
        try:
            launch = self._launch_of(standby.job_id)
        except Exception:
            return  # Whatever is wrong with the record: that one has ended must be told.
        command = cmd.Start(*key, start.gpus, standby.grace_ms, start.labels, start.maker)
        if self._starting.make(command, launch, {}, relieves=ended.key) is None:
            self._attempts.relieved_by[ended.key] = key

    # ------------------------------------------------------------------ after a restart

    def adopt(self, standbys: Iterable[Job], past: Past) -> None:
        """Some of these took the place of others, or were about to, when the daemon was killed."""
        taken_over: list[tuple[Job, Key]] = []
        for job in standbys:
            key = (job.id, job.attempt + 1)
            relieved = past.relieved_by(key)
            if relieved is not None:
                self._attempts.relieved_by[relieved] = key
                taken_over.append((job, relieved))
        for job, relieved in taken_over:
            self._adopt(job, relieved, past)

    def _adopt(self, job: Job, relieved: Key, past: Past) -> None:
        attempts, key = self._attempts, (job.id, job.attempt + 1)
        found, now_ms = past.find(key, attempts.marker(key), False), attempts.now_ms
        if key in attempts.relieved_by:
            self.adopt_relieved(key, found)
        elif isinstance(found, NeverStarted):
            del attempts.relieved_by[relieved]  # It came to nothing.
        elif isinstance(found, Living):
            attempts.tell(ev.AttemptStarted(now_ms, *key, found.process.pid))
            self._reaping.watch(key, found.process, False, True, job.terms.grace_ms)
        elif not isinstance(found, Gone) or found.exit is None:
            why = found.why if isinstance(found, Gone) else "it can't be seen from here"
            attempts.tell(ev.AttemptVanished(now_ms, *key, why))
        else:
            attempts.exited(key, found.exit, None, min(found.at_ms or now_ms, now_ms))

    def adopt_relieved(self, key: Key, found: Finding) -> None:
        """Tell the end of one whose place was taken, which is done only where it ended well."""
        how, at_ms, now_ms = Exit(code=0), None, self._attempts.now_ms
        if isinstance(found, Gone) and found.exit is not None:
            how, at_ms = found.exit, found.at_ms
        self._attempts.exited(key, how, None, min(at_ms or now_ms, now_ms))
