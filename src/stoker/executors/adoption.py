"""What became of the attempts of an earlier daemon: each half-finished one has a defined meaning.

| found                                   | meaning                                          |
|-----------------------------------------|--------------------------------------------------|
| an `exit`, in a ledger or its directory | it ended so                                      |
| a pid, and that very process is there   | it runs: watch it                                |
| a pid, the process is gone, no `exit`   | nobody saw its end (power cut, keeper killed)    |
| a pid that another process has now      | the same: the start time tells them apart        |
| an intent, no pid, keeper says none     | it was never started: start it                   |
| an intent, no pid, nobody can say       | look for its marker; else it is lost, not rerun  |
| neither                                 | it was never started: start it                   |
| anything of an earlier boot, no `exit`  | it was running when the machine went down        |
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stoker.core.model import Exit
from stoker.executors.attempt_dir import (
    attempt_dir_text,
    exit_written_at_ms,
    read_exit,
    read_pid,
)
from stoker.executors.environment import MARKER
from stoker.executors.ledger import Entries, Key, read_ledger
from stoker.executors.processes import ProcessId, is_alive, members

_KEEPER_SETTLES_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Living:
    """It runs."""

    process: ProcessId


@dataclass(frozen=True, slots=True)
class Gone:
    """It has ended: how, or None and why that is not known."""

    exit: Exit | None
    why: str = ""
    at_ms: int | None = None
    process: ProcessId | None = None  # which it was, if that is known


@dataclass(frozen=True, slots=True)
class NeverStarted:
    """No process was ever made for it."""


Finding = Living | Gone | NeverStarted


class Past:
    """What earlier daemons left: their ledgers and the directories of their attempts."""

    def __init__(self, attempts: Path, ledgers: Path) -> None:
        self._root = str(attempts)
        self._ledgers = ledgers
        self._entries = {path: _settled(path) for path in sorted(ledgers.glob("*.ledger"))}

    def find(self, key: Key, marker: str, attached: bool) -> Finding:
        """What became of one attempt."""
        directory = attempt_dir_text(self._root, *key)
        process, earlier_boot, intended = self._process_of(key)
        if attached:
            process = process or read_pid(directory)
        # The order counts: a process that is gone has had its exit written before.
        alive = process is not None and is_alive(process)
        how, at_ms = self._exit_of(key, directory)
        if how is not None:
            return Gone(how, at_ms=at_ms, process=process)
        if process is not None and alive:
            return Living(process)
        if earlier_boot:
            return Gone(None, "it ran when the machine went down")
        if process is not None:
            return Gone(None, "it is gone, and left no exit code", process=process)
        if intended:
            found = members(f"{MARKER}={marker}".encode(), (), None)
            if found:
                return Living(found[0])
            return Gone(None, "the daemon was killed while it started it")
        return NeverStarted()

    def relieved_by(self, key: Key) -> Key | None:
        """The attempt whose place this one has taken."""
        for entries in self._entries.values():
            if key in entries.relieved_by:
                return entries.relieved_by[key]
        return None

    def _process_of(self, key: Key) -> tuple[ProcessId | None, bool, bool]:
        """Its process, whether that was before the last boot, and whether it may have one."""
        for entries in self._entries.values():
            if key in entries.pids:
                this_boot = entries.this_boot
                return (entries.pids[key] if this_boot else None), not this_boot, True
            if entries.intent == key:
                return None, not entries.this_boot, True
        return None, False, False

    def _exit_of(self, key: Key, directory: str) -> tuple[Exit | None, int | None]:
        """How and when it ended, by the word of whoever was its parent."""
        for entries in self._entries.values():
            if key in entries.exits:
                return entries.exits[key]
        how = read_exit(directory)
        return how, (exit_written_at_ms(directory) if how is not None else None)

    def tidy(self, active: Iterable[Key]) -> None:
        """Delete the ledgers that speak of nothing that is still going on."""
        wanted = set(active)
        for path, entries in self._entries.items():
            keeper_lives = (
                entries.this_boot and entries.keeper is not None and is_alive(entries.keeper)
            )
            if keeper_lives or entries.intent in wanted or wanted & entries.pids.keys():
                continue
            path.unlink(missing_ok=True)


def _settled(path: Path) -> Entries:
    """The ledger of a dead daemon, once its keeper has sorted out the last intent."""
    deadline = time.monotonic() + _KEEPER_SETTLES_WITHIN_S
    while True:
        entries = read_ledger(path)
        if entries.settled or entries.intent is None or not entries.this_boot:
            return entries
        if entries.keeper is None or not is_alive(entries.keeper):
            return entries
        if entries.keeper.pid == os.getppid() or time.monotonic() > deadline:
            return entries
        time.sleep(0.01)
