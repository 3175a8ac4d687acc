"""The attempts of this machine: those with processes, and what is to be told of the others."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core import events as ev
from stoker.core.commands import Start
from stoker.core.model import Exit
from stoker.executors.acceptances import Failed, read_acceptance
from stoker.executors.attempt_dir import attempt_dir_text
from stoker.executors.cgroups import cgroups
from stoker.executors.environment import marker
from stoker.executors.ledger import Key, LedgerWriter
from stoker.executors.master_ports import MasterPorts
from stoker.executors.mps_clients import Client, MpsClients
from stoker.executors.pending_facts import PendingFacts
from stoker.executors.processes import ProcessId
from stoker.executors.shortage import CouldNotStart


@dataclass(frozen=True, slots=True)
class Loading:
    """A process that was made a moment ago, on its way to its program."""

    underway: object
    program: str
    made_at_ms: int


@dataclass(slots=True)
class Running:
    """An attempt with a process, or with processes that its main process left behind."""

    key: Key
    process: ProcessId
    pidfd: int
    ours: bool  # we are its parent; else its keeper or its client is
    own_session: bool
    grace_ms: int
    session: int = 0  # in which it began; 0: not known
    exit: Exit | None = None  # set when the main process has ended
    main_gone: bool = False
    ended_unseen: bool = False  # before we were there
    asked_to_stop: bool = False
    asked: frozenset[ProcessId] = frozenset()  # those that got their SIGTERM
    unclear_until_ms: int | None = None  # whether what it has left behind is meant to stay
    leftovers_kill_ms: int | None = None
    signalled: bool = False  # its processes were asked to end because it was told to stop
    rest_asked_ms: int | None = None  # when those that left its session are asked, too
    mps: Client | None = None
    start: Start | None = None  # what it was started by, if we did
    loading: Loading | None = None  # until it is known that it runs its program
    not_started: CouldNotStart | None = None  # its program could not be loaded


class Attempts:
    """What the parts of the local executor share."""

    def __init__(self, root: str, instance: str, ledger: LedgerWriter, mps: MpsClients) -> None:
        self.root = root
        self.instance = instance
        self.ledger = ledger
        self.mps = mps
        self.cgroups = cgroups(instance)
        self.running: dict[Key, Running] = {}
        self.taken_over_by: dict[Key, Key] = {}  # those whose places were taken
        self.ports = MasterPorts()
        self.pending = PendingFacts()
        self.tell = self.pending.tell
        self.short: CouldNotStart | None = None  # what starts of this turn have failed for
        self.now_ms = 0

    def directory(self, key: Key) -> str:
        """Of an attempt."""
        return attempt_dir_text(self.root, *key)

    def marker(self, key: Key) -> str:
        """What the environment of an attempt's processes tells of it."""
        return marker(self.instance, *key)

    def clients(self) -> list[Client | None]:
        """Those that use MPS now."""
        return [running.mps for running in self.running.values()]

    def exited(self, key: Key, how: Exit, client: Client | None, at_ms: int) -> None:
        """Tell how an attempt ended, at once or when it is known whether its MPS server failed."""
        if client is None or how.ok:
            self.tell(ev.AttemptExited(at_ms, *key, how, taken_over_by=self.taken_over_by.get(key)))
        else:
            self.mps.examine(key, how, client, at_ms)

    def vanished(self, key: Key, why: str) -> None:
        """No process and no exit code are left; a client may have put down that it never began.

        OSError: that can't be told now.
        """
        acceptance = read_acceptance(self.directory(key))
        if isinstance(acceptance, Failed):
            why, cause = acceptance.why, acceptance.cause
            self.tell(ev.AttemptNotStarted(self.now_ms, *key, why, cause))
        else:
            self.tell(ev.AttemptVanished(self.now_ms, *key, why))

    def over_unseen(self, key: Key, how: Exit | None, client: Client | None = None) -> None:
        """Another process saw the end of an attempt, and wrote down how it ended, or did not."""
        if how is not None:
            self.exited(key, how, client, self.now_ms)
        else:
            self.vanished(key, "it left no exit code")

    def could_not(self, key: Key, failure: CouldNotStart, *, spent: bool = False) -> None:
        """Tell why an attempt has no process, by its own fault or for want of something."""
        short = failure.short
        if short is None:
            self.tell(ev.AttemptNotStarted(self.now_ms, *key, str(failure)))
            return
        if not short.alone:
            self.short = failure
        self.tell(ev.AttemptPutBack(self.now_ms, *key, short.what, short.alone, spent))
