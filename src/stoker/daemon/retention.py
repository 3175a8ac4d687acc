"""What is over is deleted when it is old: jobs, logs, checkpoints, calls and their results.

By default only calls and results are: after a week, or when they take too much room.

A pass does a bounded amount of work, and the next comes after a pause, so that no request waits
for a hundred thousand old logs. While nothing is to be deleted, it looks once in a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stoker.api.paths import Home
from stoker.core import events as ev
from stoker.core.state import State
from stoker.daemon.kept_calls import KeptCalls
from stoker.daemon.loop import TurnLoop
from stoker.engine import Decided
from stoker.errors import NoUnit, UsageError
from stoker.executors.attempt_dir import delete_files
from stoker.ports import StoreFailed
from stoker.quantities import positive_duration_ms, quoted, size_mib
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Views

log = logging.getLogger("stoker.daemon")

MOST_IN_A_PASS = 100
_BETWEEN_PASSES_S = 0.5
_LOOK_AGAIN_S = 600.0
_CLEARED = "logs_cleared"  # up to which job, by its end and id, logs were deleted
_CHECKPOINTS_CLEARED = "checkpoints_cleared"
_CALLS_CLEARED = "calls_cleared"


@dataclass(frozen=True, slots=True)
class Retention:
    """For how long what is over is kept, in ms; None: for ever."""

    jobs_ms: int | None = None
    logs_ms: int | None = None
    results_ms: int | None = None
    checkpoints_ms: int | None = None
    results_bytes: int | None = None  # how much of them is kept at most


def kept_for_ms(text: str) -> int | None:
    """ "30d", or "off": for ever."""
    if text.strip().lower() == "off":
        return None
    try:
        return positive_duration_ms(text, likely="dh")
    except NoUnit:
        raise
    except UsageError:
        raise UsageError(f"{quoted(text)} is not understood", "write e.g. 30d or off") from None


_SIZES = frozenset("KMGTBkgtb")  # their last letters; 30m are minutes


def results_kept(text: str) -> tuple[int | None, int | None]:
    """For how long, and how much at most: "7d,10G", or one of them; "off": all."""
    kept_ms = most_bytes = None
    for part in text.split(",") if text.strip().lower() != "off" else ():
        word = part.strip()
        if word[-1:] in _SIZES and word[:1].isdecimal() and most_bytes is None:
            most_bytes = size_mib(word) << 20
        elif kept_ms is None:
            kept_ms = kept_for_ms(word)
        else:
            raise UsageError(f"{quoted(text)} is not understood", "write e.g. 7d,10G or off")
    return kept_ms, most_bytes


class _EndedCall(NamedTuple):
    ended_ms: int
    job_id: int
    path: str
    attempts: int


class Clearing:
    """Deletes what is older than was set."""

    def __init__(
        self,
        turn_loop: TurnLoop,
        views: Views,
        store: SqliteStore,
        home: Home,
        is_read: Callable[[Sequence[tuple[int, int]]], bool],
        delete_checkpoints: Callable[[int, str | None], None],
        kept_calls: KeptCalls,
    ) -> None:
        """`is_read`: whether the metrics of attempts are kept; if not, it is asked again later.

        `delete_checkpoints` of a job, or of the point that it was.
        """
        self._delete_checkpoints_of = delete_checkpoints
        self.kept_calls = kept_calls
        self._is_read = is_read
        self._turn_loop = turn_loop
        self._views = views
        self._store = store
        self._home = home
        self._retention = Retention()
        self._cleared = _pair(store.settings().get(_CLEARED, ""))
        self._checkpoints_cleared = _pair(store.settings().get(_CHECKPOINTS_CLEARED, ""))
        self._calls_cleared = _pair(store.settings().get(_CALLS_CLEARED, ""))
        self._awaited: list[_EndedCall] = []  # those that could not be deleted before
        self._timer: asyncio.TimerHandle | None = None
        self._begun = False

    def take(self, retention: Retention) -> None:
        """What was set counts from now on."""
        self._retention = retention
        self.kept_calls.look_anew()
        if self._begun:
            self._set_timer(0.0)

    def begin(self) -> None:
        """The loop runs."""
        self._begun = True
        self._set_timer(_BETWEEN_PASSES_S)

    def _set_timer(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._retention != Retention():
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._pass)

    def _pass(self) -> None:
        self._timer = None
        more = False
        try:
            more = self.clear()
        except StoreFailed as failure:
            log.warning("what is old can't be cleared now: %s", failure)
        self._set_timer(_BETWEEN_PASSES_S if more else _LOOK_AGAIN_S)

    def clear(self) -> bool:
        """One pass; whether there is more to do."""
        kept, now_ms = self._retention, self._turn_loop.now_ms()
        deleted = [0]
        if kept.jobs_ms is not None:
            deleted.append(self._remove_jobs(now_ms - kept.jobs_ms))
        if kept.logs_ms is not None:
            deleted.append(self._delete_logs(now_ms - kept.logs_ms))
        if kept.results_ms is not None or kept.results_bytes is not None:
            deleted.append(self._delete_calls(now_ms))
        if kept.checkpoints_ms is not None:
            deleted.append(self._delete_checkpoints(now_ms - kept.checkpoints_ms))
        return max(deleted) >= MOST_IN_A_PASS

    def _remove_jobs(self, before_ms: int) -> int:
        ids = self._views.ended_before(before_ms, MOST_IN_A_PASS)

        def proposal(state: State) -> Decided:
            # One or the other may have been queued again by now.
            gone = tuple(job_id for job_id in ids if job_id not in state.jobs)
            return Decided([ev.JobsRemoved(state.now_ms, gone)])

        if ids:
            log.info("%d jobs are removed that ended long ago (keep-jobs)", len(ids))
            self._turn_loop.ask(proposal, lambda answer: None)
        return len(ids)

    def _delete_logs(self, before_ms: int) -> int:
        found = self._views.ended_between(self._cleared, before_ms, MOST_IN_A_PASS)
        keys = [(job_id, number + 1) for _, job_id, attempts in found for number in range(attempts)]
        if keys and not self._is_read(keys):
            return MOST_IN_A_PASS
        for key in keys:
            delete_files(self._home.attempts, *key)
        if found:
            self._cleared = found[-1][:2]
            self._store.set_setting(_CLEARED, "{} {}".format(*self._cleared))
        return len(found)

    def _delete_checkpoints(self, before_ms: int) -> int:
        """Those of a point go with the last job that was at it."""
        after = self._checkpoints_cleared
        found = self._views.ended_between(after, before_ms, MOST_IN_A_PASS)
        points = self._views.points_of([job_id for _, job_id, _ in found])
        latest = self._views.at_points([point for point in points.values() if point is not None])
        for _, job_id, attempts in found:
            point = points.get(job_id)
            if attempts and (point is None or latest[point][0] == job_id):
                self._delete_checkpoints_of(job_id, point)
        if found:
            self._checkpoints_cleared = found[-1][:2]
            self._store.set_setting(_CHECKPOINTS_CLEARED, "{} {}".format(*found[-1][:2]))
        return len(found)

    def _delete_calls(self, now_ms: int) -> int:
        """Those that are old, and the oldest of all as long as they take too much room.

        What is awaited is spared, and looked at again in the next pass.
        """
        is_looking = self.kept_calls.look()
        again, self._awaited = self._awaited, []
        self._delete_or_await(again)
        kept_ms = self._retention.results_ms
        old_ms = 0 if kept_ms is None else now_ms - kept_ms
        before_ms = now_ms + 1 if self._too_much_is_kept() else old_ms
        found = self._views.ended_between(self._calls_cleared, before_ms, MOST_IN_A_PASS)
        calls = self._views.calls_of([job_id for _, job_id, _ in found])
        for ended_ms, job_id, attempts in found:
            if ended_ms >= old_ms and not self._too_much_is_kept():
                break
            self._calls_cleared = (ended_ms, job_id)
            if job_id in calls:
                self._delete_or_await([_EndedCall(ended_ms, job_id, calls[job_id], attempts)])
        if found:
            first = min(self._awaited, default=None)
            known = self._calls_cleared if first is None else (first.ended_ms, first.job_id - 1)
            self._store.set_setting(_CALLS_CLEARED, "{} {}".format(*known))
        return MOST_IN_A_PASS if is_looking else len(found)

    def _too_much_is_kept(self) -> bool:
        most = self._retention.results_bytes
        return most is not None and self.kept_calls.total_bytes > most

    def _delete_or_await(self, calls: Sequence[_EndedCall]) -> None:
        for call in calls:
            if call.job_id in self._turn_loop.state.jobs:
                continue  # It was retried.
            if self.kept_calls.delete(call.path, call.attempts) is None:
                self._awaited.append(call)


def _pair(text: str) -> tuple[int, int]:
    first, _, second = text.partition(" ")
    return (int(first), int(second)) if first.isdecimal() and second.isdecimal() else (0, 0)
