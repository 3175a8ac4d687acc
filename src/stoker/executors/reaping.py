"""Watching processes, and learning how they ended.

Law: how a job ended is in the ledger before its zombie is reaped. An attempt is over when the last
of its processes is gone.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Sequence

from stoker.core import events as ev
from stoker.core.commands import Start
from stoker.core.model import Exit
from stoker.executors.attempt_dir import exit_of_status, read_exit
from stoker.executors.ledger import Key
from stoker.executors.mps_clients import Client
from stoker.executors.namespaces import terminal_session
from stoker.executors.processes import Impossible, ProcessId, is_alive
from stoker.executors.running import Attempts, Loading, Running
from stoker.executors.shortage import could_not
from stoker.executors.spawn import outcome
from stoker.executors.stopping import Stopping

_LOOK_AGAIN_MS = 30
_WRITE_AGAIN_MS = 500


class Reaping:
    """All processes that are watched. `ended_well` hears of an attempt before its end is told."""

    def __init__(self, attempts: Attempts, stopping: Stopping) -> None:
        self._attempts = attempts
        self._stopping = stopping
        self.epoll = select.epoll()
        self.by_fd: dict[int, Running] = {}
        self.loading: dict[Key, Running] = {}  # those on the way to their programs
        self.again_at_ms: dict[Key, int] = {}  # when to look at some of them again
        self.ended_well: Callable[[Running], None] = lambda running: None

    def close(self) -> None:
        """Watch nothing any more."""
        for pidfd in self.by_fd:
            os.close(pidfd)
        self.epoll.close()

    def watch(
        self,
        key: Key,
        process: ProcessId,
        ours: bool,
        own_session: bool,
        grace_ms: int,
        client: Client | None = None,
        start: Start | None = None,
        pidfd: int | None = None,
        *,
        stops: bool = False,
    ) -> Running | None:
        """Hear of its end; None if it has ended between the look and now.

        `stops`: all that it has left is to end, wherever that is.
        """
        session = process.pid if own_session else self.session_of(key)
        try:
            if pidfd is None:
                pidfd = os.pidfd_open(process.pid)
            if not ours and not self._is_alive(process, pidfd):
                raise ProcessLookupError
        except ProcessLookupError:
            # Its parent has reaped it.
            how = read_exit(self._attempts.directory(key))
            if not self.watch_left(key, process, session, how, grace_ms, client, stops):
                self._attempts.over_unseen(key, how, client)
            return None
        running = Running(key, process, pidfd, ours, own_session, grace_ms, mps=client, start=start)
        running.session = session
        self._attempts.running[key] = running
        self.by_fd[pidfd] = running
        self.epoll.register(pidfd, select.EPOLLIN)
        self._attempts.cgroups.expect(key, self._attempts.now_ms)
        return running

    @staticmethod
    def _is_alive(process: ProcessId, pidfd: int) -> bool:
        """Whether a descriptor is that of the process; else it is closed."""
        alive = False
        try:
            alive = is_alive(process)
        finally:
            if not alive:
                os.close(pidfd)
        return alive

    def watch_left(
        self,
        key: Key,
        process: ProcessId,
        session: int,
        how: Exit | None,
        grace_ms: int,
        client: Client | None,
        stops: bool = False,
    ) -> bool:
        """Watch what a main process has left behind, if there is anything: it is over with that.

        Its pid may be another's by now, so only the marker tells who belongs to it.
        """
        running = Running(key, process, -1, False, False, grace_ms, session, how, mps=client)
        running.main_gone = running.ended_unseen = True
        running.asked_to_stop = stops
        if not self._stopping.left(running):
            return False
        self._attempts.running[key] = running
        self.again_at_ms[key] = self._attempts.now_ms
        return True

    def session_of(self, key: Key) -> int:
        """The session of the terminal in which an attempt began; 0 if that means nothing here."""
        return terminal_session(self._attempts.directory(key))

    def look_again(self) -> None:
        """At those whose time has come."""
        now_ms = self._attempts.now_ms
        for key in [key for key, moment in self.again_at_ms.items() if moment <= now_ms]:
            del self.again_at_ms[key]
            running = self._attempts.running[key]
            if running.main_gone or has_ended(running):
                self.mains_ended([running])

    def look_who_has_loaded(self) -> None:
        """Tell of those that run their programs by now; who could not ends, and is seen then."""
        for running in list(self.loading.values()):
            if running.loading is not None and outcome(running.loading.underway) == 0:
                self._has_loaded(running, running.loading)

    def _has_loaded(self, running: Running, loading: Loading) -> None:
        running.loading = None
        del self.loading[running.key]
        pid = running.process.pid
        self._attempts.tell(ev.AttemptStarted(loading.made_at_ms, *running.key, pid))

    def _ended_loading(self, zombie: Running, loading: Loading) -> None:
        """It is a zombie, so how its way to its program ended is known."""
        error = outcome(loading.underway)
        if error is None:
            raise Impossible(f"{zombie.key} is a zombie, and shares our memory still")
        if error == 0:
            self._has_loaded(zombie, loading)
            return
        zombie.not_started = could_not(OSError(error, ""), loading.program, own=True)
        zombie.loading = None
        del self.loading[zombie.key]

    def mains_ended(self, ended: Sequence[Running]) -> None:
        """These main processes are zombies, or gone: learn how they ended."""
        to_reap = []
        for running in ended:
            if running.exit is None and not running.main_gone:
                if running.ours:
                    to_reap.append(running)
                else:
                    self._learn_from_parent(running)
        if to_reap:
            self._learn_as_parent(to_reap)
        for running in ended:
            if running.main_gone:
                self._finish_if_alone(running)

    def _learn_as_parent(self, zombies: Sequence[Running]) -> None:
        seen = [os.waitid(os.P_PIDFD, z.pidfd, os.WEXITED | os.WNOWAIT) for z in zombies]
        ends = [exit_of_status(one.si_code, one.si_status) for one in seen if one is not None]
        try:
            keys = [zombie.key for zombie in zombies]
            ended = list(zip(keys, ends, strict=True))
            self._attempts.ledger.all_ended(ended, self._attempts.now_ms)
        except OSError:
            # The disk is full, say. The zombies keep the truth until it can be written.
            for zombie in zombies:
                self._later(zombie, _WRITE_AGAIN_MS)
            return
        for zombie, how in zip(zombies, ends, strict=True):
            if zombie.loading is not None:
                self._ended_loading(zombie, zombie.loading)
            os.waitid(os.P_PIDFD, zombie.pidfd, os.WEXITED)
            self._main_is_gone(zombie, how)

    def _learn_from_parent(self, running: Running) -> None:
        """Its keeper or client writes how it ended, then reaps it."""
        try:
            alive = is_alive(running.process)
            how = read_exit(self._attempts.directory(running.key))
        except OSError:
            self._later(running, _WRITE_AGAIN_MS)  # Too many files are open to look.
            return
        if how is None and alive:
            self._later(running, _LOOK_AGAIN_MS)
            return
        self._main_is_gone(running, how)

    def _main_is_gone(self, running: Running, how: Exit | None) -> None:
        running.exit, running.main_gone = how, True
        self.epoll.unregister(running.pidfd)
        if self.again_at_ms:
            self.again_at_ms.pop(running.key, None)

    def _later(self, running: Running, after_ms: int) -> None:
        self.again_at_ms[running.key] = self._attempts.now_ms + after_ms
        if not running.main_gone and has_ended(running):
            # Its descriptor stays readable, which would keep the loop busy.
            self.epoll.modify(running.pidfd, 0)

    def _finish_if_alone(self, running: Running) -> None:
        """The attempt is over when its last process is gone.

        What is left in its session by a job that ended by itself is asked to end, and ended after
        the grace time. A process that took a session of its own was meant to stay, unless the job
        is being stopped.
        """
        try:
            left = self._stopping.left(running)
            if not left:
                self._over(running)
                return
            self._stopping.clear_up(running, left)
        except OSError:
            self._later(running, _WRITE_AGAIN_MS)  # Too many files are open to look.
            return
        self._later(running, _LOOK_AGAIN_MS)

    def _over(self, running: Running) -> None:
        attempts = self._attempts
        if running.exit is None and running.not_started is None:
            why = "its parent was killed, so its exit code was not seen"
            attempts.vanished(running.key, why)
        del attempts.running[running.key]
        if self.again_at_ms:
            self.again_at_ms.pop(running.key, None)
        if self._stopping.rest_ms:
            self._stopping.rest_ms.pop(running.key, None)
        if running.pidfd >= 0:
            del self.by_fd[running.pidfd]
            os.close(running.pidfd)
        attempts.cgroups.over(running.key, attempts.now_ms)
        if running.not_started is not None:
            attempts.could_not(running.key, running.not_started, spent=True)
        elif running.exit is not None:
            client = None if running.asked_to_stop else running.mps
            if running.exit.ok and not running.asked_to_stop:
                self.ended_well(running)
            attempts.exited(running.key, running.exit, client, attempts.now_ms)


def has_ended(running: Running) -> bool:
    """Whether its main process is a zombie, or gone."""
    poll = select.poll()
    poll.register(running.pidfd, select.POLLIN)
    return bool(poll.poll(0))
