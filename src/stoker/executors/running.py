"""What the executor knows of an attempt that has a process."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.commands import Start
from stoker.core.model import Exit
from stoker.executors.ledger import Key
from stoker.executors.mps_clients import Client
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
    leftovers_kill_ms: int | None = None
    signalled: bool = False  # its processes were asked to end because it was told to stop
    mps: Client | None = None
    start: Start | None = None  # what it was started by, if we did
    loading: Loading | None = None  # until it is known that it runs its program
    not_started: CouldNotStart | None = None  # its program could not be loaded
