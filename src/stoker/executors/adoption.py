"""What became of the attempts of an earlier daemon: each half-finished one has a defined meaning.

| found                                   | meaning                                          |
|-----------------------------------------|--------------------------------------------------|
| an `exit`, in a ledger or its directory | it ended so                                      |
| a pid, and that very process is there   | it runs: watch it                                |
| a pid, the process is gone, no `exit`   | its end was not seen (power cut, keeper killed)  |
| a pid that another process has now      | the same: the start time tells them apart        |
| an intent, no pid, keeper says none     | it was never started: start it                   |
| an intent, no pid, nothing can say      | look for its marker; else it is lost, not rerun  |
| neither                                 | it was never started: start it                   |
| anything of an earlier boot, no `exit`  | it was running when the machine went down        |
| of another container, no `exit`         | look for its marker; else it went with that one  |
| anything of another machine, no `exit`  | it is lost, once this machine has claimed it     |
| attached: `pid` says void, or is missing | it was never started: taken back, to be tried anew |
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stoker.core.model import Exit
from stoker.executors.acceptances import Accepted, Torn, read_acceptance
from stoker.executors.attempt_dir import attempt_dir_text, exit_written_at_ms, read_exit
from stoker.executors.elsewhere import Elsewhere
from stoker.executors.environment import MARKER
from stoker.executors.ledger import LOCK_SUFFIX, Entries, Key, read_ledger
from stoker.executors.namespaces import alive_lock, located
from stoker.executors.processes import ProcessId, is_alive, members, stat_of
from stoker.locks import is_locked

# On a machine that is very busy a keeper takes its time; one that was stopped may never do it.
_KEEPER_COMPLETES_WITHIN_S = 60.0
_STOPPED_KEEPER_COMPLETES_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Living:
    """It runs."""

    process: ProcessId


@dataclass(frozen=True, slots=True)
class Unseen:
    """It runs, in a PID namespace into which we can't see."""


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


Finding = Living | Unseen | Gone | NeverStarted


class Past:
    """What earlier daemons left: their ledgers and the directories of their attempts."""

    def __init__(self, attempts: Path, ledgers: Path, elsewhere: Elsewhere | None = None) -> None:
        self._root = str(attempts)
        self._ledgers = ledgers
        self._elsewhere = elsewhere or Elsewhere(None, shared=False)
        self._entries = {path: _completed(path) for path in sorted(ledgers.glob("*.ledger"))}

    def find(self, key: Key, marker: str, attached: bool) -> Finding:
        """What became of one attempt."""
        directory = attempt_dir_text(self._root, *key)
        process, entries = self._process_of(key)
        # One that is void, or that its client could not start, was never started.
        acceptance = read_acceptance(directory) if attached else None
        earlier_boot = hidden = by_pid_alone = False
        if isinstance(acceptance, Accepted):
            earlier_boot = not acceptance.this_boot
            by_pid_alone = acceptance.namespace is None
            process = None if earlier_boot else located(acceptance)
            hidden = process is None and not earlier_boot
        out_of_reach = self._elsewhere.why_gone(key, by_pid_alone)
        if out_of_reach is not None:
            process, hidden = None, False
        held = hidden and is_locked(alive_lock(directory))
        # The order counts: a process that is gone has had its exit written before.
        alive = process is not None and is_alive(process)
        how, at_ms = self._exit_of(key, directory)
        if how is not None:
            return Gone(how, at_ms=at_ms, process=process)
        if process is not None and alive:
            return Living(process)
        if held:
            return Unseen()
        if out_of_reach is not None:
            return Gone(None, out_of_reach)
        if earlier_boot:
            return Gone(None, "it ran when the machine went down")
        if entries is not None and not entries.this_boot:
            return Gone(None, entries.why_gone)
        if process is not None or hidden:
            return Gone(None, "it is gone, and left no exit code", process=process)
        if entries is not None or isinstance(acceptance, Torn):
            found = members(f"{MARKER}={marker}".encode(), (), None)
            if found:
                return Living(found[0])
            if entries is not None and entries.in_another_namespace:
                return Gone(None, entries.why_gone)
            return Gone(None, "the daemon was killed while it started it")
        return NeverStarted()

    def taken_over_by(self, key: Key) -> Key | None:
        """The attempt whose place this one has taken."""
        for entries in self._entries.values():
            if key in entries.taken_over_by:
                return entries.taken_over_by[key]
        return None

    def kept_in_another_container(self) -> bool:
        """True if a keeper lives on this machine whose children can't be seen from here."""
        return any(
            entries.in_another_namespace and keeper_has_lock(path)
            for path, entries in self._entries.items()
        )

    def _process_of(self, key: Key) -> tuple[ProcessId | None, Entries | None]:
        """Its process, if that means something here, and the ledger that speaks of it."""
        for entries in self._entries.values():
            if key in entries.pids:
                return (entries.pids[key] if entries.is_here else None), entries
            if entries.intent == key:
                return None, entries
        return None, None

    def _exit_of(self, key: Key, directory: str) -> tuple[Exit | None, int | None]:
        """How and when it ended, by the word of its parent."""
        for entries in self._entries.values():
            if key in entries.exits:
                return entries.exits[key]
        how = read_exit(directory)
        return how, (exit_written_at_ms(directory) if how is not None else None)

    def tidy(self, active: Iterable[Key]) -> None:
        """Delete the ledgers that speak of nothing that is still going on."""
        wanted = set(active)
        for unfinished in self._ledgers.glob("*.ledger.new"):  # of a rewrite that was cut off
            unfinished.unlink(missing_ok=True)
        for path, entries in self._entries.items():
            if _keeper_lives(path, entries) or entries.intent in wanted:
                continue
            if wanted & entries.pids.keys():
                continue
            path.unlink(missing_ok=True)
            path.with_suffix(LOCK_SUFFIX).unlink(missing_ok=True)
        for lock in self._ledgers.glob(f"*{LOCK_SUFFIX}"):
            # That of a keeper whose daemon wrote no ledger.
            if not lock.with_suffix(".ledger").exists() and not keeper_has_lock(lock):
                lock.unlink(missing_ok=True)


def keeper_has_lock(ledger: Path) -> bool:
    """True if the keeper with this ledger lives, in whichever container of this machine."""
    return is_locked(ledger.with_suffix(LOCK_SUFFIX))


def _keeper_lives(path: Path, entries: Entries) -> bool:
    if entries.in_another_namespace:
        return keeper_has_lock(path)
    return entries.is_here and entries.keeper is not None and is_alive(entries.keeper)


def _completed(path: Path) -> Entries:
    """The ledger of a dead daemon, once its keeper has sorted out the last intent."""
    began = time.monotonic()
    while True:
        entries = read_ledger(path)
        if entries.complete or entries.intent is None or not _keeper_lives(path, entries):
            return entries
        ours = entries.is_here and entries.keeper is not None and entries.keeper.pid == os.getppid()
        if ours or time.monotonic() - began > _patience_s(entries):
            return entries
        time.sleep(0.01)


def _patience_s(entries: Entries) -> float:
    keeper = stat_of(entries.keeper.pid) if entries.keeper is not None and entries.is_here else None
    if keeper is None or keeper.state in "Tt":
        return _STOPPED_KEEPER_COMPLETES_WITHIN_S
    return _KEEPER_COMPLETES_WITHIN_S
