"""Attempts that clients run in their own terminals: offered to them, begun, watched or unseen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Cause, Launch
from stoker.executors.acceptances import AcceptanceFiles, Accepted, Torn
from stoker.executors.attempt_dir import make_attempt_dir
from stoker.executors.environment import MARKER, command_line, environment
from stoker.executors.grants import End, Grants
from stoker.executors.ledger import Key
from stoker.executors.namespaces import located
from stoker.executors.processes import members
from stoker.executors.reaping import Reaping
from stoker.executors.running import Attempts
from stoker.executors.shortage import CouldNotStart, could_not, shortage
from stoker.executors.starting import Starting
from stoker.executors.unseen import UnseenAttempts


@dataclass(frozen=True, slots=True)
class Grant:
    """What a client needs to run an attempt in its own terminal."""

    job_id: int
    attempt: int
    directory: str
    argv: list[str]
    cwd: str
    env: dict[str, str]


class Attaching:
    """All attached attempts. `grant` tells a client of what it may start."""

    def __init__(
        self,
        attempts: Attempts,
        starting: Starting,
        reaping: Reaping,
        grant: Callable[[Grant], None],
    ) -> None:
        self._attempts = attempts
        self._starting = starting
        self._reaping = reaping
        self._grant = grant
        self.grants = Grants(AcceptanceFiles(attempts.directory), self._is_accepted, self._is_void)
        self.unseen = UnseenAttempts(attempts.directory, attempts.over_unseen)

    def offer(self, command: cmd.StartAttached, launch: Launch) -> None:
        """Let its client start an attempt, unless it has."""
        attempts, key = self._attempts, (command.job_id, command.attempt)
        directory = attempts.directory(key)
        told: dict[str, str] = {}
        if len(command.gpus) > 1:
            try:
                launch, told = attempts.ports.told(key, launch)
            except CouldNotStart as error:
                attempts.could_not(key, error)
                return
        env = environment(launch, command, attempts.instance, attempts.root) | told
        client = None
        if command.mps is not None:
            client = self._starting.client(command, env)
            if client is None:
                return
        try:
            make_attempt_dir(directory)
        except OSError as error:
            # Its client may have been told of it in a turn before.
            attempts.could_not(key, could_not(error, directory), spent=True)
            return
        if client is not None:
            attempts.mps.offer(key, client)
        if self.grants.offer(key, command.grace_ms, attempts.now_ms):
            argv = command_line(launch, command.labels or command.gpus)
            self._grant(Grant(*key, directory, argv, launch.cwd, env))

    def failed(self, key: Key, why: str, cause: Cause, error: int = 0) -> None:
        """A client could not start the attempt, or did not; unless it has after all."""
        if key not in self.grants:
            return
        now_ms = self._attempts.now_ms
        end: ev.AttemptNotStarted | ev.AttemptPutBack
        end = ev.AttemptNotStarted(now_ms, *key, why, cause)
        short = shortage(error, self._attempts.directory(key))
        if short is not None:
            end = ev.AttemptPutBack(now_ms, *key, short.what, spent=True)
            self.grants.declined(end)
        if key in self.grants:
            self.grants.end(end, now_ms)

    def look(self, now_ms: int) -> None:
        """Void what could not be before, and see which of those out of sight have ended."""
        if self.grants:
            self.grants.try_again(now_ms)
        if self.unseen:
            self.unseen.look(now_ms)

    def _is_void(self, end: End) -> None:
        self._attempts.mps.taken((end.job_id, end.attempt))
        self._attempts.tell(end)

    def _is_accepted(
        self, key: Key, acceptance: Accepted | Torn, grace_ms: int, stops: bool
    ) -> None:
        """The client has made the process of an attempt that was granted to it.

        OSError: it can't be watched now, and nothing is said of it.
        """
        attempts = self._attempts
        process = located(acceptance) if isinstance(acceptance, Accepted) else None
        if process is None:
            found = members(f"{MARKER}={attempts.marker(key)}".encode(), (), None)
            process = found[0] if found else None
        client = attempts.mps.taken(key)
        try:
            if process is not None:
                self._reaping.watch(key, process, False, False, grace_ms, client, stops=stops)
            else:
                self.unseen.watch(key, attempts.now_ms)
        except OSError:
            if client is not None:
                attempts.mps.offer(key, client)
            raise
        # It may have ended before we heard of it; its client put down how.
        pid = process.pid if process else None
        attempts.tell(ev.AttemptStarted(attempts.now_ms, *key, pid))
