"""A process that outlives its parent by a moment, to give back what the parent held.

Law: it holds nothing of its parent's but one end of a pipe, whose closing tells it that the parent
is gone, by whatever signal.
"""

from __future__ import annotations

import os
import select
import signal
from typing import NoReturn

from stoker.api.client import Client
from stoker.cli.processtree import kill_tree, signal_tree, start_time
from stoker.errors import StokerError

_GRACE_S = 10.0


class Guardian:
    """Stops a task whose scheduler died; use it as a context around the task's life.

    It has to be entered before the task is started and before there are threads.
    """

    def __init__(self, job_id: int, directory: str) -> None:
        self._job_id = job_id
        self._directory = directory  # of the attempt: the pid of its process is written there
        self._pid = 0
        self._pipe = -1

    def __enter__(self) -> Guardian:
        watched, self._pipe = os.pipe()
        # The terminal's signals are for the task; they stay blocked in the process that guards it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._pid = os.fork()
            if self._pid == 0:
                self._guard(watched)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(watched)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.write(self._pipe, b".")
        except OSError:
            pass  # It was killed before us.
        os.close(self._pipe)
        os.waitpid(self._pid, 0)

    def _guard(self, watched: int) -> NoReturn:
        try:
            _let_go_of_all_but(watched)
            if not os.read(watched, 1):
                self._stop()
        finally:
            os._exit(0)

    def _stop(self) -> None:
        try:
            with Client(autostart=False) as client:
                client.call("cancel", select={"ids": [str(self._job_id)]})
        except StokerError:
            # Without a daemon the task is stopped all the same; the next daemon finds it gone.
            self._stop_by_hand()

    def _stop_by_hand(self) -> None:
        try:
            with open(os.path.join(self._directory, "pid"), encoding="ascii") as file:
                pid, started = map(int, file.read().split()[:2])
            process = os.pidfd_open(pid)
        except (OSError, ValueError):
            return
        if start_time(pid) == started:
            signal_tree(pid, signal.SIGTERM)
            ended = select.poll()
            ended.register(process, select.POLLIN)
            if not ended.poll(_GRACE_S * 1000):
                kill_tree(pid)


def _let_go_of_all_but(fd: int) -> None:
    """Let go of the terminal, of all streams and of the directory."""
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.closerange(3, fd)
    os.closerange(fd + 1, os.sysconf("SC_OPEN_MAX"))
