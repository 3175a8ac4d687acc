"""What the reader of metrics is told: which attempts it follows, and which it reads once.

The reader is a process of its own (stoker.metrics.reader), so that no log is read in the loop that
starts jobs. It is started when there is something to read, and ends when there has been nothing for
a while. Followed while they run are the attempts whose user has asked for it: by --metric or
--metrics-from, as points of a sweep, or by asking for their metrics. All others can be read later,
since logs are kept; they are read when they are asked for, and before their logs are deleted.

Nothing here is on record. What was not read when a daemon ends is found unread by the next.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from stoker import command_lines
from stoker.api.paths import Home
from stoker.core.model import JobState
from stoker.daemon import companions
from stoker.daemon.browsing import Browsing
from stoker.daemon.loop import TurnLoop
from stoker.daemon.show import log_of
from stoker.errors import StokerError
from stoker.executors.attempt_dir import attempt_dir_text, metrics_text
from stoker.metrics.lookup import Lookup
from stoker.metrics.spec import Key, Spec, folder_of, run_of
from stoker.output_files import filled
from stoker.store.browsing import Browser

log = logging.getLogger("stoker.daemon")

PATIENCE_S = 10.0  # for a question, before it is answered with what there is
_BEFORE_DELETION_S = 600.0
_EVERY_S = 1.0
_IDLE_S = 60.0
_MOST_IN_A_PASS = 200
_MOST_ENDED = 10_000
_MOST_IN_A_LINE = 500
_LONGEST_LINE = 1 << 24
_MOST_FAILURES = 3  # in a row, before what is to be read only once is given up
_LONGEST_PAUSE_S = 60.0


class Readings:
    """At most one reader at a time, and what it has to do."""

    def __init__(self, turn_loop: TurnLoop, browsing: Browsing, home: Home) -> None:
        self.kept = Lookup(os.path.join(home.root, "metrics.db"))
        self._turn_loop = turn_loop
        self._browsing = browsing
        self._home = home
        self._handed: dict[Key, Spec] = {}  # what is followed, and what has ended and is not read
        self._fresh: set[Key] = set()  # of what is followed: it was read and stored
        self._not_asked_for: set[Key] = set()  # that run, and need not be looked up again
        self._ended: list[Key] = []  # that no pass has seen while they ran
        self._may_be_some = False  # that are to be followed
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.Task[None] | None = None
        self._deletion: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._failures = 0
        self._done = asyncio.Event()  # Something was read. Those who wait set a new one.

    def begin(self) -> None:
        """An earlier daemon may have started some."""
        self._may_be_some = bool(self._turn_loop.state.jobs)
        self._set_timer()

    def close(self) -> None:
        """The daemon ends, and so does the reader, when it hears that."""
        for timer in (self._timer, self._idle):
            if timer is not None:
                timer.cancel()
        if self._writer is not None:
            self._writer.close()

    def expect_some(self) -> None:
        """A job was queued that is to be followed."""
        self._may_be_some = True

    # ------------------------------------------------------------------ what runs

    def after_turn(self) -> None:
        """See to what has ended, and look soon at what may have started."""
        committed = self._turn_loop.engine.committed
        if committed.removed and os.path.exists(self.kept.path):
            self._tell({"removed": True})
        if not self._may_be_some or not committed:
            return
        for ended in committed.ended:
            if ended.attempt is None:
                continue
            key = (ended.job.id, ended.attempt.number)
            if key in self._handed:
                self._hand_over([self._handed[key]])
            elif key in self._not_asked_for:
                self._not_asked_for.discard(key)
            elif len(self._ended) < _MOST_ENDED:
                self._ended.append(key)
        if self._timer is None:
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._pass)

    def _pass(self) -> None:
        self._timer = None
        if self._may_be_some:
            self._look = asyncio.get_running_loop().create_task(self._look_at_new())

    async def _look_at_new(self) -> None:
        """Hand over what is to be followed, and what was and has ended before it was seen."""
        state, most = self._turn_loop.state, _MOST_IN_A_PASS
        jobs = [state.jobs[job_id] for job_id in state.active]
        placed = {(job.id, job.attempt) for job in jobs}
        # Some ways to end leave no trace of the attempt, which is then as if it had never been.
        over = [spec for key, spec in self._handed.items() if not spec.ended and key not in placed]
        self._hand_over(over)
        active = {(job.id, job.attempt) for job in jobs if job.state is not JobState.SUBMITTED}
        self._not_asked_for &= active
        new = [key for key in active - self._not_asked_for if key not in self._handed]
        keys = [*new[:most], *self._ended[:most]]
        del self._ended[:most]
        try:
            asked = await self._browsing.read(lambda browser: self._specs(browser, keys, all=False))
        except StokerError as error:
            log.warning("it can't be looked up whose metrics are to be read: %s", error)
            return
        self._hand_over(asked)
        self._not_asked_for |= active.intersection(keys).difference(spec.key for spec in asked)
        if self._timer is None and (self._ended or len(new) > most):
            self._set_timer()

    def _specs(self, browser: Browser, keys: Sequence[Key], *, all: bool) -> list[Spec]:
        """Where the metrics of attempts are; without `all`, of those that are to be followed."""
        ids = [job_id for job_id, _ in keys]
        rows = {row["id"]: row for row in browser.outputs(ids)}
        put_back = browser.put_back([job_id for job_id, attempt in keys if attempt > 1])
        found = []
        for key in keys:
            row = rows.get(key[0])
            if row is not None and (all or _is_asked_for(row)):
                spec = _spec(row, key, self._home.attempts)
                before = key[1] - 1
                goes_on = before in put_back.get(key[0], ())
                found.append(replace(spec, after=before if goes_on else None))
        return found

    # ------------------------------------------------------------------ questions

    async def read(
        self, job_ids: Sequence[int], attempt: int | None = None, patience_s: float = PATIENCE_S
    ) -> int:
        """Have an attempt, or the latest run, of each job read; how many attempts are not yet."""
        latest, put_back, whole = await self._browsing.read(
            lambda browser: (
                browser.latest_attempts(job_ids),
                browser.put_back(job_ids),
                self.kept.whole(job_ids),
            )
        )
        if attempt is None:
            keys = [
                (job_id, one)
                for job_id, number in latest
                for one in run_of(number, put_back.get(job_id, ()))
            ]
        else:
            keys = [(job_id, attempt) for job_id, number in latest if attempt <= number]
        return await self._read([key for key in keys if key not in whole], patience_s)

    async def _read(self, keys: Sequence[Key], patience_s: float) -> int:
        missing = [key for key in keys if key not in self._handed]
        if missing:
            self._hand_over(
                await self._browsing.read(lambda browser: self._specs(browser, missing, all=True))
            )
        until_s = time.monotonic() + patience_s
        while unread := sum(key in self._handed and key not in self._fresh for key in keys):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                break
            if self._done.is_set():
                self._done = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._done.wait()
        return unread

    def is_read_before_deletion(self, keys: Sequence[Key]) -> bool:
        """Whether logs can be deleted now. If not, they are being read: the same is asked again."""
        if self._deletion is None:
            self._deletion = asyncio.get_running_loop().create_task(self._read_all(keys))
            return False
        if not self._deletion.done():
            return False
        self._deletion = None
        return True

    async def _read_all(self, keys: Sequence[Key]) -> None:
        try:
            job_ids = [job_id for job_id, _ in keys]
            whole = await self._browsing.read(lambda browser: self.kept.whole(job_ids))
            await self._read([key for key in keys if key not in whole], _BEFORE_DELETION_S)
        except StokerError as error:  # The disk's room matters more.
            log.warning("logs are deleted whose metrics could not be read: %s", error)

    # ------------------------------------------------------------------ the reader

    def _hand_over(self, specs: Iterable[Spec]) -> None:
        """Let the reader have these, as it is with them now."""
        state = self._turn_loop.state
        some = []
        for spec in specs:
            job = state.jobs.get(spec.job)
            runs = job is not None and job.active is not None and job.attempt == spec.attempt
            some.append(replace(spec, ended=not runs))
            self._may_be_some = self._may_be_some or runs
        self._handed |= {spec.key: spec for spec in some}
        self._fresh.difference_update(spec.key for spec in some)
        for at in range(0, len(some), _MOST_IN_A_LINE):
            self._tell({"read": [one.to_wire() for one in some[at : at + _MOST_IN_A_LINE]]})

    def _tell(self, message: dict[str, Any]) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._writer is not None:
            self._writer.write(json.dumps(message).encode() + b"\n")
        elif self._reader is None:
            self._start()

    def _start(self) -> None:
        self._reader = asyncio.get_running_loop().create_task(self._life_of_a_reader())

    async def _life_of_a_reader(self) -> None:
        try:
            command = command_lines.reader(self._home.root)
            pidfd, connection = companions.start_with_socket(command, self._home.root)
        except OSError as error:
            log.warning("metrics can't be read now: %s", error)
        else:
            reader, self._writer = await asyncio.open_connection(
                sock=connection, limit=_LONGEST_LINE
            )
            waiting = [spec.to_wire() for spec in self._handed.values()]
            for at in range(0, len(waiting), _MOST_IN_A_LINE):
                self._tell({"read": waiting[at : at + _MOST_IN_A_LINE]})
            self._rest_if_idle()
            with suppress(OSError, ValueError):
                while line := await reader.readline():
                    self._heard(json.loads(line)["done"])
            self._writer.close()
            self._writer = None
            await _end_of(pidfd)
        self._reader = None
        if self._handed:
            self._try_again()

    def _heard(self, done: Sequence[tuple[int, int, bool]]) -> None:
        self._failures = 0
        for job_id, attempt, whole in done:
            key = (job_id, attempt)
            spec = self._handed.get(key)
            if spec is not None and not spec.ended:
                self._fresh.add(key)
            elif whole:
                self._handed.pop(key, None)
                self._fresh.discard(key)
        self._done.set()
        self._rest_if_idle()

    def _rest_if_idle(self) -> None:
        if not self._handed and self._idle is None and self._writer is not None:
            self._idle = asyncio.get_running_loop().call_later(_IDLE_S, self._writer.close)

    def _try_again(self) -> None:
        """The reader has died with work to do: its next gets all of it, but not for ever."""
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            given_up = [key for key, spec in self._handed.items() if spec.ended]
            log.warning("the metrics of %d attempts can't be read: see above", len(given_up))
            for key in given_up:
                del self._handed[key]
            self._done.set()
        self._fresh.clear()
        pause_s = min(0.5 * 2**self._failures, _LONGEST_PAUSE_S)
        asyncio.get_running_loop().call_later(pause_s, self._start_again)

    def _start_again(self) -> None:
        if self._handed and self._reader is None:
            self._start()


def _is_asked_for(row: dict[str, Any]) -> bool:
    options = row["launch"].get("options") or {}
    return bool(row["in_sweep"] or options.get("metric") or options.get("metrics_from"))


def _spec(row: dict[str, Any], key: Key, attempts: str) -> Spec:
    launch, name = row["launch"], row["name"]
    options, err = launch.get("options") or {}, launch.get("err")
    return Spec(
        *key,
        log=log_of(launch, name, attempts, *key, bool(row["executor"])),
        err=err and filled(err, key[0], name, key[1]),
        folder=folder_of(options.get("metrics_from"), launch["cwd"], key, name, row["params"]),
        reports=(f"{attempt_dir_text(attempts, *key)}/metrics", metrics_text(attempts, *key)),
        patterns=tuple(options.get("metric") or ()),
        far=bool(row["executor"]),
    )


async def _end_of(pidfd: int) -> None:
    """Wait until a child has ended, and reap it."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    loop.add_reader(pidfd, ended.set_result, None)
    try:
        await ended
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
