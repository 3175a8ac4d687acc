"""Which running jobs have a bound for their log (--max-log), and when to look at them.

Nothing is done for it when a job starts: a pass over what runs comes a moment after something has
changed, and every second while there is such a job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from stoker.core.model import Launch
from stoker.daemon.loop import TurnLoop
from stoker.executors.attempt_dir import log_found
from stoker.executors.log_cap import CantPunch, cut

log = logging.getLogger("stoker.daemon")

_EVERY_S = 1.0
_MOST_ASKED_IN_A_PASS = 100

_Key = tuple[int, int]


@dataclass(slots=True)
class LogCaps:
    """Looks at the logs of running jobs."""

    turn_loop: TurnLoop
    launch_of: Callable[[int], Launch]
    attempts: str
    _known: dict[_Key, int] = field(default_factory=dict)  # the bound in MiB; 0: none
    _some_are_bound: bool = False
    _timer: asyncio.TimerHandle | None = None
    _told: bool = False

    def begin(self) -> None:
        """An earlier daemon may have started some."""
        self._set_timer()

    def after_turn(self) -> None:
        """Look soon at what may have started, and once more at what has ended."""
        committed = self.turn_loop.engine.committed
        for ended in committed.ended if self._some_are_bound else ():
            if ended.attempt is not None:
                key = (ended.job.id, ended.attempt.number)
                self._cut(key, self._known.pop(key, 0))
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
        known: dict[_Key, int] = {}
        asked, more = 0, False
        for job_id in state.active:
            job = state.jobs[job_id]
            key = (job_id, job.attempt)
            if key not in self._known:
                if asked == _MOST_ASKED_IN_A_PASS:
                    more = True
                    continue
                asked += 1
            known[key] = self._bound(key)
        self._known = known
        self._some_are_bound = any(known.values())
        for key, most_mib in known.items():
            self._cut(key, most_mib)
        return more or self._some_are_bound

    def _bound(self, key: _Key) -> int:
        found = self._known.get(key)
        if found is None:
            found = int(str(self.launch_of(key[0]).options.get("max_log_mib") or 0))
        return found

    def _cut(self, key: _Key, most_mib: int) -> None:
        if not most_mib:
            return
        try:
            cut(log_found(self.attempts, *key), most_mib)
        except CantPunch as error:
            if not self._told:
                self._told = True
                log.warning("the disk of %s can't shorten logs (--max-log): %s",
                            self.attempts, error)  # fmt: skip
        except OSError as error:
            log.debug("the log of attempt %s can't be looked at: %s", key, error)
