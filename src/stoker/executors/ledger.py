"""The ledger of a daemon's children: which pid is which attempt, and how it ended.

Lines are only ever appended. An `intent` stands there before its process is made and a `pid` before
the next one is, so at most one intent, the last, has no pid when the daemon is killed. The process,
if there is one, has then written `made` itself, before it became its program; where it can't (see
`spawn`) it is the one unknown child. If the process was there already, and was only to be told (see
`warm_servers`), the intent names it. The keeper, which inherits the children of a dead
daemon, writes `settled` when it has sorted that out. An `exit` stands there before its zombie is
reaped.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.core.model import Exit
from stoker.executors.processes import ProcessId
from stoker.machine import Place, boot_id, here

log = logging.getLogger("stoker.daemon")

Key = tuple[int, int]  # job id, attempt
LOCK_SUFFIX = ".keeper"  # the file beside a ledger that its keeper has locked while it lives
_REWRITE_AT_BYTES = 8 * 1024 * 1024
_TORN = b" torn\n"  # put behind a line without its end, which then reads as none


@dataclass(slots=True)
class Entries:
    """What a ledger says."""

    boot: str = ""
    place: Place | None = None  # None: an earlier version wrote it
    keeper: ProcessId | None = None
    pids: dict[Key, ProcessId] = field(default_factory=dict)
    exits: dict[Key, tuple[Exit, int]] = field(default_factory=dict)  # how, and when
    intent: Key | None = None  # the last one, if no pid followed
    idle_copy: ProcessId | None = None  # which was to become that one's process
    made: int | None = None  # the pid that this one's process has written itself
    complete: bool = False
    taken_over_by: dict[Key, Key] = field(default_factory=dict)  # by which, whose place was taken

    @property
    def this_boot(self) -> bool:
        """False if the machine was started anew since, or is another one."""
        return self.boot == boot_id()

    @property
    def is_here(self) -> bool:
        """False if no pid in it means anything here."""
        return self.this_boot and (self.place is None or here().sees(self.place))

    @property
    def in_another_namespace(self) -> bool:
        """True if it is of a container on this machine that is not ours; or of its host."""
        return self.this_boot and not self.is_here

    @property
    def why_gone(self) -> str:
        """Why what it speaks of is lost, if it is not here and has no exit."""
        if self.in_another_namespace:
            return "its container ended"
        if self.place is None or self.place.machine == here().machine:
            return "it ran when the machine went down"
        return f"it ran on {self.place.host}, and this machine has its state now"


class LedgerWriter:
    """The daemon's (and, after its death, the keeper's) end of a ledger."""

    def __init__(self, path: Path, keeper: ProcessId | None) -> None:
        self.path = path
        self._keeper = keeper
        self._live: dict[Key, ProcessId] = {}
        self._ended: dict[Key, str] = {}
        self._follows: dict[Key, Key] = {}  # whose place was taken, until that is committed
        self._owed: list[str] = []
        self._rewrite_at = _REWRITE_AT_BYTES
        self._open(fresh=not path.exists())

    def intend(
        self, key: Key, follows: Key | None = None, idle_copy: ProcessId | None = None
    ) -> None:
        """A process for this attempt is about to be made, maybe in the place of another.

        Or an idle copy is about to be told that it is this attempt's.
        """
        by = "" if idle_copy is None else f" by {idle_copy.pid} {idle_copy.start_time}"
        self._append_after_owed(f"{_intent(key, follows)}{by}\n")
        if follows is not None:
            self._follows[key] = follows
        elif self._follows:
            self._follows.pop(key, None)  # It was to take a place, and could not.

    def note_for(self, key: Key) -> tuple[int, bytes]:
        """Where the process for this attempt writes its pid itself, and the beginning of that line.

        It has no room for its start time, and needs none: its parent, daemon or keeper, does not
        let its pid go to another before its exit is on record.
        """
        return self._fd, b"made %d %d " % key

    def record(self, key: Key, process: ProcessId) -> None:
        """The process for this attempt has been made."""
        self.record_soon(key, process)
        self.pay()

    def record_soon(self, key: Key, process: ProcessId) -> None:
        """The same, written with the next intent or by `pay`. Until then its intent is open."""
        self._live[key] = process
        self._owed.append(f"pid {key[0]} {key[1]} {process.pid} {process.start_time}\n")

    def pay(self) -> None:
        """Write the pids that are not written yet."""
        if self._owed:
            try:
                self._append_after_owed("")
            except OSError:
                # With the disk full the open intent stands for it, and the keeper would find it.
                # No other process is made before it is written.
                pass

    def ended(self, key: Key, how: Exit, at_ms: int) -> None:
        """The main process of this attempt has ended so, and is about to be reaped."""
        self.all_ended([(key, how)], at_ms)

    def all_ended(self, ends: Sequence[tuple[Key, Exit]], at_ms: int) -> None:
        """The same of several."""
        lines = [_exit_line(key, how, at_ms) for key, how in ends]
        self._append("".join(lines))
        for (key, _), line in zip(ends, lines, strict=True):
            self._ended[key] = line

    def withdraw(self) -> None:
        """No process was made for the last intent."""
        self._append_after_owed("none\n")

    def complete(self) -> None:
        """The daemon is dead, and its last intent has been sorted out."""
        self._append_after_owed("settled\n")  # Never without the pid of that intent.

    def forget(self, key: Key) -> None:
        """An attempt is over and committed, and with it who took its place."""
        self._live.pop(key, None)
        self._ended.pop(key, None)
        self._follows.pop(key, None)
        if self._size > self._rewrite_at:
            self._rewrite()

    def close(self) -> None:
        """Write no more."""
        os.close(self._fd)

    def _append_after_owed(self, line: str) -> None:
        if self._owed:
            line = "".join([*self._owed, line])
        self._append(line)
        self._owed.clear()

    def _open(self, fresh: bool) -> None:
        flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size
        last = os.pread(self._fd, 1, self._size - 1) if self._size else b"\n"
        self._torn = last != b"\n"
        if fresh:
            keeper = self._keeper or ProcessId(0, 0)
            place = here()
            host = place.host.encode("ascii", "replace").decode("ascii")
            try:
                self._append(
                    f"ledger {place.boot} {keeper.pid} {keeper.start_time}\n"
                    f"place {place.machine or '-'} {host or '-'} {place.namespace}\n"
                )
            except OSError:
                self.close()
                raise

    def _append(self, lines: str) -> None:
        """All of the lines; or (raising OSError) some, and nothing of the one after these."""
        data = lines.encode("ascii")
        if self._torn:
            data = _TORN + data
        written = os.write(self._fd, data)
        self._size += written
        self._torn = written < len(data)
        if self._torn:
            # A disk that is all but full takes a part of it.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _rewrite(self) -> None:
        """Drop what is over. Only ever done between two starts, when no intent is open.

        All that `adoption` may ask for stays: which processes there are, how they ended, and who
        took whose place, until each of these is committed.
        """
        self._rewrite_at = self._size * 2  # Unless it succeeds, which sets it anew.
        beside = self.path.with_name(self.path.name + ".new")
        try:
            beside.unlink(missing_ok=True)
            short = LedgerWriter(beside, self._keeper)
        except OSError:
            return  # With the disk full the long one does as well.
        for key, process in self._live.items():
            follows = self._follows.get(key)
            if follows in self._live:  # Else it is committed.
                short._owed.append(f"{_intent(key, follows)}\n")
            short.record_soon(key, process)
        short._owed += self._ended.values()
        try:
            short._append_after_owed("")
            os.rename(beside, self.path)
        except OSError:
            short.close()
            return
        os.close(self._fd)
        self._fd, self._size, self._torn = short._fd, short._size, short._torn
        self._rewrite_at = _REWRITE_AT_BYTES


def _intent(key: Key, follows: Key | None) -> str:
    place = "" if follows is None else f" for {follows[0]} {follows[1]}"
    return f"intent {key[0]} {key[1]}{place}"


def _exit_line(key: Key, how: Exit, at_ms: int) -> str:
    number = f"exited {how.code}" if how.signal is None else f"signalled {how.signal}"
    return f"exit {key[0]} {key[1]} {number} {at_ms}\n"


def read_ledger(path: Path) -> Entries:
    """Everything that a ledger says.

    A line that was cut short by a crash is passed over, and so is one that a bad disk has spoilt.
    """
    entries = Entries()
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return entries
    for number, line in enumerate(lines[:-1], 1):  # What is after the last end has none.
        if not line.isascii():
            log.warning("%s: line %d can't be read, and is passed over", path, number)
            continue
        try:
            _take(entries, line.decode("ascii").split())
        except ValueError:
            continue  # Its end is missing.
    return entries


def _take(entries: Entries, words: list[str]) -> None:
    match words:
        case ["ledger", boot, pid, start_time]:
            entries.boot = boot
            if pid != "0":
                entries.keeper = ProcessId(int(pid), int(start_time))
        case ["place", machine, host, namespace]:
            entries.place = Place(machine.strip("-"), host, entries.boot, namespace)
        case ["intent", job_id, attempt, *more, "by", pid, start_time]:
            idle_copy = ProcessId(int(pid), int(start_time))
            _take(entries, ["intent", job_id, attempt, *more])
            entries.idle_copy = idle_copy
        case ["intent", job_id, attempt]:
            entries.intent = (int(job_id), int(attempt))
            entries.idle_copy = entries.made = None
        case ["intent", job_id, attempt, "for", followed_id, followed_attempt]:
            _take(entries, ["intent", job_id, attempt])
            assert entries.intent is not None
            entries.taken_over_by[entries.intent] = (int(followed_id), int(followed_attempt))
        case ["made", job_id, attempt, pid] if entries.intent == (int(job_id), int(attempt)):
            entries.made = int(pid)
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
            if entries.intent is not None:
                entries.taken_over_by.pop(entries.intent, None)
            entries.intent = None
        case ["settled"]:
            entries.complete = True
