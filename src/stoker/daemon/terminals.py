"""Jobs that run in their user's terminal: the client there starts the process, not the daemon."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from stoker.api.messages import AttachStarted
from stoker.core.model import QUEUED, Cause
from stoker.core.reasons import outcome_words, words
from stoker.core.waiting import reason_for
from stoker.daemon.loop import Rounds, Watcher
from stoker.daemon.orders import stop_event
from stoker.daemon.server import Connection
from stoker.engine import Answer, Decided
from stoker.errors import Failed, NotFound
from stoker.executors.local import Grant, LocalExecutor
from stoker.store.views import Views, outcome_of

# A client that has submitted, or whose connection broke since the daemon was restarted, has this
# long to come (back).
COMES_WITHIN_S = 15.0


@dataclass(slots=True)
class Terminal:
    """The client of one attached job."""

    connection: Connection
    watcher: Watcher | None = None
    last_text: str = ""
    granted: int = 0  # the attempt that it was last told to start


@dataclass(slots=True)
class Terminals:
    """All clients that wait at a terminal."""

    rounds: Rounds
    views: Views
    executor: LocalExecutor
    _terminals: dict[int, Terminal] = field(default_factory=dict)
    _expected: set[int] = field(default_factory=set)

    def attach(self, job_id: int, connection: Connection) -> None:
        """A client follows its job."""
        rows = self.views.rows([job_id])
        if not rows:
            raise NotFound(f"there is no job {job_id}", "")
        if not rows[0]["terms"].attached:
            raise Failed(f"job {job_id} does not run in a terminal", "see `stoker logs -f`")
        terminal = Terminal(connection)
        self._terminals[job_id] = terminal
        self._expected.discard(job_id)
        connection.on_close.append(lambda: self._left(job_id, connection))
        connection.take_more()
        terminal.watcher = self.rounds.watch([job_id], lambda: self._ended(job_id, connection))
        self.rounds.wake()

    def grant(self, grant: Grant) -> None:
        """The job's time has come: its client is to start it. Repeated until it has."""
        terminal = self._terminals.get(grant.job_id)
        if terminal is None:
            self.expect(grant.job_id)
            return
        if terminal.granted == grant.attempt:
            return
        terminal.granted = grant.attempt
        terminal.connection.tell(
            event="granted",
            attempt=grant.attempt,
            dir=grant.directory,
            argv=grant.argv,
            cwd=grant.cwd,
            env=grant.env,
        )

    def started(self, request: AttachStarted) -> None:
        """The client has started it, or could not."""
        state = self.rounds.state
        key = (request.job_id, request.attempt)
        if not state.is_current(*key) or not state.jobs[request.job_id].terms.attached:
            return
        grace_ms = state.jobs[request.job_id].terms.grace_ms
        if request.pid is None:
            self.executor.attached_failed(
                key, request.error or "no reason given", Cause.NOT_STARTED
            )
        elif not self.executor.attached_started(key, request.pid, grace_ms):
            self.executor.attached_failed(key, "its process is gone", Cause.NOT_STARTED)
        self.rounds.wake()

    def tell_reasons(self) -> None:
        """After a turn: tell each waiting client why it waits, if that has changed."""
        state = self.rounds.state
        for job_id, terminal in self._terminals.items():
            job = state.jobs.get(job_id)
            if job is None or job.state not in QUEUED:
                continue
            text = words(reason_for(state, job), state.now_ms)
            if text != terminal.last_text:
                terminal.last_text = text
                terminal.connection.tell(event="waiting", text=text)

    def expect(self, job_id: int) -> None:
        """The client of this job is about to come: it has just submitted it, or lost us."""
        if job_id not in self._expected:
            self._expected.add(job_id)
            loop = asyncio.get_running_loop()
            loop.call_later(COMES_WITHIN_S, self._give_up, job_id)

    def _give_up(self, job_id: int) -> None:
        if job_id in self._expected:
            self._expected.discard(job_id)
            self._client_is_gone(job_id)

    def _client_is_gone(self, job_id: int) -> None:
        """What waits is called off; what was placed is looked for, or called off; the rest runs."""
        job = self.rounds.state.jobs.get(job_id)
        if job is None:
            return
        if job.active is None:
            self._call_off(job_id)
        elif job.active.started_at_ms is None:
            self.executor.attached_client_gone((job_id, job.active.number))
            self.rounds.wake()

    def _call_off(self, job_id: int) -> None:
        def ignore(answer: Answer) -> None:
            """There is nobody left to be told."""

        self.rounds.ask(
            lambda state: Decided(
                [stop_event(state, state.jobs[job_id], Cause.TERMINAL_GONE)]
                if job_id in state.jobs and state.jobs[job_id].active is None
                else []
            ),
            ignore,
        )

    def _left(self, job_id: int, connection: Connection) -> None:
        """The client is gone. What it started goes on; what still waits may wait for it a while."""
        terminal = self._terminals.get(job_id)
        if terminal is not None and terminal.connection is connection:
            if terminal.watcher is not None:
                self.rounds.unwatch(terminal.watcher)
            del self._terminals[job_id]
            self._client_is_gone(job_id)

    def _ended(self, job_id: int, connection: Connection) -> None:
        row = self.views.rows([job_id])[0]
        outcome = outcome_of(row)
        connection.tell(
            event="ended",
            state=row["state"],
            exit_code=row["exit_code"],
            signal=row["signal"],
            text=outcome_words(outcome) if outcome is not None else None,
        )
