"""The processes of an attempt: which there are, and how they are warned, asked and made to end.

An attempt that is told to stop meets what Ctrl-C or `kill` would be in a terminal: those in the
session of its main process are asked to end. A helper that took a session of its own
(`torch_shm_manager`) cleans up when the process that it serves ends, and is given a moment for it
once the last of those that were asked has gone: a shell goes at once, its program saves its work.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress

from stoker.executors.environment import KEEP_CHILDREN, MARKER
from stoker.executors.ledger import Key
from stoker.executors.processes import (
    ProcessId,
    catches,
    environ_of,
    group_exists,
    members,
    send,
    stat_of,
    topmost,
)  # fmt: skip
from stoker.executors.running import Attempts, Running

_KEPT = f"{KEEP_CHILDREN}=1".encode()
_MOMENT_MS = 1000
_LOOK_AGAIN_MS = 500


class Stopping:
    """Signals to all processes of an attempt."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self.rest_ms: dict[Key, int] = {}  # when to ask all of each, whatever still goes on

    def stop(self, running: Running, force: bool) -> None:
        """Ask all of its processes to end; with `force`, end them."""
        running.asked_to_stop = True
        if not self._may_signal(running, force):
            return  # The order comes again, and we are woken when it can be carried out.
        if force:
            for process in self._members_or_main(running, signal.SIGKILL):
                send(process, signal.SIGKILL)
        elif not running.signalled:
            found = self._members_or_main(running, signal.SIGTERM)
            _ask_to_end(running, _in_session(running, found))
            running.signalled = True  # Not if there were no files to look: the order comes again.
            # A process that goes on and does not pass it on would leave the others unwarned.
            self.rest_ms[running.key] = self._attempts.now_ms + running.grace_ms // 2

    def ask_the_rest(self) -> None:
        """Half of the grace time is over, and the attempt is not: ask all that there are."""
        now_ms = self._attempts.now_ms
        for key in [key for key, moment_ms in self.rest_ms.items() if moment_ms <= now_ms]:
            running = self._attempts.running[key]
            try:
                if self._may_signal(running, False):
                    _ask_to_end(running, self._members(running))
                del self.rest_ms[key]
            except OSError:
                self.rest_ms[key] = now_ms + _LOOK_AGAIN_MS  # Too many files are open to look.

    def warn(self, running: Running, number: int) -> None:
        """Send a signal to the topmost of its processes that are prepared for it."""
        # A shell or a data loader without a handler would die of it; those that are prepared
        # for it may be anywhere in the tree. What they have forked has inherited the handler, and
        # would save the same checkpoint at the same time.
        prepared = [p for p in self._members(running) if catches(p, number)]
        for process in topmost(prepared) or [running.process]:
            send(process, number)

    def clear_up(self, running: Running, left: Sequence[ProcessId]) -> None:
        """Let these end, which its main process left behind: at once, or after the grace time."""
        now_ms = self._attempts.now_ms
        if running.asked_to_stop:
            if any(one in running.asked for one in _in_session(running, left)):
                running.rest_asked_ms = None  # It may save its work, and need its helpers for it.
                return
            if running.rest_asked_ms is None:
                running.rest_asked_ms = now_ms + min(_MOMENT_MS, running.grace_ms // 2)
            if now_ms < running.rest_asked_ms:
                return
        else:
            left = self._known_to_end(running, left)
        if self._may_signal(running, force=False):
            _ask_to_end(running, left)
        if running.asked_to_stop:
            return
        if running.leftovers_kill_ms is None:
            running.leftovers_kill_ms = now_ms + running.grace_ms
        elif now_ms >= running.leftovers_kill_ms and self._may_signal(running, force=True):
            for process in left:
                send(process, signal.SIGKILL)

    def _known_to_end(self, running: Running, left: Sequence[ProcessId]) -> Sequence[ProcessId]:
        """All but those that have no environment, for a moment.

        A process that is just loading its program has none, and may be meant to stay.
        """
        if running.unclear_until_ms is None:
            running.unclear_until_ms = self._attempts.now_ms + _MOMENT_MS
        if self._attempts.now_ms >= running.unclear_until_ms:
            return left
        return [one for one in left if any(environ_of(one.pid))]

    def left(self, running: Running) -> list[ProcessId]:
        """What its main process left behind, and what is to end with it."""
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
        return [process for process in left if _KEPT not in environ_of(process.pid)]

    def _may_signal(self, running: Running, force: bool) -> bool:
        """True unless it has GPU work under MPS that is to be ended first.

        What a neighbour of one that is killed in the middle of its work loses is not ours to lose.
        """
        return running.mps is None or self._attempts.mps.may_signal(
            running.mps, force, lambda: [process.pid for process in self._members(running)]
        )

    def _members_or_main(self, running: Running, number: int) -> list[ProcessId]:
        """Its processes. Where no file can be opened to look for them, its main process is sent
        the signal at once, for which there is a descriptor: it may have yet to begin.
        """
        try:
            return self._members(running)
        except OSError:
            again = number == signal.SIGTERM and running.process in running.asked
            if not running.main_gone and not again:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(running.pidfd, number)
                if number == signal.SIGTERM:
                    running.asked |= {running.process}
            raise

    def _members(self, running: Running) -> list[ProcessId]:
        # One that has left all of these was meant to stay when the job ends by itself.
        return self.all_processes(running) if running.asked_to_stop else self._found(running)

    def all_processes(self, running: Running) -> list[ProcessId]:
        """Its living processes, also those that only its cgroup still tells of."""
        found = self._found(running)
        in_cgroup = self._attempts.cgroups.members(running.key)
        return found + [one for one in in_cgroup if one not in found]

    def _found(self, running: Running) -> list[ProcessId]:
        pid = running.process.pid
        roots = () if running.main_gone else (pid,)
        return members(
            f"{MARKER}={self._attempts.marker(running.key)}".encode(),
            roots,
            pid if running.own_session else None,
        )


def _in_session(running: Running, processes: Sequence[ProcessId]) -> list[ProcessId]:
    """Those in the session of its main process; all of them if that is not known."""
    stats = [(process, stat_of(process.pid)) for process in processes]
    sessions = {stat.session for process, stat in stats if stat and process == running.process}
    sessions |= {running.session} - {0}
    return [p for p, stat in stats if not sessions or (stat and stat.session in sessions)]


def _ask_to_end(running: Running, processes: Iterable[ProcessId]) -> None:
    """SIGTERM, once for each process: some count them."""
    for process in processes:
        if process not in running.asked:
            send(process, signal.SIGTERM)
            running.asked |= {process}
            send(process, signal.SIGCONT)  # A stopped process can't heed it otherwise.
