"""Long lists for front ends: read by a thread of its own, so that no turn waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stoker.api import messages as msg
from stoker.core.forecast import expected_starts
from stoker.core.model import QUEUED, JobState
from stoker.core.reasons import outcome_words, words
from stoker.core.state import State
from stoker.daemon import sweep_tables
from stoker.daemon.cluster import StandingOf, at_cluster
from stoker.daemon.loop import Rounds
from stoker.daemon.server import Connection
from stoker.daemon.show import Expect, Reasons, counts
from stoker.errors import Failed, StokerError, UsageError
from stoker.quantities import quoted
from stoker.store.browsing import Browser, Known, Wanted, Window
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Views, outcome_of

log = logging.getLogger("stoker.daemon")

_ALL_STATES = [state.value for state in JobState]
_MOST_WAITING = 32

Found = TypeVar("Found")


@dataclass(slots=True)
class Browsing:
    """Answers what is read from the record alone, one question after the other."""

    rounds: Rounds
    store: SqliteStore
    views: Views
    browser: Browser
    version: Callable[[], int]
    standing: StandingOf
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="stoker-browse")
    )
    _waiting: int = 0

    def close(self) -> None:
        """Answer nothing more."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self.browser.close()

    def browse(self, request: msg.Browse, connection: Connection) -> None:
        """See api.messages.Browse."""
        for name in request.states:
            if name not in _ALL_STATES:
                raise UsageError(
                    f"there is no state {quoted(name)}", f"use one of {', '.join(_ALL_STATES)}"
                )
        wanted = Wanted(
            request.states,
            request.group,
            request.user,
            request.text,
            request.sort,
            request.descending,
            request.offset,
            request.limit,
        )
        version, now_ms = self.version(), self.rounds.now_ms()

        def found(window: Window) -> None:
            jobs = self._with_reasons(window.rows)
            connection.answer(jobs=jobs, total=window.total, version=version)

        known = self._known()
        self._read(lambda: self.browser.window(wanted, now_ms, known), found, connection)

    def attempts(self, request: msg.Attempts, connection: Connection) -> None:
        """See api.messages.Attempts."""
        now_ms = self.rounds.now_ms()

        def found(rows: list[dict[str, Any]]) -> None:
            self._name_gpus(rows)
            more = len(rows) > request.limit
            connection.answer(attempts=rows[: request.limit], more=more, now_ms=now_ms)

        self._read(
            lambda: self.browser.attempts_since(request.since_ms, request.limit + 1),
            found,
            connection,
        )

    def forecast(self, request: msg.Forecast, connection: Connection) -> None:
        """See api.messages.Forecast."""
        state = self.rounds.state
        starts = []
        if not self.rounds.engine.starts_nothing:
            starts = expected_starts(state, Expect(self.views), request.limit)

        def found(names: dict[int, str | None]) -> None:
            connection.answer(
                starts=[
                    {
                        "id": start.job_id,
                        "name": names.get(start.job_id),
                        "gpus": state.shown_gpus(start.gpus),
                        "starts_at_ms": start.starts_at_ms,
                        "ends_at_ms": start.ends_at_ms,
                    }
                    for start in starts
                ],
                now_ms=state.now_ms,
            )

        ids = [start.job_id for start in starts]
        self._read(lambda: self.browser.names(ids), found, connection)

    def groups(self, connection: Connection) -> None:
        """See api.messages.Groups."""

        def found(counts: dict[str, dict[str, int]]) -> None:
            known = self.rounds.state.groups
            bare = [g for g in known.values() if g.name not in counts]
            names = [g.name for g in bare if g.paused or g.max_running is not None]
            answer = []
            for name in [*names, *counts]:
                group = known.get(name)
                answer.append(
                    {
                        "group": name,
                        "paused": group is not None and group.paused,
                        "max_running": None if group is None else group.max_running,
                        "counts": counts.get(name, {}),
                    }
                )
            connection.answer(groups=answer)

        self._read(self.browser.groups, found, connection)

    def sweeps(self, request: msg.Sweeps, connection: Connection) -> None:
        """See api.messages.Sweeps."""
        self._read(
            lambda: self.browser.sweeps(request.limit),
            lambda sweeps: connection.answer(sweeps=sweeps),
            connection,
        )

    def sweep_points(self, request: msg.SweepPoints, connection: Connection) -> None:
        """See api.messages.SweepPoints."""

        def found(answer: dict[str, Any]) -> None:
            self._name_gpus(answer["points"])
            connection.answer(**answer)

        self._read(
            lambda: self.browser.sweep(request.sweep, request.offset, request.limit),
            found,
            connection,
        )

    def _name_gpus(self, rows: list[dict[str, Any]]) -> None:
        """GPUs by the names that people know them by."""
        for row in rows:
            row["gpus"] = self.rounds.state.shown_gpus(row["gpus"])

    def sweep_table(
        self, request: msg.SweepTable, attempts_root: str, connection: Connection
    ) -> None:
        """See api.messages.SweepTable."""

        def read() -> dict[str, Any]:
            table = self.browser.sweep_table(request.sweep, in_full=request.in_full)
            if request.in_full:
                sweep_tables.with_launches(table["columns"], attempts_root)
            return table

        def found(table: dict[str, Any]) -> None:
            state, engine = self.rounds.state, self.rounds.engine
            columns = table["columns"]
            sweep_tables.with_names_of_gpus(columns, state)
            if request.in_full:
                reasons = Reasons(state, engine.starts_nothing)
                sweep_tables.with_reasons(columns, state, reasons, self.standing)
            connection.answer(**table)

        self._read(read, found, connection)

    def _known(self) -> Known:
        state = self.rounds.state

        def began(job_id: int) -> tuple[int, int]:
            attempt = state.jobs[job_id].active
            assert attempt is not None
            started = attempt.started_at_ms
            return (attempt.placed_at_ms if started is None else started, job_id)

        return Known(counts(state, self.store.finished), sorted(state.active, key=began))

    # ------------------------------------------------------------------ reading

    def _read(
        self, read: Callable[[], Found], found: Callable[[Found], None], connection: Connection
    ) -> None:
        """Read in the thread, and go on with what was found in the loop."""
        if self._waiting >= _MOST_WAITING:
            raise Failed("too many long lists are asked for at once", "try again in a moment")
        self._waiting += 1
        asked = asyncio.get_running_loop().run_in_executor(self._thread, read)

        def done(answer: asyncio.Future[Found]) -> None:
            self._waiting -= 1
            if answer.cancelled():
                return
            try:
                found(answer.result())
            except StokerError as error:
                connection.fail(error)
            except Exception:
                log.exception("a list could not be read")
                connection.fail(Failed("something went wrong inside the daemon", "see its log"))

        asked.add_done_callback(done)

    def _with_reasons(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        state = self.rounds.state
        self._name_gpus(rows)
        reasons = Reasons(state, self.rounds.engine.starts_nothing)
        for row in rows:
            row["reason"], row["reason_kind"] = _reason(row, state, reasons, self.standing)
            del row["cause"], row["detail"]
        return rows


def _reason(
    row: dict[str, Any], state: State, reasons: Reasons, standing: StandingOf
) -> tuple[str | None, str | None]:
    """Why a job stands where it does: in words, and the kind of reason."""
    outcome = outcome_of(row)
    if outcome is not None:
        return outcome_words(outcome), outcome.cause.value
    job = state.jobs.get(row["id"])
    if job is None or job.state not in (*QUEUED, JobState.SUBMITTED):
        return None, None
    reason = reasons.of(job) if job.state in QUEUED else at_cluster(job, standing)
    return words(reason, state.now_ms), type(reason).__name__
