"""Attempts as processes of this machine.

The daemon is the parent of every job; its keeper inherits them if it dies. How a job ended is
written to the ledger before the zombie is reaped, so it is known whatever dies when.
What each half-finished attempt means after a crash is decided in `adoption`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from select import EPOLLIN

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.foreign import ForeignProcess
from stoker.core.model import Cause, Exit, Job, Launch
from stoker.executors.adoption import Gone, Living, NeverStarted, Past, Unseen
from stoker.executors.attaching import Attaching, Grant
from stoker.executors.foreign import ForeignProcesses
from stoker.executors.ledger import Key, LedgerWriter
from stoker.executors.mps_clients import MpsClients
from stoker.executors.ownership import Ownership
from stoker.executors.processes import ProcessId
from stoker.executors.reaping import Reaping, has_ended
from stoker.executors.running import Attempts
from stoker.executors.spawn import Spawner
from stoker.executors.starting import Starting
from stoker.executors.stopping import Stopping
from stoker.executors.suspending import Suspending
from stoker.executors.takeover import Takeovers, end_of_followed

_OBEY_AGAIN_MS = 500
_STARTED_MAY_WAIT_MS = 50


class LocalExecutor:
    """See ports.Executor. `fileno` becomes readable when there may be something to observe."""

    def __init__(
        self,
        attempts: Path,
        past: Past,
        ledger: LedgerWriter,
        instance: str,
        grant: Callable[[Grant], None],
        mps: MpsClients,
        spawner: Spawner | None = None,
    ) -> None:
        self._past = past
        self._ledger = ledger
        self._mps = mps
        self._spawner = spawner or Spawner()
        self._attempts = Attempts(str(attempts), instance, ledger, mps)
        self._pending_facts = self._attempts.pending
        self._stopping = Stopping(self._attempts)
        self._suspending = Suspending(self._attempts, self._stopping)
        self._reaping = Reaping(self._attempts, self._stopping)
        self._starting = Starting(self._attempts, self._reaping, self._spawner)
        self._attaching = Attaching(self._attempts, self._starting, self._reaping, grant)
        self.takeover = Takeovers(
            self._attempts, self._starting, self._reaping, past, self._is_known, self.observe
        )
        self._ownership = Ownership(instance)
        self._foreign = ForeignProcesses(self._attempts.tell)
        self._warm_servers = self._starting.warm_servers
        self._epoll = self._reaping.epoll
        for part in (self._warm_servers, mps.servers, self._foreign):
            self._epoll.register(part.fileno(), EPOLLIN)
        self._obey_again_ms: int | None = None  # some orders could not be carried out

    def fileno(self) -> int:
        """For the loop: readable when a process has ended."""
        return self._epoll.fileno()

    def has_news(self) -> bool:
        """Whether something has happened that was not observed yet."""
        return bool(self._epoll.poll(0, 1))

    def runs_anything(self) -> bool:
        """Whether a process of any attempt goes on; a zombie whose end can't be noted does not."""
        return any(one.main_gone or not has_ended(one) for one in self._attempts.running.values())

    def close(self) -> None:
        """Watch nothing any more; the processes go on."""
        self._attempts.ports.close()
        self._mps.close(self._attempts.clients())
        self._reaping.close()
        self._foreign.close()
        self._warm_servers.close()
        self._spawner.close()

    # ------------------------------------------------------------------ after a restart

    def adopt(self, active: Iterable[Job], now_ms: int) -> None:
        """See ports.Executor."""
        self._attempts.now_ms = now_ms
        for job in active:
            self._adopt(job, now_ms)
        self._attempts.cgroups.adopted(self._attempts.running, now_ms)

    def _adopt(self, job: Job, now_ms: int) -> None:
        attempts, terms, attempt = self._attempts, job.terms, job.active
        assert attempt is not None
        key = (job.id, attempt.number)
        if terms.adopted is not None:
            self._watch_foreign(key, terms.adopted)
            return
        found = self._past.find(key, attempts.marker(key), terms.attached)
        started = attempt.started_at_ms is not None
        at_ms = attempt.placed_at_ms
        match found:
            case _ if key in attempts.taken_over_by:
                end_of_followed(attempts, key, found)
            case Gone(process=ProcessId() as process) if self._left_behind(job, found, process):
                pass  # It is over when these are gone.
            case Unseen():
                if not started:
                    attempts.tell(ev.AttemptStarted(at_ms, *key, None))
                self._attaching.unseen.watch(key, now_ms)
            case Living(process=process):
                if not started:
                    attempts.tell(ev.AttemptStarted(at_ms, *key, process.pid))
                own_session, client = not terms.attached, self._mps.adopted(job)
                self._reaping.watch(key, process, False, own_session, terms.grace_ms, client)
                if len(attempt.gpus) > 1:
                    attempts.ports.adopt(key, process.pid)
                if attempt.suspended_at_ms is not None and key in attempts.running:
                    # A stop that could not be saved, and is forgotten, has let it go on.
                    self._suspending.suspend(attempts.running[key], attempt.suspensions)
            case Gone(exit=None, why=why):
                attempts.vanished(key, why)
            case Gone(exit=Exit() as how, at_ms=ended_at_ms):
                ended_at_ms = min(ended_at_ms or now_ms, now_ms)
                attempts.exited(key, how, self._mps.adopted(job), ended_at_ms)
            case NeverStarted() if terms.attached:
                # Its client may be gone, or have yet to come back: nothing is held for it.
                why = "the daemon was restarted before its terminal had started it"
                evicted = ev.AttemptEvicted(now_ms, *key, Cause.REQUEUED, why)
                self._attaching.grants.end(evicted, now_ms, terms.grace_ms)
            case NeverStarted():
                if started:
                    why = "no trace of it was left"
                    attempts.tell(ev.AttemptVanished(now_ms, *key, why))

    def _left_behind(self, job: Job, found: Gone, process: ProcessId) -> bool:
        attempt = job.active
        assert attempt is not None
        key = (job.id, attempt.number)
        session = self._reaping.session_of(key) if job.terms.attached else process.pid
        client, stops = self._mps.adopted(job), attempt.stop is not None
        return self._reaping.watch_left(
            key, process, session, found.exit, job.terms.grace_ms, client, stops
        )

    # ------------------------------------------------------------------ orders

    def carry_out(
        self, commands: Sequence[cmd.Command], launch_of: Callable[[int], Launch], now_ms: int
    ) -> None:
        """See ports.Executor."""
        self._attempts.now_ms = now_ms
        self._attempts.short = self._obey_again_ms = None
        self._mps.begin_turn()
        try:
            for command in commands:
                try:
                    self._obey(command, launch_of)
                except OSError:
                    # Too many files are open to look at processes. It is ordered again.
                    self._obey_again_ms = now_ms + _OBEY_AGAIN_MS
        finally:
            self._ledger.pay()
        self._mps.end_turn(self._attempts.clients(), now_ms)

    def _obey(self, command: cmd.Command, launch_of: Callable[[int], Launch]) -> None:
        key = (command.job_id, command.attempt)
        match command:
            case cmd.Start():
                if not self._is_known(key):
                    self._starting.start(command, launch_of(command.job_id))
            case cmd.StartAttached():
                if not self._is_known(key):
                    self._attaching.offer(command, launch_of(command.job_id))
            case cmd.Adopt(process=process):
                if not self._is_known(key):
                    self._watch_foreign(key, process)
            case cmd.Terminate(force=force):
                self._terminate(key, force)
            case cmd.Warn(signal=number):
                running = self._attempts.running.get(key)
                if running is not None:
                    self._stopping.warn(running, number)
                self._attempts.tell(ev.WarningSent(self._attempts.now_ms, *key))
            case cmd.Suspend(nth=nth):
                running = self._attempts.running.get(key)
                if running is not None:  # Else its end is told of, or it is about to start.
                    self._suspending.suspend(running, nth)
            case cmd.Continue(nth=nth):
                running = self._attempts.running.get(key)
                if running is not None:
                    self._suspending.go_on(running, nth)
                else:
                    self._attempts.tell(ev.AttemptContinued(self._attempts.now_ms, *key, nth))

    def _is_known(self, key: Key) -> bool:
        return (
            key in self._attempts.running
            or key in self._pending_facts.over_with
            or key in self._attaching.unseen
            or key in self._foreign
            or self._mps.is_examining(key)
        )

    def _terminate(self, key: Key, force: bool) -> None:
        now_ms, grants = self._attempts.now_ms, self._attaching.grants
        never = ev.AttemptNotStarted(now_ms, *key, "stopped before it started")
        if key in grants:
            grants.end(never, now_ms, stops=True)
        running = self._attempts.running.get(key)
        if key in self._foreign:
            self._foreign.let_go(key, now_ms)
            self._ownership.forget(key[0])
        elif key in self._attaching.unseen:
            self._attaching.unseen.stop(key, force)
        elif running is not None:
            self._stopping.stop(running, force)
        elif key not in grants and not self._is_known(key):
            # Else its client may still start it, and the order comes again.
            self._attempts.tell(never)

    def _watch_foreign(self, key: Key, process: str) -> None:
        """An attempt is a process that is not ours, and that has begun long ago."""
        now_ms = self._attempts.now_ms
        if self._foreign.watch(key, process, now_ms):
            pid = ForeignProcess.of(process).pid
            self._attempts.tell(ev.AttemptStarted(now_ms, *key, pid))

    # ------------------------------------------------------------------ word from clients

    def attached_started(self, key: Key, pid: int) -> bool:
        """A client runs the attempt in its terminal; False if it did not accept it."""
        grants = self._attaching.grants
        return self._is_known(key) or grants.is_accepted(key, pid, self._attempts.now_ms)

    def attached_failed(self, key: Key, why: str, cause: Cause, error: int = 0) -> None:
        """A client could not start the attempt, or did not; unless it has after all."""
        self._attaching.failed(key, why, cause, error)

    # ------------------------------------------------------------------ facts

    def observe(self, now_ms: int) -> list[ev.Fact]:
        """See ports.Executor."""
        self._attempts.now_ms = now_ms
        if self._reaping.loading:
            self._reaping.look_who_has_loaded()
        ended, by_fd = [], self._reaping.by_fd
        for fd, _ in self._epoll.poll(0):
            if fd in by_fd:
                ended.append(by_fd[fd])
            elif fd == self._warm_servers.fileno():
                self._warm_servers.heard()
            elif fd != self._foreign.fileno():
                self._mps.servers.heard()
                for fact in self._mps.examined():
                    self._attempts.tell(fact)
        if ended:
            self._reaping.mains_ended(ended)
        if self._reaping.again_at_ms:
            self._reaping.look_again()
        if self._stopping.rest_ms:
            self._stopping.ask_the_rest()
        if self._suspending.again_ms:
            self._suspending.look_again()
        self._attaching.look(now_ms)
        if self._foreign:
            for job_id in self._foreign.look(now_ms):
                self._ownership.forget(job_id)
        self._attempts.cgroups.see_to(self._attempts.running, now_ms)
        self._ledger.pay()
        return self._pending_facts.all()

    def acknowledged(self, facts: Sequence[ev.Fact]) -> None:
        """See ports.Executor."""
        for key in self._pending_facts.acknowledge(facts):
            self._attempts.taken_over_by.pop(key, None)
            if self._attempts.ports:
                self._attempts.ports.release(key)
            self._ledger.forget(key)

    def next_wakeup_ms(self) -> int | None:
        """See ports.Executor.

        That a process has started is known to the ledger, so its commit can wait for company;
        any other fact may let the next job start.
        """
        now_ms = self._attempts.now_ms
        facts = self._pending_facts
        if facts.over_with or facts.warned or facts.suspended:
            return now_ms
        begun = facts.begun or self._reaping.loading
        moments_ms = (
            now_ms + _STARTED_MAY_WAIT_MS if begun else None,
            min(self._reaping.again_at_ms.values(), default=None),
            min(self._stopping.rest_ms.values(), default=None),
            min(self._suspending.again_ms.values(), default=None),
            self._mps.servers.next_wakeup_ms(),
            self._attaching.grants.next_wakeup_ms(),
            self._attaching.unseen.next_wakeup_ms(),
            self._foreign.next_wakeup_ms(),
            self._obey_again_ms,
            self._attempts.cgroups.next_wakeup_ms(self._attempts.running),
        )
        return min((moment for moment in moments_ms if moment is not None), default=None)

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        """See ports.Executor."""
        roots = {one.process.pid: key[0] for key, one in self._attempts.running.items()}
        return self._ownership.owners(pids, self._foreign.roots() | roots)
