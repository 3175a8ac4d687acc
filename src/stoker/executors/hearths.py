"""Hearths: processes that have loaded what calls use, and of which those of calls are copies.

Each copy is made ahead, as a *spare*: a child of the daemon like any attempt's process, known by
pid and start time, that waits to be told which attempt it is. So to give an attempt a spare is to
send one message, and nobody waits for an answer. A spare that was told nothing ends with the
daemon. The other end of all this is library/hearth.py.

Law: a hearth only saves time. Where there is no spare at the moment an attempt is started as usual,
and whatever becomes of a hearth, no attempt notices.
"""

from __future__ import annotations

import array
import logging
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stoker import command_lines
from stoker.command_lines import WARM, call_of
from stoker.core.commands import Start
from stoker.core.model import Launch
from stoker.executors.environment import ENCODING, ERRORS, MARKER, additions, encoded
from stoker.executors.ledger import LedgerWriter
from stoker.executors.processes import ProcessId, stat_of
from stoker.executors.shortage import CouldNotStart
from stoker.executors.spawn import Made, Spawner, Streams

log = logging.getLogger("stoker.daemon")

_MOST_HEARTHS = 4
_SPARES = 8
_IDLE_S = 60.0
_END_WITHIN_S = 1.0
# Longer than the marker of any attempt, in whose place it is; and of none.
_ROOM = 64


class SpareGone(Exception):
    """It was not told anything, and never will be: start the attempt as usual."""


@dataclass(slots=True)
class Spare:
    """A copy that waits for its attempt."""

    process: ProcessId
    _link: socket.socket

    def become(
        self, words: Sequence[str], cwd: str, variables: Mapping[str, str], streams: Streams
    ) -> Made:
        """Tell it which attempt it is; or (raising SpareGone) it has heard nothing."""
        said = [one.encode(ENCODING, ERRORS) for one in (cwd, str(len(words)), *words)]
        said += encoded(variables)
        order = b"\0".join(said)
        if order.count(b"\0") >= len(said):
            raise SpareGone  # The usual way to start it says what is wrong.
        try:
            _send(self._link, order, streams)
        except OSError:
            raise SpareGone from None
        self._link.close()
        return Made(self.process.pid, process=self.process)

    def let_go(self) -> None:
        """It ends, unless it was told something."""
        self._link.close()


class Wish(NamedTuple):
    """An attempt that is to have a process."""

    words: list[str]
    launch: Launch
    start: Start
    variables: Mapping[str, str]  # that it has in its environment over what it has anyway
    log: str
    intend: Callable[..., None]  # tells the ledger, with the `spare` if there is one


@dataclass(frozen=True, slots=True)
class _Kind:
    """What calls have in common that can have the same hearth."""

    python: str
    worker: str
    calls: str  # the directory in which their submitter has them
    modules: str
    cwd: str
    maker: str
    env: Mapping[str, str]
    extra_env: Mapping[str, str]
    umask: int | None  # which its copies have from it


@dataclass(slots=True)
class _Hearth:
    kind: _Kind
    pid: int
    control: socket.socket
    asked: dict[int, socket.socket] = field(default_factory=dict)
    spares: deque[Spare] = field(default_factory=deque)
    numbers: int = 0
    out: bool = False  # it has ended, or was told to
    useful: bool = False  # it has given spares

    def ask(self) -> None:
        """Have it make one more spare."""
        try:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return  # Too many files are open: then there is one spare less.
        self.numbers += 1
        try:
            _send(self.control, b"%d" % self.numbers, [its.fileno()])
        except OSError:
            ours.close()  # It has ended, or does nothing at all.
        else:
            self.asked[self.numbers] = ours
        finally:
            its.close()

    def hear(self) -> None:
        """Take what was said."""
        while True:
            try:
                said = self.control.recv(1024, socket.MSG_DONTWAIT)
            except ConnectionResetError:
                continue  # It ended before it had heard all; what it said is still there.
            except OSError:
                return
            if not said:
                return  # All have hung up.
            word, _, rest = said.partition(b" ")
            if word == b"no":
                why = rest.decode(errors="replace")
                log.info("calls with warm=[%s] start cold: %s", self.kind.modules, why)
                continue
            link = self.asked.pop(int(word))
            try:
                stat = stat_of(int(rest))
            except OSError:
                stat = None
            if stat is None:
                link.close()  # It is there, but too many files are open to look at it.
                continue
            self.spares.append(Spare(stat.id, link))
            self.useful = True


