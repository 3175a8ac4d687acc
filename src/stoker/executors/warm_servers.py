"""WarmServers: processes that have loaded what calls use, and of which those of calls are copies.

Each copy is made ahead, as a *copy*: a child of the daemon like any attempt's process, known by
pid and start time, that waits to be told which attempt it is. So to give an attempt a copy is to
send one message, and no answer is waited for. A copy that was told nothing ends with the
daemon. The other end of all this is library/server.py.

Law: a server only saves time. Where there is no copy at the moment an attempt is started as usual,
and whatever becomes of a server, no attempt notices.
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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stoker import command_lines
from stoker.command_lines import WARM, call_of
from stoker.core.commands import Start
from stoker.core.model import Launch
from stoker.executors.environment import (
    ENCODING,
    ERRORS,
    MARKER,
    additions,
    encoded,
    inherited,
    own,
    visible_gpus,
)
from stoker.executors.ledger import LedgerWriter
from stoker.executors.processes import ProcessId, stat_of
from stoker.executors.shortage import CouldNotStart
from stoker.executors.spawn import Made, Spawner, Streams

log = logging.getLogger("stoker.daemon")

_MOST_SERVERS = 4
_IDLE_COPIES = 8
_IDLE_S = 60.0
_END_WITHIN_S = 1.0
# Longer than the marker of any attempt, in whose place it is; and of none.
_ROOM = 64


class CopyGone(Exception):
    """It was not told anything, and never will be: start the attempt as usual."""


@dataclass(slots=True)
class IdleCopy:
    """A copy that waits for its attempt."""

    process: ProcessId
    _link: socket.socket

    def become(
        self, words: Sequence[str], cwd: str, variables: Mapping[str, str], streams: Streams
    ) -> Made:
        """Tell it which attempt it is; or (raising CopyGone) it has heard nothing."""
        said = [one.encode(ENCODING, ERRORS) for one in (cwd, str(len(words)), *words)]
        said += encoded(variables)
        order = b"\0".join(said)
        if order.count(b"\0") >= len(said):
            raise CopyGone  # The usual way to start it says what is wrong.
        try:
            _send(self._link, order, streams)
        except OSError:
            raise CopyGone from None
        self._link.close()
        return Made(self.process.pid, process=self.process)

    def let_go(self) -> None:
        """It ends, unless it was told something."""
        self._link.close()


class StartSpec(NamedTuple):
    """An attempt that is to have a process."""

    words: list[str]
    launch: Launch
    start: Start
    variables: Mapping[str, str]  # that it has in its environment over what it has anyway
    log: str
    intend: Callable[..., None]  # tells the ledger, with the `idle_copy` if there is one


@dataclass(frozen=True, slots=True)
class _Kind:
    """What calls have in common that can have the same server."""

    python: str
    worker: str
    calls: str  # the directory in which their submitter has them
    modules: str
    cwd: str
    vendor: str
    env: Mapping[str, str]
    all_of_env: bool
    extra_env: Mapping[str, str]
    umask: int | None  # which its copies have from it


@dataclass(slots=True)
class _WarmServer:
    kind: _Kind
    pid: int
    control: socket.socket
    asked: dict[int, socket.socket] = field(default_factory=dict)
    copies: deque[IdleCopy] = field(default_factory=deque)
    numbers: int = 0
    out: bool = False  # it has ended, or was told to
    useful: bool = False  # it has given copies
    refused: bool = False  # it has said why it gives none

    def ask(self) -> None:
        """Have it make one more copy."""
        try:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return  # Too many files are open: then there is one copy less.
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
                self.refuse(rest.decode(errors="replace"))
                continue
            link = self.asked.pop(int(word))
            try:
                stat = stat_of(int(rest))
            except OSError:
                stat = None
            if stat is None:
                link.close()  # It is there, but too many files are open to look at it.
                continue
            self.copies.append(IdleCopy(stat.id, link))
            self.useful = True

    def refuse(self, why: str) -> None:
        """Calls start as usual: that is said in the log, and to their submitter."""
        self.refused = True
        log.info("calls with warm=[%s] start cold: %s", self.kind.modules, why)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(os.path.join(self.kind.calls, command_lines.COLD), flags, 0o600)
        except OSError:
            return  # It has gone, or the disk is full; the log says it too.
        with open(fd, "w", encoding="utf-8", errors="replace") as file, suppress(OSError):
            file.write(f"{self.kind.modules}\t{' '.join(why.split())}\n")


class WarmServers:
    """All warm servers of a daemon; `fileno` becomes readable when one of them has ended."""

    def __init__(self, instance: str, root: str, spawner: Spawner) -> None:
        self._instance = instance
        self._root = root  # where attempts have their files
        self._spawner = spawner
        self._epoll = select.epoll()
        self._warm_servers: list[_WarmServer] = []  # the one that was used last is last
        self._by_control: dict[int, _WarmServer] = {}
        self._leaving: list[int] = []  # pidfds

    def fileno(self) -> int:
        """See the class."""
        return self._epoll.fileno()

    def close(self) -> None:
        """The daemon ends, and warm servers and copies with it."""
        for server in self._by_control.values():
            self._put_out(server)
        deadline = time.monotonic() + _END_WITHIN_S
        while (self._by_control or self._leaving) and time.monotonic() < deadline:
            self._epoll.poll(_END_WITHIN_S, 1)
            self.heard()
        for pidfd in self._leaving:
            os.close(pidfd)
        self._epoll.close()

    def made(self, spec: StartSpec, ledger: LedgerWriter) -> Made | None:
        """The process of an attempt that wants to be warm, if it can have one; else no trace."""
        if not spec.words[-1].startswith(WARM):
            return None
        copy = self._copy_for(spec)
        if copy is None:
            return None
        launch = spec.launch
        try:
            spec.intend(idle_copy=copy.process)
            env = {**additions(launch, spec.start, self._instance, self._root), **spec.variables}
            with self._spawner.place(launch, spec.log, spec.start.attempt) as streams:
                return copy.become(spec.words, launch.cwd, env, streams)
        except CopyGone:
            self._let_go(copy)
            ledger.withdraw()
            return None
        except BaseException:
            self._let_go(copy)
            raise

    def _copy_for(self, spec: StartSpec) -> IdleCopy | None:
        kind = _kind(spec)
        if kind is None:
            return None
        server = self._found(kind)
        if server is None:
            self._begin(kind, spec)
            return None
        if not server.out:
            server.hear()
        if not server.copies:
            return None
        copy = server.copies.popleft()
        server.ask()
        return copy

    def heard(self) -> None:
        """Look who has ended."""
        for fd, _ in self._epoll.poll(0):
            if fd in self._by_control:
                self._has_ended(self._by_control.pop(fd))
            elif os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG) is not None:
                self._leaving.remove(fd)
                self._epoll.unregister(fd)
                os.close(fd)

    def _let_go(self, copy: IdleCopy) -> None:
        """This one is of no use: it has ended, or is to end."""
        copy.let_go()
        self._see_off(copy.process.pid)

    def _found(self, kind: _Kind) -> _WarmServer | None:
        for at, server in enumerate(self._warm_servers):
            if server.kind == kind:
                self._warm_servers.append(self._warm_servers.pop(at))
                return server
        return None

    def _begin(self, kind: _Kind, spec: StartSpec) -> None:
        if len(self._warm_servers) >= _MOST_SERVERS:
            eldest = self._warm_servers[0]
            self._put_out(eldest)
            self._forget(eldest)
        argv = command_lines.warm_server(kind.python, kind.worker, kind.modules, _IDLE_S)
        nowhere = replace(spec.start, gpus=(), labels=())
        env = {
            **inherited(kind.env, kind.all_of_env),
            **additions(spec.launch, nowhere, self._instance, self._root),
        }
        for name in own(spec.launch, nowhere, self._instance, self._root):
            del env[name]
        env[MARKER] = f"{self._instance}:warm_server.".ljust(len(self._instance) + _ROOM, ".")
        try:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return
        try:
            # The file of a call that is over soon would be gone by the time that it looks.
            call = os.open(spec.words[3], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
        server = _WarmServer(kind, pid, ours)
        self._warm_servers.append(server)
        self._by_control[ours.fileno()] = server
        self._epoll.register(ours.fileno(), 0)  # That all have hung up is told nevertheless.
        for _ in range(_IDLE_COPIES):
            server.ask()

    def _put_out(self, server: _WarmServer) -> None:
        """End it, and the copies that it has made."""
        if server.out:
            return
        server.out = True
        os.kill(server.pid, signal.SIGKILL)  # It may be busy loading. It was not reaped yet.
        self._see_off(server.pid)
        for link in server.asked.values():
            link.close()
        while server.copies:
            self._let_go(server.copies.popleft())

    def _has_ended(self, server: _WarmServer) -> None:
        """All have hung up, so all copies are known; if there was none, it is not tried again."""
        server.hear()
        if not (server.out or server.useful or server.refused):
            server.refuse("the process that was to load them has ended early")
        self._put_out(server)
        while server.copies:
            self._let_go(server.copies.popleft())
        self._epoll.unregister(server.control.fileno())
        server.control.close()
        if server.useful:
            self._forget(server)

    def _forget(self, server: _WarmServer) -> None:
        if server in self._warm_servers:
            self._warm_servers.remove(server)

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


def _kind(spec: StartSpec) -> _Kind | None:
    """What an attempt needs of a server; None if it is no call of the library's."""
    call, launch = call_of(spec.words), spec.launch
    if call is None or visible_gpus(launch) == "all" or launch.options.get("keep_children"):
        # An idle copy has the variables with which its process began, and none can be taken back.
        return None
    python, worker, file, modules = call
    return _Kind(
        python,
        worker,
        os.path.dirname(file),
        modules or "",
        launch.cwd,
        spec.start.vendor,
        launch.env,
        bool(launch.options.get("env_all")),
        launch.extra_env,
        launch.umask,
    )
