"""The keeper: the parent of the daemon, which inherits its jobs should the daemon die.

It is a subreaper (see prctl(2)) that does nothing while the daemon lives. When the daemon is
killed, the kernel hands it all the daemon's children, and it writes down how each of them ends,
exactly, in a directory of the attempt's own. It goes when the last of them has gone.
So no wrapper is needed around each job, and no exit code is lost.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import time
from pathlib import Path

from stoker.command_lines import SENDER_MARKER
from stoker.executors.attempt_dir import attempt_dir_text, exit_of_status, write_exit
from stoker.executors.cgroups import leave
from stoker.executors.environment import MARKER, MPS_MARKER
from stoker.executors.ledger import LOCK_SUFFIX, Entries, Key, LedgerWriter, read_ledger
from stoker.executors.processes import (
    ProcessId,
    Stat,
    children_of_this_process,
    environ_of,
    is_alive,
    stat_of,
    this_process,
)
from stoker.locks import is_locked
from stoker.machine import here

_PR_SET_CHILD_SUBREAPER = 36
_COMPLETES_WITHIN_S = 5.0
_RETRY_WRITE_S = 1.0
_LEAVES_WITHIN_S = 5.0
_LOOK_AGAIN_S = 0.005
_MPS_AGAIN_S = 5.0


def become_subreaper() -> None:
    """Orphans among our descendants become our children from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def ledger_path(ledgers: Path, keeper: ProcessId) -> Path:
    """The ledger of the daemon whose parent is that keeper.

    Other machines may have theirs there, and other containers and boots of this one.
    """
    place = here()
    name = f"{place.boot[:8]}-{place.namespace}-{keeper.pid}-{keeper.start_time}"
    return ledgers / f"{name}.ledger"


def as_word(process: ProcessId) -> str:
    """A process as the keeper tells the daemon who its keeper is."""
    return f"{process.pid}-{process.start_time}"


def keeper_of_this_process(word: str) -> ProcessId | None:
    """The keeper that started this process; None if it is gone, or if there never was one.

    A parent alone says nothing: whose keeper is killed has the first process for a parent, which
    lives for ever and completes no ledger.
    """
    parent = stat_of(os.getppid())
    return parent.id if parent is not None and as_word(parent.id) == word else None


def _hold_lock(ledger: Path) -> int:
    """Lock the file beside the ledger: to other containers, a pid would not tell that we live."""
    try:
        os.makedirs(ledger.parent, 0o700, exist_ok=True)
        path = ledger.with_suffix(LOCK_SUFFIX)
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return -1  # A full disk, or one without locks, must not keep the daemon from starting.
    return fd


class Keeper:
    """What is left to do after the daemon's death."""

    def __init__(self, attempts: Path, ledgers: Path) -> None:
        self._attempts = str(attempts)
        self._home = _identity(attempts.parent)
        self._ledger = ledger_path(ledgers, this_process())
        self._known: dict[ProcessId, Key] = {}

    def keep(self, daemon: int) -> int:
        """Wait for the daemon, then for its children; returns the daemon's exit status."""
        status: int | None = None
        while True:
            if status is not None and not self._jobs_are_left():
                end_mps(Path(self._attempts).parent)
            try:
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                return status or 0
            assert seen is not None
            if seen.si_pid == daemon or (status is None and _is_dying(daemon)):
                status = os.waitpid(daemon, 0)[1]
                self._learn_children()
                continue
            try:
                stat = stat_of(seen.si_pid)
            except OSError:
                time.sleep(_RETRY_WRITE_S)  # Too many files are open to look; the zombie waits.
                continue
            key = self._known.get(stat.id) if stat is not None else None
            if key is not None and not self._write(key, seen):
                continue
            os.waitpid(seen.si_pid, 0)

    def _jobs_are_left(self) -> bool:
        try:
            return any(is_alive(process) for process in self._known)
        except OSError:
            return True  # Too many files are open to look.

    def _write(self, key: Key, seen: os.waitid_result) -> bool:
        is_home = _identity(Path(self._attempts).parent) == self._home
        if not is_home or not os.path.isdir(self._attempts):
            return True  # All of it was removed: no one wants to know, a new home least of all.
        path = attempt_dir_text(self._attempts, *key)
        try:
            write_exit(path, exit_of_status(seen.si_code, seen.si_status))
        except OSError:
            # The disk is full, say. The zombie keeps the truth until it can be written.
            time.sleep(_RETRY_WRITE_S)
            return False
        return True

    def _learn_children(self) -> None:
        """Learn who our new children are, and try for a while to write it down.

        On a full disk, say, they are known all the same, so that no exit code is lost; the next
        daemon does not wait for ever to be told.
        """
        deadline = time.monotonic() + _COMPLETES_WITHIN_S
        while True:
            try:
                return self._complete_ledger()
            except OSError:
                if time.monotonic() > deadline:
                    return None
                time.sleep(_RETRY_WRITE_S)

    def _complete_ledger(self) -> None:
        if not self._ledger.exists():
            return
        entries = read_ledger(self._ledger)
        self._known = {process: key for key, process in entries.pids.items()}
        intent, made = entries.intent, list[Stat]()
        if intent is not None:
            # The daemon died between its intent and its note of the pid. The process says who it
            # is before it leaves our session. It is known before that is written.
            _let_children_leave()
            made = self._made_for(intent, read_ledger(self._ledger))
            if len(made) == 1:
                self._known[made[0].id] = intent
        writer = LedgerWriter(self._ledger, None)
        if intent is not None and len(made) == 1:
            writer.record(intent, made[0].id)
        elif intent is not None and not made:
            writer.withdraw()
        writer.complete()
        writer.close()

    def _made_for(self, intent: Key, entries: Entries) -> list[Stat]:
        """The children that can be the process of the last intent."""
        if entries.made is not None:
            # It may be a zombie, and is there in any case unless it could not become its program:
            # the daemon lets nothing else go before its exit is on record.
            stat = stat_of(entries.made)
            return [stat] if stat is not None and stat.parent == os.getpid() else []
        idle_copy = entries.idle_copy
        if idle_copy is not None:
            # It leads a session if it was told, which it then has heard by now; it may be a zombie.
            stat = stat_of(idle_copy.pid)
            told = stat is not None and stat.id == idle_copy and stat.session == idle_copy.pid
            return [stat] if stat is not None and told else []
        # Jobs lead their own sessions, so an unknown child that does, and that is younger than all
        # the known ones, is the one that it had just made.
        youngest = max((p.start_time for p in self._known), default=0)
        return [
            stat
            for pid in children_of_this_process() or []
            if (stat := stat_of(pid)) is not None
            and stat.id not in self._known
            and stat.session == pid
            and stat.id.start_time >= youngest
            and not _is_of_another(pid, intent)
        ]


