"""Checkpoint directories: whether attempts have brought their jobs further, and their deletion.

They may be on a slow or a hanging network file system, so a thread looks at them and deletes them,
never a turn.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from stoker.core.model import Job, Launch
from stoker.executors.attempt_dir import attempt_dir_text, metrics_text
from stoker.executors.checkpoint_dir import (
    checkpoint_text,
    empty_trash,
    last_written_ms,
    throw_away,
    written_since,
)

_WAITS_MS = 10_000  # for a look, before an attempt is taken to have made progress
_HURRIES_MS = 500  # the same before an urgent job is let in
_KNOWN_FOR_MS = 2_000
_READ_BYTES = 1 << 16  # of what an attempt has reported, from its end

Key = tuple[int, int]  # job, attempt


class Checkpoints:
    """At most one look, or one deletion, at a time."""

    def __init__(
        self,
        attempts: str,
        launch_of: Callable[[int], Launch],
        now_ms: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called by a thread when something was looked at."""
        self._attempts = attempts
        self._launch_of = launch_of
        self._now_ms = now_ms
        self._wake = wake
        self._looks: dict[Key, tuple[int, Future[bool]]] = {}  # and since when
        self._thread = ThreadPoolExecutor(1, "checkpoints")
        # The latest look at when attempts saved their work: since when, at which, what was found.
        self._saves: tuple[int, frozenset[Key], Future[dict[int, int]]] | None = None
        self._deleting = ThreadPoolExecutor(1, "deleting")

    def begin(self) -> None:
        """An earlier daemon may have been killed while it deleted some."""
        self._deleting.submit(empty_trash, self._attempts)

    def close(self) -> None:
        """Wait for nothing that hangs."""
        for thread in (self._thread, self._deleting):
            thread.shutdown(wait=False, cancel_futures=True)

    def progressed(self, job: Job) -> bool | None:
        """Whether the attempt that has just ended has brought its job further; None: not yet."""
        attempt = job.active
        assert attempt is not None
        key = (job.id, attempt.number)
        if key not in self._looks:
            path = checkpoint_text(self._attempts, job.id, self._launch_of(job.id).point)
            since_ms = attempt.started_at_ms or attempt.placed_at_ms
            look = self._thread.submit(has_progressed, self._attempts, key, path, since_ms)
            self._looks[key] = (self._now_ms(), look)
            look.add_done_callback(lambda _: self._wake())
        since_ms, look = self._looks[key]
        if not look.done():
            if 0 <= self._now_ms() - since_ms < _WAITS_MS:
                return None
            look.cancel()
        del self._looks[key]
        return not look.done() or look.cancelled() or look.exception() is not None or look.result()

    def last_saved(self, jobs: Sequence[Job]) -> dict[int, int] | None:
        """When the attempts of these jobs last wrote a checkpoint or reported a step, by job.

        None: not known yet. What can't be told soon is left out.
        """
        now_ms = self._now_ms()
        keys = frozenset((job.id, job.attempt) for job in jobs)
        if self._saves is None or not (
            keys <= self._saves[1] and 0 <= now_ms - self._saves[0] < _KNOWN_FOR_MS
        ):
            where = [
                (key, checkpoint_text(self._attempts, key[0], self._launch_of(key[0]).point))
                for key in sorted(keys)
            ]
            look = self._thread.submit(_saves, self._attempts, where)
            self._saves = (now_ms, keys, look)
            look.add_done_callback(lambda _: self._wake())
        since_ms, _, look = self._saves
        if not look.done():
            return None if now_ms - since_ms < _HURRIES_MS else {}
        return {} if look.cancelled() or look.exception() is not None else look.result()

    def delete(self, job_id: int, point: str | None) -> None:
        """Its directory is not wanted any more."""
        if throw_away(checkpoint_text(self._attempts, job_id, point)):
            self._deleting.submit(empty_trash, self._attempts)


def has_progressed(attempts: str, key: Key, path: str, since_ms: int) -> bool:
    """Whether an attempt wrote a checkpoint, or reported a further step than those before it."""
    return written_since(path, since_ms) or _reported_further(attempts, *key)


def _saves(attempts: str, where: Sequence[tuple[Key, str]]) -> dict[int, int]:
    """When each of some attempts last saved its work."""
    found = {}
    for (job_id, number), path in where:
        moments = [last_written_ms(path)]
        for reports in _reports(attempts, job_id, number):
            with suppress(OSError):
                moments.append(os.stat(reports).st_mtime_ns // 1_000_000)
        known = [at_ms for at_ms in moments if at_ms is not None]
        if known:
            found[job_id] = max(known)
    return found


def _reports(attempts: str, job_id: int, number: int) -> tuple[str, str]:
    """The files in which an attempt may have reported steps."""
    inside = f"{attempt_dir_text(attempts, job_id, number)}/metrics"
    return metrics_text(attempts, job_id, number), inside


def _reported_further(attempts: str, job_id: int, number: int) -> bool:
    step = _last_step(attempts, job_id, number)
    earlier = (_last_step(attempts, job_id, before) for before in range(1, number))
    return step is not None and step > max((s for s in earlier if s is not None), default=-1.0)


def _last_step(attempts: str, job_id: int, number: int) -> float | None:
    """The furthest step (or else epoch) of the latest reports of an attempt."""
    steps: list[float] = []
    for path in _reports(attempts, job_id, number):
        with suppress(OSError), open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _READ_BYTES))
            for line in file:
                with suppress(ValueError, TypeError, AttributeError):
                    said = json.loads(line)
                    steps.append(float(said.get("step", said.get("epoch"))))
    return max(steps, default=None)
