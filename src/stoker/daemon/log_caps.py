"""Which jobs have a bound for their log (--max-log, or the setting), and when to look at them.

Nothing is done for it when a job starts: a pass over what runs comes a moment after something has
changed, and every second while there is such a job. A job that came and went in between is looked
at after its end.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from stoker.core.model import Launch
from stoker.daemon.loop import TurnLoop
from stoker.executors.attempt_dir import log_found
from stoker.executors.log_cap import CantPunch, cut
from stoker.executors.spawn import named_files
from stoker.ports import BrokenRecord

log = logging.getLogger("stoker.daemon")

_EVERY_S = 1.0
_MOST_ASKED_IN_A_PASS = 100
_MOST_ENDED = 10_000

_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Bound:
    """So much of each of these files is kept."""

    most_mib: int = 0
    paths: tuple[str, ...] = ()


@dataclass(slots=True)
class LogCaps:
    """Looks at the logs of jobs that run, or have just ended."""

    turn_loop: TurnLoop
    launch_of: Callable[[int], Launch]
    attempts: str
    _default_mib: int = 0
    _known: dict[_Key, _Bound] = field(default_factory=dict)
    _ended: list[_Key] = field(default_factory=list)  # that no pass has seen while they ran
    _may_be_bound: bool = False  # a job of this daemon or an earlier one
    _timer: asyncio.TimerHandle | None = None
    _told: bool = False

    def begin(self) -> None:
        """An earlier daemon may have started some."""
        self._may_be_bound = bool(self.turn_loop.state.jobs)
        self._set_timer()

    def take(self, default_mib: int) -> None:
        """The bound of jobs without --max-log counts from now on; 0: none."""
        self._default_mib = default_mib
        self._known.clear()

    def expect_some(self) -> None:
        """A job with a bound was queued."""
        self._may_be_bound = True

    def after_turn(self) -> None:
        """Look soon at what may have started, and once more at what has ended."""
        committed = self.turn_loop.engine.committed
        if committed.edited or committed.retried:
            self._may_be_bound = True
        for ended in committed.ended if self._may_be_bound or self._default_mib else ():
            if ended.attempt is not None and not ended.job.terms.executor:
                key = (ended.job.id, ended.attempt.number)
                bound = self._known.pop(key, None)
                if bound is not None:
                    self._cut(key, bound)
                elif len(self._ended) < _MOST_ENDED:
                    self._ended.append(key)
        if self._timer is None and committed:
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._pass)

    def _pass(self) -> None:
        self._timer = None
        if self.look():
            self._set_timer()

    def look(self) -> bool:
        """One pass; whether there is to be another although nothing else happens."""
        state = self.turn_loop.state
        known: dict[_Key, _Bound] = {}
        asked, more = 0, False
        for job_id in state.active:
            job = state.jobs[job_id]
            key = (job_id, job.attempt)
            if key not in self._known:
                if asked == _MOST_ASKED_IN_A_PASS:
                    more = True
                    continue
                asked += 1
            known[key] = self._known.get(key) or self._bound(key, bool(job.terms.executor))
        self._known = known
        for key, bound in known.items():
            self._cut(key, bound)
        most = _MOST_ASKED_IN_A_PASS
        ended, self._ended = self._ended[:most], self._ended[most:]
        for key in ended:
            self._cut(key, self._bound(key))
        more = more or bool(self._ended)
        return more or any(bound.most_mib for bound in known.values())

    def _bound(self, key: _Key, elsewhere: bool = False) -> _Bound:
        try:
            launch = named_files(self.launch_of(key[0]), *key)
        except BrokenRecord:  # It was removed meanwhile.
            return _Bound()
        said = launch.options.get("max_log_mib")  # 0: all of it is kept, whatever the setting.
        most_mib = self._default_mib if said is None else int(str(said))
        if elsewhere or not most_mib:
            return _Bound()
        paths = [] if launch.out is not None else [log_found(self.attempts, *key)]
        # A file that the user has named is cut only if they said so of this job, and if nothing
        # was in it before.
        if said and launch.err is not None and not launch.options.get("append"):
            paths.append(os.path.realpath(launch.err))
        return _Bound(most_mib, tuple(paths))

    def _cut(self, key: _Key, bound: _Bound) -> None:
        for path in bound.paths:
            try:
                cut(path, bound.most_mib)
            except CantPunch as error:
                if not self._told:
                    self._told = True
                    log.warning("the disk of %s can't shorten logs (--max-log): %s", path, error)
            except OSError as error:
                log.debug("the log of attempt %s can't be looked at: %s", key, error)
