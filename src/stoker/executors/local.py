"""Attempts as processes of this machine.

The daemon is the parent of every job; its keeper inherits them if it dies. How a job ended is
written to the ledger before the zombie is reaped, so it is known whoever dies when.
What each half-finished attempt means after a crash is decided in `adoption`.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Cause, Exit, Job, Launch
from stoker.executors.adoption import Finding, Gone, Living, NeverStarted, Past, Unseen
from stoker.executors.attempt_dir import (
    attempt_dir_text,
    exit_of_status,
    log_text,
    make_attempt_dir,
    read_exit,
)
from stoker.executors.cgroups import cgroups
from stoker.executors.claims import Claimed, ClaimFiles, Failed, Torn, read_claim
from stoker.executors.environment import (
    MARKER,
    Encoder,
    command_line,
    environment,
    marker,
)
from stoker.executors.grants import End, Grants
from stoker.executors.hearths import Hearths, Wish
from stoker.executors.ledger import Key, LedgerWriter
from stoker.executors.mps import CantStart, NotYet
from stoker.executors.mps_clients import Client, MpsClients
from stoker.executors.namespaces import located, own_namespace
from stoker.executors.ownership import Ownership
from stoker.executors.processes import (
    ProcessId,
    catches,
    group_exists,
    is_alive,
    members,
    send,
    stat_of,
    ticks_since_boot,
)
from stoker.executors.relief import Reliefs
from stoker.executors.running import Loading, Running
from stoker.executors.shortage import CouldNotStart, could_not, shortage
from stoker.executors.spawn import Spawner, outcome
from stoker.executors.unseen import UnseenAttempts
from stoker.executors.unsettled import Unsettled

_LOOK_AGAIN_MS = 30
_WRITE_AGAIN_MS = 500
_STARTED_MAY_WAIT_MS = 50


@dataclass(frozen=True, slots=True)
class Grant:
    """What a client needs to run an attempt in its own terminal."""

    job_id: int
    attempt: int
    directory: str
    argv: list[str]
    cwd: str
    env: dict[str, str]


class LocalExecutor:
    """See ports.Executor. `fileno` becomes readable when there may be something to observe."""

    def __init__(
        self,
        attempts: Path,
        past: Past,
        ledger: LedgerWriter,
        instance: str,
        grant: Callable[[Grant], None],
        mps: MpsClients | None = None,
        spawner: Spawner | None = None,
    ) -> None:
        self._root = str(attempts)
        self._past = past
        self._ledger = ledger
        self._instance = instance
        self._grant = grant
        self._spawner = spawner or Spawner()
        self._hearths = Hearths(instance, self._spawner)
        self._ownership = Ownership(instance)
        self._encoder = Encoder(instance)
        self._epoll = select.epoll()
        self._epoll.register(self._hearths.fileno(), select.EPOLLIN)
        self._mps = mps
        if mps is not None:
            self._epoll.register(mps.fileno(), select.EPOLLIN)
        self._running: dict[Key, Running] = {}
        self._by_fd: dict[int, Running] = {}
        self._again_at: dict[Key, int] = {}  # when to look at some of them again
        self._loading: dict[Key, Running] = {}  # those on the way to their programs
        self._unsettled = Unsettled()
        self._tell = self._unsettled.tell
        self._grants = Grants(ClaimFiles(self._directory), self._is_claimed, self._is_void)
        self._unseen = UnseenAttempts(self._directory, self._unseen_ended)
        self._reliefs = Reliefs()
        self._cgroups = cgroups(instance)
        self._launch_of: Callable[[int], Launch] | None = None
        self._short: CouldNotStart | None = None  # what starts of this turn have failed for
        self._obey_again_ms: int | None = None  # some orders could not be carried out
        self._now_ms = 0

    def fileno(self) -> int:
        """For the loop: readable when a process has ended."""
        return self._epoll.fileno()

    def has_news(self) -> bool:
        """Whether something has happened that was not observed yet."""
        return bool(self._epoll.poll(0, 1))

    def runs_anything(self) -> bool:
        """Whether a process of any attempt goes on; a zombie whose end can't be noted does not."""
        return any(one.main_gone or not self._ended(one) for one in self._running.values())

    def close(self) -> None:
        """Watch nothing any more; the processes go on."""
        if self._mps is not None:
            self._mps.close(self._clients())
        for pidfd in self._by_fd:
            os.close(pidfd)
        self._epoll.close()
        self._hearths.close()
        self._spawner.close()

    # ------------------------------------------------------------------ taking over

    def adopt(self, active: Iterable[Job], standbys: Iterable[Job], now_ms: int) -> None:
        """See ports.Executor."""
        self._now_ms = now_ms
        taken_over: list[tuple[Job, Key]] = []
        for job in standbys:
            relieved = self._past.relieved_by((job.id, job.attempt + 1))
            if relieved is not None:
                self._reliefs.has_relieved(relieved, (job.id, job.attempt + 1))
                taken_over.append((job, relieved))
        for job, relieved in taken_over:
            self._adopt_standby(job, relieved)
        for job in active:
            attempt = job.active
            assert attempt is not None
            key = (job.id, attempt.number)
            found = self._past.find(key, self._marker(key), job.terms.attached)
            started = attempt.started_at_ms is not None
            at_ms = attempt.placed_at_ms
            match found:
                case _ if self._reliefs.of(key) is not None:
                    how, ended_at_ms = _end_of_relieved(found)
                    self._exited(key, how, None, min(ended_at_ms or now_ms, now_ms))
                case Gone(process=ProcessId() as process) if self._left_behind(job, found, process):
                    pass  # It is over when these are gone.
                case Unseen():
                    if not started:
                        self._tell(ev.AttemptStarted(at_ms, *key, None))
                    self._unseen.watch(key, now_ms)
                case Living(process=process):
                    if not started:
                        self._tell(ev.AttemptStarted(at_ms, *key, process.pid))
                    own_session = not job.terms.attached
                    client = self._adopted_client(job)
                    self._watch(key, process, False, own_session, job.terms.grace_ms, client)
                case Gone(exit=None, why=why):
                    self._vanished(key, why)
                case Gone(exit=Exit() as how, at_ms=ended_at_ms):
                    client = self._adopted_client(job)
                    self._exited(key, how, client, min(ended_at_ms or now_ms, now_ms))
                case NeverStarted() if job.terms.attached:
                    # Its client may be gone, or have yet to come back: nothing is held for it.
                    why = "the daemon was restarted before its terminal had started it"
                    evicted = ev.AttemptEvicted(now_ms, *key, Cause.REQUEUED, why)
                    self._grants.end(evicted, now_ms, job.terms.grace_ms)
                case NeverStarted():
                    if started:
                        why = "no trace of it was left"
                        self._tell(ev.AttemptVanished(now_ms, *key, why))
        self._cgroups.adopted(self._running, now_ms)

    def _adopt_standby(self, job: Job, relieved: Key) -> None:
        """It took the place of another, or was about to, just before the daemon was killed."""
        key = (job.id, job.attempt + 1)
        found = self._past.find(key, self._marker(key), False)
        if self._reliefs.of(key) is not None:
            how, at_ms = _end_of_relieved(found)
            self._exited(key, how, None, min(at_ms or self._now_ms, self._now_ms))
        elif isinstance(found, NeverStarted):
            self._reliefs.settled(relieved)  # It came to nothing.
        elif isinstance(found, Living):
            self._tell(ev.AttemptStarted(self._now_ms, *key, found.process.pid))
            self._watch(key, found.process, False, True, job.terms.grace_ms)
        elif not isinstance(found, Gone) or found.exit is None:
            why = found.why if isinstance(found, Gone) else "it can't be seen from here"
            self._tell(ev.AttemptVanished(self._now_ms, *key, why))
        else:
            ended_at_ms = min(found.at_ms or self._now_ms, self._now_ms)
            self._exited(key, found.exit, None, ended_at_ms)

    def _adopted_client(self, job: Job) -> Client | None:
        if self._mps is None:
            return None
        return self._mps.adopted(job)

    def _left_behind(self, job: Job, found: Gone, process: ProcessId) -> bool:
        """Watch what the main process of an attempt left behind, if there is anything.

        Its pid may be another's by now, so only the marker tells who belongs to it.
        """
        attempt = job.active
        assert attempt is not None
        key = (job.id, attempt.number)
        session = self._session_of(key) if job.terms.attached else process.pid
        client, stops = self._adopted_client(job), attempt.stop is not None
        return self._watch_left(
            key, process, session, found.exit, job.terms.grace_ms, client, stops
        )

    def _watch_left(
        self,
        key: Key,
        process: ProcessId,
        session: int,
        how: Exit | None,
        grace_ms: int,
        client: Client | None,
        stops: bool = False,
    ) -> bool:
        running = Running(key, process, -1, False, False, grace_ms, session, how, mps=client)
        running.main_gone = running.ended_unseen = True
        running.asked_to_stop = stops
        if not self._left(running):
            return False
        self._running[key] = running
        self._again_at[key] = self._now_ms
        return True

    def _session_of(self, key: Key) -> int:
        """The session of the terminal in which an attempt began; 0 if that means nothing here."""
        claim = read_claim(self._directory(key))
        if isinstance(claim, Claimed) and claim.namespace == own_namespace():
            return claim.session
        return 0

    # ------------------------------------------------------------------ orders

    def carry_out(
        self,
        commands: Sequence[cmd.Command],
        launch_of: Callable[[int], Launch],
        now_ms: int,
    ) -> None:
        """See ports.Executor."""
        self._now_ms, self._launch_of = now_ms, launch_of
        self._reliefs.order(commands, self._is_known)
        self._short = self._obey_again_ms = None
        if self._mps is not None:
            self._mps.begin_turn()
        try:
            for command in commands:
                try:
                    self._obey(command, launch_of)
                except OSError:
                    # Too many files are open to look at processes. It is ordered again.
                    self._obey_again_ms = now_ms + _WRITE_AGAIN_MS
        finally:
            self._ledger.pay()
        if self._mps is not None:
            self._mps.end_turn(self._clients(), now_ms)

    def _obey(self, command: cmd.Command, launch_of: Callable[[int], Launch]) -> None:
        if isinstance(command, cmd.Relieve):
            return  # It was taken as a whole.
        key = (command.job_id, command.attempt)
        match command:
            case cmd.Start():
                if not self._is_known(key):
                    self._start(command, launch_of(command.job_id))
            case cmd.StartAttached():
                if not self._is_known(key):
                    self._offer(command, launch_of(command.job_id))
            case cmd.Terminate(force=force):
                self._terminate(key, force)
            case cmd.Warn(signal=number):
                self._warn(key, number)

    def _clients(self) -> list[Client | None]:
        return [running.mps for running in self._running.values()]

    def _is_known(self, key: Key) -> bool:
        if key in self._running or key in self._unsettled.over_with or key in self._unseen:
            return True
        return self._mps is not None and self._mps.is_examining(key)

    def _start(self, command: cmd.Start, launch: Launch) -> None:
        key = (command.job_id, command.attempt)
        if self._short is not None:
            self._could_not(key, self._short)  # It would be no different for this one.
            return
        client: Client | None = None
        variables: dict[str, str] = {}
        if command.mps is not None:
            client = self._client(command, variables)
            if client is None:
                return
        failure = self._make(command, launch, variables, client)
        if failure is not None:
            self._could_not(key, failure)

    def _could_not(self, key: Key, failure: CouldNotStart, *, spent: bool = False) -> None:
        """Tell why an attempt has no process, by its own fault or for want of something."""
        short = failure.short
        if short is None:
            self._tell(ev.AttemptNotStarted(self._now_ms, *key, str(failure)))
            return
        if not short.alone:
            self._short = failure
        self._tell(ev.AttemptPutBack(self._now_ms, *key, short.what, short.alone, spent))

    def _make(
        self,
        command: cmd.Start,
        launch: Launch,
        variables: Mapping[str, str],
        client: Client | None = None,
        relieves: Key | None = None,
    ) -> CouldNotStart | None:
        """Make the process of an attempt; if that can't be done, why."""
        key = (command.job_id, command.attempt)
        try:
            words = command_line(launch, command.labels or command.gpus)
            log = log_text(self._root, *key)
            wish = Wish(words, launch, command, variables, log, relieves)
            made = self._hearths.made(wish, self._ledger)
            ticks_before = ticks_since_boot()
            if made is None:
                env = self._encoder.encoded(launch, command, variables)
                self._ledger.intend(key, relieves)
                made = self._spawner.spawn(words, env, launch, log, command.attempt)
            process, pidfd = self._spawner.known(made, ticks_before)
        except (CouldNotStart, OSError, ValueError) as error:
            self._withdraw()
            if isinstance(error, CouldNotStart):
                return error
            if isinstance(error, OSError):
                return could_not(error, str(self._ledger.path))
            return CouldNotStart(str(error))  # What the system's encoding can't express.
        self._ledger.record_soon(key, process)
        running = self._watch(key, process, True, True, command.grace_ms, client, command, pidfd)
        if made.underway is None or running is None:
            self._tell(ev.AttemptStarted(self._now_ms, *key, made.pid))
        else:
            running.loading = Loading(made.underway, words[0], self._now_ms)
            self._loading[key] = running
        return None

    def _look_who_has_loaded(self) -> None:
        """Tell of those that run their programs by now; who could not ends, and is seen then."""
        for running in list(self._loading.values()):
            assert running.loading is not None
            if outcome(running.loading.underway) == 0:
                self._has_loaded(running)

    def _has_loaded(self, running: Running) -> None:
        loading = running.loading
        assert loading is not None
        running.loading = None
        del self._loading[running.key]
        fact = ev.AttemptStarted(loading.made_at_ms, *running.key, running.process.pid)
        self._tell(fact)

    def _has_ended_loading(self, running: Running) -> None:
        """It is a zombie, so how its way to its program ended is known."""
        loading = running.loading
        assert loading is not None
        error = outcome(loading.underway)
        assert error is not None, "a zombie shares nobody's memory"
        if error:
            running.not_started = could_not(OSError(error, ""), loading.program, own=True)
            running.loading = None
            del self._loading[running.key]
        else:
            self._has_loaded(running)

    def _relieve(self, running: Running) -> None:
        """Start the next one in the place of an attempt that has ended well, if one stands by.

        One that can't be started is left to the next turn, which then gives it its place.
        """
        if running.start is None or self._launch_of is None:
            return
        command = self._reliefs.next_for(running.start)
        if command is None:
            return
        try:
            launch = self._launch_of(command.job_id)
        except Exception:
            return  # Whatever is wrong with the record: that one has ended must be told.
        if self._make(command, launch, {}, relieves=running.key) is None:
            self._reliefs.has_relieved(running.key, (command.job_id, command.attempt))

    def _client(self, command: cmd.Start | cmd.StartAttached, env: dict[str, str]) -> Client | None:
        """The attempt as a client of MPS; None if it can't start yet, or (told here) at all."""
        if self._mps is None:
            found: Client | NotYet | CantStart = CantStart("there is none")
        else:
            found = self._mps.come(command, env, self._clients())
        if isinstance(found, CantStart):
            gpu = (command.labels or command.gpus)[0]
            why = f"MPS can't be started on GPU {gpu}: {found.why}"
            failure = CouldNotStart(why, found.short)
            self._could_not((command.job_id, command.attempt), failure)
        return found if isinstance(found, Client) else None

    def _taken(self, key: Key) -> Client | None:
        """What a user's terminal was told of MPS, if it was."""
        return None if self._mps is None else self._mps.taken(key)

    def _withdraw(self) -> None:
        try:
            self._ledger.withdraw()
        except OSError:
            pass

    def _offer(self, command: cmd.StartAttached, launch: Launch) -> None:
        key = (command.job_id, command.attempt)
        directory = attempt_dir_text(self._root, *key)
        env = environment(launch, command, self._instance)
        client = None
        if command.mps is not None:
            client = self._client(command, env)
            if client is None:
                return
        try:
            make_attempt_dir(directory)
            if client is not None and self._mps is not None:
                self._mps.offer(key, client)
        except OSError as error:
            # Its client may have been told of it in a turn before.
            self._could_not(key, could_not(error, directory), spent=True)
            return
        if self._grants.offer(key, command.grace_ms, self._now_ms):
            argv = command_line(launch, command.labels or command.gpus)
            self._grant(Grant(*key, directory, argv, launch.cwd, env))

    def attached_started(self, key: Key, pid: int) -> bool:
        """A client runs the attempt in its terminal; False if it did not claim it."""
        return self._is_known(key) or self._grants.is_claimed(key, pid, self._now_ms)

    def attached_failed(self, key: Key, why: str, cause: Cause, error: int = 0) -> None:
        """A client could not start the attempt, or did not; unless it has after all."""
        if key not in self._grants:
            return
        end: ev.AttemptNotStarted | ev.AttemptPutBack
        end = ev.AttemptNotStarted(self._now_ms, *key, why, cause)
        short = shortage(error, self._directory(key))
        if short is not None:
            end = ev.AttemptPutBack(self._now_ms, *key, short.what, spent=True)
            self._grants.declined(end)
        if key in self._grants:
            self._grants.end(end, self._now_ms)

    def _is_void(self, end: End) -> None:
        self._taken((end.job_id, end.attempt))
        self._tell(end)

    def _is_claimed(self, key: Key, claim: Claimed | Torn, grace_ms: int) -> None:
        """The client has made the process of an attempt that was granted to it."""
        process = located(claim) if isinstance(claim, Claimed) else None
        if process is None:
            found = members(f"{MARKER}={self._marker(key)}".encode(), (), None)
            process = found[0] if found else None
        client = self._taken(key)
        # It may have ended before we heard of it; its client put down how.
        self._tell(ev.AttemptStarted(self._now_ms, *key, process.pid if process else None))
        if process is not None:
            self._watch(key, process, False, False, grace_ms, client)
        else:
            self._unseen.watch(key, self._now_ms)

    def _unseen_ended(self, key: Key, how: Exit | None) -> None:
        if how is not None:
            self._exited(key, how, None, self._now_ms)
        else:
            self._vanished(key, "it left no exit code")

    def _vanished(self, key: Key, why: str) -> None:
        """No process and no exit code are left; a client may have put down that it never began."""
        claim = read_claim(self._directory(key))
        if isinstance(claim, Failed):
            self._tell(ev.AttemptNotStarted(self._now_ms, *key, claim.why))
        else:
            self._tell(ev.AttemptVanished(self._now_ms, *key, why))

    def _directory(self, key: Key) -> str:
        return attempt_dir_text(self._root, *key)

    def _terminate(self, key: Key, force: bool) -> None:
        if key in self._grants:
            why = "stopped before it started"
            self._grants.end(ev.AttemptNotStarted(self._now_ms, *key, why), self._now_ms)
        if key in self._unseen:
            self._unseen.stop(key, force)
            return
        running = self._running.get(key)
        if running is None:
            if key in self._grants:
                return  # Its client may still start it; the order comes again.
            if not self._is_known(key):
                self._tell(ev.AttemptNotStarted(self._now_ms, *key, "stopped before it started"))
            return
        running.asked_to_stop = True
        if not self._may_signal(running, force):
            return  # The order comes again, and we are woken when it can be carried out.
        if force:
            self._signal_all(running, signal.SIGKILL)
        elif not running.signalled:
            running.signalled = True
            self._ask_to_end(running, self._members(running))

    def _may_signal(self, running: Running, force: bool) -> bool:
        """True unless it has GPU work under MPS that is to be ended first.

        What a neighbour of one that is killed in the middle of its work loses is not ours to lose.
        """
        if running.mps is None or self._mps is None:
            return True
        return self._mps.may_signal(
            running.mps, force, lambda: [process.pid for process in self._members(running)]
        )

    def _warn(self, key: Key, number: int) -> None:
        running = self._running.get(key)
        if running is not None:
            # A shell or a data loader without a handler would die of it; those that are prepared
            # for it may be anywhere in the tree.
            prepared = [p for p in self._members(running) if catches(p, number)]
            for process in prepared or [running.process]:
                send(process, number)
        self._tell(ev.WarningSent(self._now_ms, *key))

    def _signal_all(self, running: Running, number: int) -> None:
        for process in self._members(running):
            send(process, number)

    def _ask_to_end(self, running: Running, processes: Sequence[ProcessId]) -> None:
        """SIGTERM, once for each process: some count them."""
        for process in processes:
            if process not in running.asked:
                send(process, signal.SIGTERM)
                running.asked |= {process}
                send(process, signal.SIGCONT)  # A stopped process can't heed it otherwise.

    def _members(self, running: Running) -> list[ProcessId]:
        pid = running.process.pid
        roots = () if running.main_gone else (pid,)
        found = members(
            f"{MARKER}={self._marker(running.key)}".encode(),
            roots,
            pid if running.own_session else None,
        )
        if running.asked_to_stop:
            # One that has left all of the above was meant to stay when the job ends by itself.
            found += [one for one in self._cgroups.members(running.key) if one not in found]
        return found

    # ------------------------------------------------------------------ facts

    def observe(self, now_ms: int) -> list[ev.Fact]:
        """See ports.Executor."""
        self._now_ms = now_ms
        if self._loading:
            self._look_who_has_loaded()
        ended = []
        for fd, _ in self._epoll.poll(0):
            if fd in self._by_fd:
                ended.append(self._by_fd[fd])
            elif fd == self._hearths.fileno():
                self._hearths.heard()
            else:
                self._hear_of_mps()
        if ended:
            self._mains_ended(ended)
        if self._again_at:
            for key in [key for key, moment in self._again_at.items() if moment <= now_ms]:
                self._look(self._running[key])
        if self._grants:
            self._grants.try_again(now_ms)
        if self._unseen:
            self._unseen.look(now_ms)
        self._cgroups.see_to(self._running, now_ms)
        self._ledger.pay()
        return self._unsettled.all()

    def keep_to(self, order: cmd.Relieve | None) -> None:
        """See ports.Executor."""
        self._reliefs.keep_to(order)

    def relieve(self, now_ms: int) -> bool:
        """See ports.Executor."""
        if not self._reliefs:
            return False
        self.observe(now_ms)
        return (
            bool(self._reliefs)
            and not self._unsettled.warned
            and all(
                isinstance(fact, ev.AttemptExited) and fact.relieved_by is not None
                for fact in self._unsettled.over_with.values()
            )
        )

    def _hear_of_mps(self) -> None:
        assert self._mps is not None
        self._mps.heard()
        for fact in self._mps.examined():
            self._tell(fact)

    def settled(self, facts: Sequence[ev.Fact]) -> None:
        """See ports.Executor."""
        for key in self._unsettled.settle(facts):
            self._reliefs.settled(key)
            self._ledger.forget(key)

    def next_wakeup_ms(self) -> int | None:
        """See ports.Executor.

        That a process has started is known to the ledger, so its commit can wait for company;
        any other fact may let the next job start.
        """
        if self._unsettled.over_with or self._unsettled.warned:
            return self._now_ms
        begun = self._unsettled.begun or self._loading
        earliest_ms = self._now_ms + _STARTED_MAY_WAIT_MS if begun else None
        if self._again_at:
            again_ms = min(self._again_at.values())
            earliest_ms = again_ms if earliest_ms is None else min(again_ms, earliest_ms)
        parts = (self._mps, self._grants or None, self._unseen or None)
        moments_ms = [part.next_wakeup_ms() for part in parts if part is not None]
        moments_ms += (self._obey_again_ms, self._cgroups.next_wakeup_ms(self._running))
        for moment_ms in moments_ms:
            if moment_ms is not None:
                earliest_ms = moment_ms if earliest_ms is None else min(moment_ms, earliest_ms)
        return earliest_ms

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        """See ports.Executor."""
        roots = {running.process.pid: key[0] for key, running in self._running.items()}
        return self._ownership.owners(pids, roots)

    def _watch(
        self,
        key: Key,
        process: ProcessId,
        ours: bool,
        own_session: bool,
        grace_ms: int,
        client: Client | None = None,
        start: cmd.Start | None = None,
        pidfd: int | None = None,
    ) -> Running | None:
        try:
            if pidfd is None:
                pidfd = os.pidfd_open(process.pid)
            if not ours and not is_alive(process):
                os.close(pidfd)
                raise ProcessLookupError
        except ProcessLookupError:
            # It ended between the look and now, and its parent has reaped it.
            how = read_exit(attempt_dir_text(self._root, *key))
            session = process.pid if own_session else self._session_of(key)
            if self._watch_left(key, process, session, how, grace_ms, client):
                pass  # It is over when these are gone.
            elif how is not None:
                self._exited(key, how, client, self._now_ms)
            else:
                self._vanished(key, "it left no exit code")
            return None
        running = Running(key, process, pidfd, ours, own_session, grace_ms, mps=client, start=start)
        running.session = process.pid if own_session else self._session_of(key)
        self._running[key] = running
        self._by_fd[pidfd] = running
        self._epoll.register(pidfd, select.EPOLLIN)
        self._cgroups.expect(key, self._now_ms)
        return running

    def _mains_ended(self, ended: Sequence[Running]) -> None:
        """These main processes are zombies, or gone: learn how they ended."""
        to_reap = []
        for running in ended:
            if running.exit is None and not running.main_gone:
                if running.ours:
                    to_reap.append(running)
                else:
                    self._learn_from_parent(running)
        if to_reap:
            self._learn_as_parent(to_reap)
        for running in ended:
            if running.main_gone:
                self._finish_if_alone(running)

    def _learn_as_parent(self, zombies: Sequence[Running]) -> None:
        seen = [os.waitid(os.P_PIDFD, z.pidfd, os.WEXITED | os.WNOWAIT) for z in zombies]
        ends = [exit_of_status(one.si_code, one.si_status) for one in seen if one is not None]
        try:
            keys = [zombie.key for zombie in zombies]
            self._ledger.all_ended(list(zip(keys, ends, strict=True)), self._now_ms)
        except OSError:
            # The disk is full, say. The zombies keep the truth until it can be written.
            for zombie in zombies:
                self._look_again(zombie, _WRITE_AGAIN_MS)
            return
        for zombie, how in zip(zombies, ends, strict=True):
            if zombie.loading is not None:
                self._has_ended_loading(zombie)
            os.waitid(os.P_PIDFD, zombie.pidfd, os.WEXITED)
            self._main_is_gone(zombie, how)

    def _learn_from_parent(self, running: Running) -> None:
        """Its keeper or client writes how it ended, then reaps it."""
        try:
            alive = is_alive(running.process)
            how = read_exit(attempt_dir_text(self._root, *running.key))
        except OSError:
            self._look_again(running, _WRITE_AGAIN_MS)  # Too many files are open to look.
            return
        if how is None and alive:
            self._look_again(running, _LOOK_AGAIN_MS)
            return
        self._main_is_gone(running, how)

    def _main_is_gone(self, running: Running, how: Exit | None) -> None:
        running.exit, running.main_gone = how, True
        self._epoll.unregister(running.pidfd)
        if self._again_at:
            self._again_at.pop(running.key, None)

    def _look_again(self, running: Running, after_ms: int) -> None:
        self._again_at[running.key] = self._now_ms + after_ms
        if not running.main_gone and self._ended(running):
            # Its descriptor stays readable, which would keep the loop busy.
            self._epoll.modify(running.pidfd, 0)

    def _ended(self, running: Running) -> bool:
        poll = select.poll()
        poll.register(running.pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def _look(self, running: Running) -> None:
        del self._again_at[running.key]
        if running.main_gone or self._ended(running):
            self._mains_ended([running])

    def _finish_if_alone(self, running: Running) -> None:
        """The attempt is over when its last process is gone.

        What is left in its session by a job that ended by itself is asked to end, and ended after
        the grace time. A process that took a session of its own was meant to stay, unless the job
        is being stopped.
        """
        try:
            left = self._left(running)
        except OSError:
            self._look_again(running, _WRITE_AGAIN_MS)  # Too many files are open to look.
            return
        if not left:
            self._over(running)
            return
        if self._may_signal(running, force=False):
            self._ask_to_end(running, left)
        if not running.asked_to_stop:
            if running.leftovers_kill_ms is None:
                running.leftovers_kill_ms = self._now_ms + running.grace_ms
            elif self._now_ms >= running.leftovers_kill_ms and self._may_signal(running, True):
                for process in left:
                    send(process, signal.SIGKILL)
        self._look_again(running, _LOOK_AGAIN_MS)

    def _left(self, running: Running) -> list[ProcessId]:
        if running.asked_to_stop:
            return self._members(running)
        # Others are in a terminal's session too, and only the marker tells who belongs to it.
        shared = not running.own_session and running.session != 0
        in_session = running.own_session and group_exists(running.session)
        if not (in_session or shared or running.ended_unseen):
            return []
        left = []
        for process in self._members(running):
            stat = stat_of(process.pid)
            if stat is not None and stat.id == process and stat.session == running.session:
                left.append(process)
        return left

    def _over(self, running: Running) -> None:
        del self._running[running.key]
        if self._again_at:
            self._again_at.pop(running.key, None)
        if running.pidfd >= 0:
            del self._by_fd[running.pidfd]
            os.close(running.pidfd)
        self._cgroups.over(running.key, self._now_ms)
        if running.not_started is not None:
            self._could_not(running.key, running.not_started, spent=True)
        elif running.exit is not None:
            client = None if running.asked_to_stop else running.mps
            if running.exit.ok and not running.asked_to_stop:
                self._relieve(running)
            self._exited(running.key, running.exit, client, self._now_ms)
        else:
            why = "its parent was killed, so nobody saw its exit code"
            self._vanished(running.key, why)

    def _exited(self, key: Key, how: Exit, client: Client | None, at_ms: int) -> None:
        """Tell how an attempt ended, at once or when it is known whether its MPS server failed."""
        if client is None or how.ok or self._mps is None:
            relieved_by = self._reliefs.of(key)
            self._tell(ev.AttemptExited(at_ms, *key, how, relieved_by=relieved_by))
        else:
            self._mps.examine(key, how, client, at_ms)

    def _marker(self, key: Key) -> str:
        return marker(self._instance, *key)


def _end_of_relieved(found: Finding) -> tuple[Exit, int | None]:
    """How an attempt ended whose place was taken, which is done only where it ended well."""
    if isinstance(found, Gone) and found.exit is not None:
        return found.exit, found.at_ms
    return Exit(code=0), None