def _identity(directory: Path) -> tuple[int, int] | None:
    try:
        stat = directory.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _is_dying(daemon: int) -> bool:
    """True if the daemon's main thread has ended, and with it, or in a moment, all of it.

    Its children become ours with its last thread, before we can wait for it: what is seen then
    is not a stranger, and must not be let go before the ledger says who he is.
    """
    try:
        stat = stat_of(daemon)
    except OSError:
        return False  # Too many files are open to look; it is asked again.
    return stat is None or stat.state in "ZX"


def _let_children_leave() -> None:
    """Wait until no child is in our own session any more, which is but for a moment.

    A child that the daemon had just forked when it was killed may not have run yet. To overlook
    it would be to run its job twice.
    """
    ours = os.getsid(0)
    deadline = time.monotonic() + _LEAVES_WITHIN_S
    while time.monotonic() < deadline:
        stats = [stat_of(pid) for pid in children_of_this_process() or []]
        if not any(s is not None and s.session == ours and s.state not in "ZX" for s in stats):
            return
        time.sleep(_LOOK_AGAIN_S)


def _is_of_another(pid: int, key: Key) -> bool:
    """True if the process has the marker of another attempt: a daemon of a job's own making.

    Or if it is MPS's, or sends messages, which is no attempt.
    """
    variables = environ_of(pid)
    name, mine = f"{MARKER}=".encode(), f":{key[0]}.{key[1]}".encode()
    markers = [one for one in variables if one.startswith(name)]
    others = (f"{MPS_MARKER}=".encode(), f"{SENDER_MARKER}=".encode())
    if not markers and any(one.startswith(others) for one in variables):
        return True
    return any(not one.endswith(mine) for one in markers)


def end_mps(home: Path) -> None:
    """End the MPS servers that no program uses any more, unless a daemon sees to them.

    Called when the last job of a daemon that is gone has ended.
    """
    root = home / "mps"
    while root.is_dir() and any(root.iterdir()) and not is_locked(home / "daemon.lock"):
        from stoker.executors.mps_control import Control

        ended = [control.end() for control in Control.found_in(root)]
        if all(ended):
            return
        time.sleep(_MPS_AGAIN_S)


def main() -> None:
    """Start the daemon given by the arguments after the two directories, and keep its children."""
    attempts, ledgers, *command = sys.argv[1:]
    first = os.getpid()
    if os.fork():
        os._exit(0)  # No one's child: what started us, a job perhaps, may end as it likes.
    while os.getppid() == first:
        time.sleep(_LOOK_AGAIN_S)  # Only then are we none of a job's, which a daemon may look for.
    leave()
    os.chdir("/")  # No file system is to be kept busy by us.
    become_subreaper()
    # A terminal's Ctrl-C or a logout is not for us: we hold the truth of running jobs.
    not_for_us = [signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT]
    for number in not_for_us:
        signal.signal(number, signal.SIG_IGN)
    me = this_process()
    command.append(as_word(me))
    lock = _hold_lock(ledger_path(Path(ledgers), me))
    daemon = os.posix_spawn(command[0], command, dict(os.environ), setsigdef=not_for_us)
    for fd in range(3, 64):
        try:
            if fd != lock:
                os.close(fd)  # The daemon's readiness pipe must close with the daemon.
        except OSError:
            pass
    Keeper(Path(attempts), Path(ledgers)).keep(daemon)


if __name__ == "__main__":
    main()
