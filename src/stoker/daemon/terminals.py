"""Jobs that run in their user's terminal: the client there starts the process, not the daemon."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from stoker.api.messages import Attach, AttachStarted
from stoker.core import events as ev
from stoker.core.model import QUEUED, Cause
from stoker.core.reasons import outcome_words, words
from stoker.core.state import State
from stoker.core.waiting import reason_for
from stoker.daemon.loop import TurnLoop, Watcher
from stoker.daemon.requests.cancel import stop_event
from stoker.daemon.server import Connection
from stoker.engine import Answer, Decided
from stoker.errors import Failed, NotFound
from stoker.executors.attaching import Grant
from stoker.executors.local import LocalExecutor
from stoker.executors.namespaces import own_namespace
from stoker.store.views import Views, outcome_of

# A client that has submitted, or whose connection broke since the daemon was restarted, has this
# long to come (back); one that is told to start its job, this long to do so.
COMES_WITHIN_S = 15.0
ANSWERS_WITHIN_S = 15.0
_TRY_AGAIN_S = 1.0


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

    turn_loop: TurnLoop
    views: Views
    executor: LocalExecutor
    _terminals: dict[int, Terminal] = field(default_factory=dict)
    _expected: set[int] = field(default_factory=set)

    def attach(self, request: Attach, connection: Connection) -> None:
        """A client follows its job."""
        job_id = request.job_id
        rows = self.views.rows([job_id])
        if not rows:
            raise NotFound(f"there is no job {job_id}", "")
        if not rows[0]["terms"].attached:
            raise Failed(f"job {job_id} does not run in a terminal", "see `stoker logs -f`")
        if not request.claims:
            raise Failed("this `stoker run` is older than the daemon", "start it again")
        terminal = Terminal(connection)
        self._terminals[job_id] = terminal
        self._expected.discard(job_id)
        connection.on_close.append(lambda: self._left(job_id, connection))
        connection.take_more()
        terminal.watcher = self.turn_loop.watch([job_id], lambda: self._ended(job_id, connection))
        self._tell_presence(job_id)

    def _tell_presence(self, job_id: int) -> None:
        """Tell the state whether the client of a job is there, until it knows."""

        def proposal(state: State) -> Decided:
            here = job_id in self._terminals
            if job_id not in state.jobs or here == (job_id in state.terminals):
                return Decided([])
            change = ev.TerminalCame if here else ev.TerminalLeft
            return Decided([change(state.now_ms, job_id)])

        def reply(answer: Answer) -> None:
            if answer.error is not None:
                loop = asyncio.get_running_loop()
                loop.call_later(_TRY_AGAIN_S, self._tell_presence, job_id)

        self.turn_loop.ask(proposal, reply)

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
            namespace=own_namespace(),
        )
        key = (grant.job_id, grant.attempt)
        asyncio.get_running_loop().call_later(ANSWERS_WITHIN_S, self._unanswered, key)

    def _unanswered(self, key: tuple[int, int]) -> None:
        """A grant has an end: a client may be stopped, and its GPUs are there for others."""
        why = f"its terminal did not answer within {ANSWERS_WITHIN_S:.0f} s"
        self.executor.attached_failed(key, why, Cause.TERMINAL_GONE)
        self.turn_loop.wake()

    def started(self, request: AttachStarted) -> None:
        """The client has started it, or could not."""
        state = self.turn_loop.state
        key = (request.job_id, request.attempt)
        if not state.is_current(*key) or not state.jobs[request.job_id].terms.attached:
            return
        if request.pid is None:
            why = request.error or "no reason given"
            self.executor.attached_failed(key, why, Cause.NOT_STARTED, request.errno)
        elif not self.executor.attached_started(key, request.pid):
            self.executor.attached_failed(key, "its process is gone", Cause.NOT_STARTED)
        self.turn_loop.wake()

    def tell_reasons(self) -> None:
        """After a turn: tell each waiting client why it waits, if that has changed."""
        state = self.turn_loop.state
        for job_id, terminal in self._terminals.items():
            job = state.jobs.get(job_id)
            if job is None or job.state not in QUEUED:
                continue
            text = words(reason_for(state, job), state.now_ms)
            if text != terminal.last_text:
                terminal.last_text = text
                terminal.connection.tell(event="waiting", text=text)

    def expect_missing(self) -> None:
        """After a turn: no job waits for a client for ever, however it came to wait again."""
        for job_id in self.turn_loop.state.unattended:
            self.expect(job_id)

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
        job = self.turn_loop.state.jobs.get(job_id)
        if job is None:
            return
        if job.active is None:
            self._call_off(job_id)
        elif job.active.started_at_ms is None:
            key = (job_id, job.active.number)
            self.executor.attached_failed(key, "its terminal was gone", Cause.TERMINAL_GONE)
            self.turn_loop.wake()

    def _call_off(self, job_id: int) -> None:
        def reply(answer: Answer) -> None:
            if answer.error is not None:
                self.expect(job_id)  # The disk is full, say.

        self.turn_loop.ask(
            lambda state: Decided(
                [stop_event(state, state.jobs[job_id], Cause.TERMINAL_GONE)]
                if job_id in state.jobs and state.jobs[job_id].active is None
                else []
            ),
            reply,
        )

    def _left(self, job_id: int, connection: Connection) -> None:
        """The client is gone. What it started goes on; what still waits may wait for it a while."""
        terminal = self._terminals.get(job_id)
        if terminal is not None and terminal.connection is connection:
            if terminal.watcher is not None:
                self.turn_loop.unwatch(terminal.watcher)
            del self._terminals[job_id]
            self._tell_presence(job_id)
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
