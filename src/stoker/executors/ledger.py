"""The ledger of a daemon's children: which pid is which attempt, and how it ended.

Lines are only ever appended. An `intent` stands there before its process is made and a `pid` after,
so at most one intent, the last, has no pid when the daemon is killed: the process, if there is
one, is then the one unknown child. The keeper, which inherits the children of a dead daemon,
writes `settled` when it has sorted that out. An `exit` stands there before its zombie is reaped.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

from stoker.core.model import Exit
from stoker.executors.processes import ProcessId, boot_id

Key = tuple[int, int]  # job id, attempt
_REWRITE_AT_BYTES = 8 * 1024 * 1024
_TORN = b" torn\n"  # put behind a line without its end, which then reads as none


@dataclass(slots=True)
class Entries:
    """What a ledger says."""

    boot: str = ""
    keeper: ProcessId | None = None
    pids: dict[Key, ProcessId] = field(default_factory=dict)
    exits: dict[Key, tuple[Exit, int]] = field(default_factory=dict)  # how, and when
    intent: Key | None = None  # the last one, if no pid followed
    settled: bool = False

    @property
    def this_boot(self) -> bool:
        """False if the machine was started anew since: then no pid means anything."""
        return self.boot == boot_id()


class LedgerWriter:
    """The daemon's (and, after its death, the keeper's) end of a ledger."""

    def __init__(self, path: Path, keeper: ProcessId | None) -> None:
        self.path = path
        self._keeper = keeper
        self._live: dict[Key, ProcessId] = {}
        self._ended: dict[Key, str] = {}
        self._owed: list[str] = []
        self._rewrite_at = _REWRITE_AT_BYTES
        self._open(fresh=not path.exists())

    def intend(self, key: Key) -> None:
        """A process for this attempt is about to be made."""
        self._pay()
        self._append(f"intent {key[0]} {key[1]}\n")

    def record(self, key: Key, process: ProcessId) -> None:
        """The process for this attempt has been made."""
        self._live[key] = process
        line = f"pid {key[0]} {key[1]} {process.pid} {process.start_time}\n"
        try:
            self._append(line)
        except OSError:
            # With the disk full the open intent stands for it, and the keeper would find it. No
            # other process is made before it is written.
            self._owed.append(line)

    def ended(self, key: Key, how: Exit, at_ms: int) -> None:
        """The main process of this attempt has ended so, and is about to be reaped."""
        number = f"exited {how.code}" if how.signal is None else f"signalled {how.signal}"
        line = f"exit {key[0]} {key[1]} {number} {at_ms}\n"
        self._append(line)
        self._ended[key] = line

    def withdraw(self) -> None:
        """No process was made for the last intent."""
        self._pay()
        self._append("none\n")

    def settle(self) -> None:
        """The daemon is dead, and its last intent has been sorted out."""
        self._append("settled\n")

    def forget(self, key: Key) -> None:
        """An attempt is over and committed."""
        self._live.pop(key, None)
        self._ended.pop(key, None)
        if self._size > self._rewrite_at:
            self._rewrite()

    def close(self) -> None:
        """Write no more."""
        os.close(self._fd)

    def _pay(self) -> None:
        """Write the pids for which there was no room."""
        while self._owed:
            self._append(self._owed[0])
            self._owed.pop(0)

    def _open(self, fresh: bool) -> None:
        flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size
        last = os.pread(self._fd, 1, self._size - 1) if self._size else b"\n"
        self._torn = last != b"\n"
        if fresh:
            keeper = self._keeper or ProcessId(0, 0)
            self._append(f"ledger {boot_id()} {keeper.pid} {keeper.start_time}\n")

    def _append(self, line: str) -> None:
        """All of the line, or (raising OSError) nothing that counts."""
        data = line.encode("ascii")
        if self._torn:
            data = _TORN + data
        written = os.write(self._fd, data)
        self._size += written
        self._torn = written < len(data)
        if self._torn:
            # A disk that is all but full takes a part of it.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _rewrite(self) -> None:
        """Drop what is over. Only ever done between two starts, when no intent is open."""
        self._rewrite_at = self._size * 2  # Unless it succeeds, which sets it anew.
        beside = self.path.with_name(self.path.name + ".new")
        try:
            beside.unlink(missing_ok=True)
            short = LedgerWriter(beside, self._keeper)
        except OSError:
            return  # With the disk full the long one does as well.
        for key, process in self._live.items():
            short.record(key, process)
        short._owed += self._ended.values()
        try:
            short._pay()
        except OSError:
            short.close()
            return
        os.rename(beside, self.path)
        os.close(self._fd)
        self._fd, self._size, self._torn = short._fd, short._size, short._torn
        self._rewrite_at = _REWRITE_AT_BYTES


def read_ledger(path: Path) -> Entries:
    """Everything that a ledger says; a line cut short by a crash is passed over."""
    entries = Entries()
    try:
        text = path.read_text(encoding="ascii")
    except OSError:
        return entries
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        try:
            _take(entries, line.split())
        except ValueError:
            continue  # Its end is missing.
    return entries


def _take(entries: Entries, words: list[str]) -> None:
    match words:
        case ["ledger", boot, pid, start_time]:
            entries.boot = boot
            if pid != "0":
                entries.keeper = ProcessId(int(pid), int(start_time))
        case ["intent", job_id, attempt]:
            entries.intent = (int(job_id), int(attempt))
        case ["pid", job_id, attempt, pid, start_time]:
            key = (int(job_id), int(attempt))
            entries.pids[key] = ProcessId(int(pid), int(start_time))
            if entries.intent == key:
                entries.intent = None
        case ["exit", job_id, attempt, ("exited" | "signalled") as word, number, at_ms]:
            key = (int(job_id), int(attempt))
            value = int(number)
            how = Exit(code=value) if word == "exited" else Exit(signal=value)
            entries.exits[key] = (how, int(at_ms))
            if entries.intent == key:
                entries.intent = None
        case ["none"]:
            entries.intent = None
        case ["settled"]:
            entries.settled = True
