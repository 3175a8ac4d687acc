"""What must be on disk before what, looked at in the very moment: by the file, not by the caller.

Law: an attempt's intent is in the ledger before its process is made or told, and its exit before
its process is reaped; a decision is in the database before it is carried out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.commands import commands_for
from stoker.core.model import Job, Launch
from stoker.core.takeover import AllowTakeovers
from stoker.executors.environment import MARKER, EncodedEnv
from stoker.executors.ledger import Entries, Key, read_ledger
from stoker.executors.local import LocalExecutor
from stoker.executors.processes import ProcessId
from stoker.ports import Executor, Takeover
from stoker.store.sqlite import SqliteStore

_waitid = os.waitid


class LedgerOnDisk:
    """The ledger as somebody else would read it, at each step for which it must say something."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)  # where files run out
        self.executor: LocalExecutor | None = None
        self.when_made: dict[Key, Entries] = {}
        self.when_told: dict[Key, Entries] = {}
        self.when_reaped: dict[Key, Entries] = {}

    def close(self) -> None:
        """Let the descriptor go."""
        os.close(self._kept)

    def about_to_make(self, env: EncodedEnv) -> None:
        """A process with this environment is about to be made."""
        key = _attempt_of(env)
        entries = self._read()
        assert entries.intent == key, f"{key} is made, and the ledger's last intent is another"
        self.when_made[key] = entries

    def _read(self) -> Entries:
        os.close(self._kept)
        try:
            return read_ledger(self._path)
        finally:
            self._kept = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    def about_to_tell(self, idle_copy: ProcessId, variables: dict[str, str]) -> None:
        """A copy of a warm_server is about to be told who it is."""
        key = _attempt_of([f"{MARKER}={variables[MARKER]}".encode()])
        entries = self._read()
        assert entries.intent == key, f"{key} is told, and the ledger's last intent is another"
        assert entries.idle_copy == idle_copy, (
            f"{key} is told, and the ledger names {entries.idle_copy}"
        )
        self.when_told[key] = entries

    def waitid(self, kind: int, what: int, options: int) -> os.waitid_result | None:
        """In the place of `os.waitid`: an attempt's process is reaped only if its exit is there."""
        watched = self.executor._reaping.by_fd if self.executor is not None else {}
        running = watched.get(what)
        if running is not None and (kind, options) == (os.P_PIDFD, os.WEXITED):
            entries = self._read()
            assert running.key in entries.exits, f"{running.key} is reaped, its exit is not there"
            self.when_reaped[running.key] = entries
        return _waitid(kind, what, options)


def _attempt_of(env: Iterable[bytes]) -> Key:
    [marker] = [one for one in env if one.startswith(f"{MARKER}=".encode())]
    job_id, attempt = marker.rpartition(b":")[2].split(b".")
    return int(job_id), int(attempt)


class CommittedOnly:
    """An executor that carries out nothing which another reader of the database does not see."""

    def __init__(self, executor: Executor, database: Path) -> None:
        self._executor = executor
        self._database = database
        self.carried_out: list[cmd.Command] = []

    def carry_out(
        self, commands: Sequence[cmd.Command], launch_of: Callable[[int], Launch], now_ms: int
    ) -> None:
        """Only starts: what is stopped without a record would be stopped again at worst."""
        record = SqliteStore(self._database)
        try:
            state = record.load(now_ms)
        finally:
            record.close()
        committed = commands_for(state)
        for command in commands:
            if isinstance(command, cmd.Start | cmd.StartAttached | cmd.HandOver):
                assert command in committed, f"{command} is carried out, and is not committed"
        self.carried_out += commands
        self._executor.carry_out(commands, launch_of, now_ms)

    def acknowledged(self, facts: Sequence[ev.Fact]) -> None:
        """A fact that is in no record must be told again."""
        record = SqliteStore(self._database)
        try:
            known = record.load(facts[0].at_ms if facts else 0)
        finally:
            record.close()
        for fact in facts:
            if isinstance(fact, ev.AttemptExited):
                current = known.is_current(fact.job_id, fact.attempt)
                assert not current, f"{fact} is settled, and is not committed"
        self._executor.acknowledged(facts)

    def adopt(self, active: Iterable[Job], now_ms: int) -> None:
        self._executor.adopt(active, now_ms)

    def observe(self, now_ms: int) -> list[ev.Fact]:
        return self._executor.observe(now_ms)

    def next_wakeup_ms(self) -> int | None:
        return self._executor.next_wakeup_ms()

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        return self._executor.owners(pids)


class CommittedTakeovers:
    """Takeovers that another reader of the database sees, and no others."""

    def __init__(self, inner: Takeover, database: Path) -> None:
        self._inner = inner
        self._database = database
        self.allowed: list[AllowTakeovers] = []

    def adopt(self, standbys: Iterable[Job], now_ms: int) -> None:
        self._inner.adopt(standbys, now_ms)

    def allow(self, takeovers: AllowTakeovers | None, launch_of: Callable[[int], Launch]) -> None:
        if takeovers is not None:
            record = SqliteStore(self._database)
            try:
                committed = record.load(0).takeovers.standbys
            finally:
                record.close()
            missing = {one.job_id for one in takeovers.standbys} - set(committed)
            assert not missing, f"{missing} may take over, and that is not committed"
            self.allowed.append(takeovers)
        self._inner.allow(takeovers, launch_of)

    def narrow_to(self, takeovers: AllowTakeovers | None) -> None:
        self._inner.narrow_to(takeovers)

    def take_over(self, now_ms: int) -> bool:
        return self._inner.take_over(now_ms)