class Hearths:
    """All hearths of a daemon. `fileno` becomes readable when one of their processes has ended."""

    def __init__(self, instance: str, spawner: Spawner) -> None:
        self._instance = instance
        self._spawner = spawner
        self._epoll = select.epoll()
        self._hearths: list[_Hearth] = []  # the one that was used last is last
        self._by_control: dict[int, _Hearth] = {}
        self._leaving: list[int] = []  # pidfds

    def fileno(self) -> int:
        """See the class."""
        return self._epoll.fileno()

    def close(self) -> None:
        """The daemon ends, and hearths and spares with it."""
        for hearth in self._by_control.values():
            self._put_out(hearth)
        deadline = time.monotonic() + _END_WITHIN_S
        while (self._by_control or self._leaving) and time.monotonic() < deadline:
            self._epoll.poll(_END_WITHIN_S, 1)
            self.heard()
        for pidfd in self._leaving:
            os.close(pidfd)
        self._epoll.close()

    def made(self, wish: Wish, ledger: LedgerWriter) -> Made | None:
        """The process of an attempt that wants to be warm, if it can have one; else no trace."""
        if not wish.words[-1].startswith(WARM):
            return None
        spare = self._spare_for(wish)
        if spare is None:
            return None
        launch = wish.launch
        try:
            wish.intend(spare=spare.process)
            env = {**additions(launch, wish.start, self._instance), **wish.variables}
            with self._spawner.place(launch, wish.log, wish.start.attempt) as streams:
                return spare.become(wish.words, launch.cwd, env, streams)
        except SpareGone:
            self._let_go(spare)
            ledger.withdraw()
            return None
        except BaseException:
            self._let_go(spare)
            raise

    def _spare_for(self, wish: Wish) -> Spare | None:
        kind = _kind(wish)
        if kind is None:
            return None
        hearth = self._found(kind)
        if hearth is None:
            self._begin(kind, wish)
            return None
        if not hearth.out:
            hearth.hear()
        if not hearth.spares:
            return None
        spare = hearth.spares.popleft()
        hearth.ask()
        return spare

    def heard(self) -> None:
        """Look who has ended."""
        for fd, _ in self._epoll.poll(0):
            if fd in self._by_control:
                self._has_ended(self._by_control.pop(fd))
            elif os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG) is not None:
                self._leaving.remove(fd)
                self._epoll.unregister(fd)
                os.close(fd)

    def _let_go(self, spare: Spare) -> None:
        """This one is of no use: it has ended, or is to end."""
        spare.let_go()
        self._see_off(spare.process.pid)

    def _found(self, kind: _Kind) -> _Hearth | None:
        for at, hearth in enumerate(self._hearths):
            if hearth.kind == kind:
                self._hearths.append(self._hearths.pop(at))
                return hearth
        return None

    def _begin(self, kind: _Kind, wish: Wish) -> None:
        if len(self._hearths) >= _MOST_HEARTHS:
            eldest = self._hearths[0]
            self._put_out(eldest)
            self._forget(eldest)
        argv = command_lines.hearth(kind.python, kind.worker, kind.modules, _IDLE_S)
        nowhere = replace(wish.start, gpus=(), labels=())
        env = {**wish.launch.env, **additions(wish.launch, nowhere, self._instance)}
        del env["STOKER_JOB_ID"], env["STOKER_ATTEMPT"]
        env[MARKER] = f"{self._instance}:hearth.".ljust(len(self._instance) + _ROOM, ".")
        try:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return
        try:
            # The file of a call that is over soon would be gone by the time that it looks.
            call = os.open(wish.words[3], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fds = (call, its.fileno())
                pid = self._spawner.spawn_helper(argv, encoded(env), kind.cwd, *fds, kind.umask)
            finally:
                os.close(call)
        except (CouldNotStart, OSError, ValueError):
            ours.close()
            return  # What is wrong shows when the attempt itself is started.
        finally:
            its.close()
        hearth = _Hearth(kind, pid, ours)
        self._hearths.append(hearth)
        self._by_control[ours.fileno()] = hearth
        self._epoll.register(ours.fileno(), 0)  # That all have hung up is told nevertheless.
        for _ in range(_SPARES):
            hearth.ask()

    def _put_out(self, hearth: _Hearth) -> None:
        """End it, and the spares that it has made."""
        if hearth.out:
            return
        hearth.out = True
        os.kill(hearth.pid, signal.SIGKILL)  # It may be busy loading. Nobody has reaped it yet.
        self._see_off(hearth.pid)
        for link in hearth.asked.values():
            link.close()
        while hearth.spares:
            self._let_go(hearth.spares.popleft())

    def _has_ended(self, hearth: _Hearth) -> None:
        """All have hung up, so all copies are known; if there was none, it is not tried again."""
        hearth.hear()
        self._put_out(hearth)
        while hearth.spares:
            self._let_go(hearth.spares.popleft())
        self._epoll.unregister(hearth.control.fileno())
        hearth.control.close()
        if hearth.useful:
            self._forget(hearth)

    def _forget(self, hearth: _Hearth) -> None:
        if hearth in self._hearths:
            self._hearths.remove(hearth)

    def _see_off(self, pid: int) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return  # Too many files are open. It ends all the same.
        self._leaving.append(pidfd)
        self._epoll.register(pidfd, select.EPOLLIN)


def _send(to: socket.socket, message: bytes, fds: Sequence[int]) -> None:
    """All of it, at once, or (raising OSError) nothing."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
    to.sendmsg([message], [rights], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _kind(wish: Wish) -> _Kind | None:
    """What an attempt needs of a hearth; None if it is no call of the library's."""
    call, launch = call_of(wish.words), wish.launch
    if call is None:
        return None
    python, worker, file, modules = call
    return _Kind(
        python,
        worker,
        os.path.dirname(file),
        modules or "",
        launch.cwd,
        wish.start.maker,
        launch.env,
        launch.extra_env,
        launch.umask,
    )
