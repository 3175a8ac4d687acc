"""The page's process, as the daemon's child: started when it is wanted, and ended with the daemon.

It is a process of its own so that whatever the network does is never done in the loop that starts
jobs. A page that ends unasked is started again, with increasing delay.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from stoker import command_lines
from stoker.api.messages import PageSettings
from stoker.daemon.companions import pidfd_of_child
from stoker.errors import Failed, StokerError, UsageError, from_wire

log = logging.getLogger("stoker.daemon")

KEPT_AS = "page"
PORT_KEPT_AS = "page port"  # the last that was not named; it outlives the settings, as bookmarks do
_READY_WITHIN_S = 60.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_GRACE_S = 3.0
_GOOD_AFTER_S = 60.0  # A page that ran so long begins with short pauses again.


@dataclass(slots=True, eq=False)
class _Child:
    pid: int
    pidfd: int
    life_fd: int
    settings: PageSettings
    url: str = ""
    port: int = 0
    taken: int | None = None
    started_at_s: float = 0.0
    wanted: bool = True


class Page:
    """At most one page at a time."""

    def __init__(
        self,
        remembered: Mapping[str, str],
        remember: Callable[[str, str | None], None],
        home: str,
    ) -> None:
        self._remember = remember
        port = remembered.get(PORT_KEPT_AS, "")
        self._last_port = int(port) if port.isdecimal() else None
        self._trouble = ""
        self._home = home
        self._settings: PageSettings | None = None
        if kept := remembered.get(KEPT_AS):
            try:
                self._settings = msgspec.json.decode(kept, type=PageSettings)
            except msgspec.DecodeError:
                log.warning("the settings of the page can't be read, and are forgotten")
        self._child: _Child | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._again: asyncio.TimerHandle | None = None
        self._queue = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def come_back(self) -> None:
        """With a new daemon: serve the page again if the last one did."""
        if self._settings is not None:
            self._task(self._start_again())

    # ------------------------------------------------------------------ requests

    async def start(self, changes: dict[str, Any]) -> dict[str, Any]:
        """See api.messages.PageStart."""
        async with self._queue:
            known = msgspec.structs.asdict(self._settings or PageSettings())
            unknown = set(changes) - set(known)
            if unknown:
                raise UsageError(f"the page has no setting {sorted(unknown)[0]}", "")
            try:
                settings = msgspec.convert({**known, **changes}, PageSettings)
            except msgspec.ValidationError as error:
                raise UsageError(f"that is no setting of the page: {error}", "") from None
            child = self._child
            if child is not None and child.url and child.settings == settings:
                return self._described(child, started=False)
            port = settings.port
            moves = child is not None and port is not None and port != child.port
            # The page that serves is not stopped for one that could not take its place.
            if moves and port and await asyncio.to_thread(_is_taken, settings.host, port):
                what = f"something else listens on {settings.host}:{port}"
                raise Failed(what, "choose another with --port N")
            await self._end()
            try:
                child = await self._spawn(settings, again=False)
            except StokerError:
                if self._settings is not None:
                    self._task(self._start_again())  # It stays as it was.
                raise
            self._settings = settings
            self._remember(KEPT_AS, msgspec.json.encode(settings).decode())
            return self._described(child, started=True)

    async def stop(self) -> bool:
        """See api.messages.PageStop."""
        async with self._queue:
            was_wanted = self._settings is not None
            self._settings = None
            self._remember(KEPT_AS, None)
            self._trouble = ""
            await self._end()
            return was_wanted

    def status(self) -> dict[str, Any]:
        """See api.messages.PageStatus."""
        child = self._child
        if child is None or not child.url:
            wanted = self._settings is not None
            return {"running": False, "wanted": wanted, "trouble": self._trouble}
        return {"running": True, "wanted": True, **self._described(child)}

    def close(self) -> None:
        """The daemon ends: so does the page, when it sees that its line was closed."""
        if self._again is not None:
            self._again.cancel()
        if self._child is not None:
            self._child.wanted = False
            self._let_go(self._child)

    def _described(self, child: _Child, **more: Any) -> dict[str, Any]:
        settings = {**msgspec.structs.asdict(child.settings), "port": child.port}
        shown = {"url": child.url, "pid": child.pid, "settings": settings, "taken": child.taken}
        return {**shown, **more}

    # ------------------------------------------------------------------ the process

    async def _spawn(self, settings: PageSettings, *, again: bool) -> _Child:
        """Start it, and wait until it serves."""
        child, ready = self._made(settings, again)
        self._child = child
        asyncio.get_running_loop().add_reader(child.pidfd, self._ended, child)
        line = await _line(ready)
        word, _, rest = line.partition("\t")
        if word == "ready" and rest:
            child.url, port, taken = rest.split("\t")
            child.port, child.taken = int(port), int(taken) if taken else None
            if settings.port is None and child.port != self._last_port:
                self._last_port = child.port
                with suppress(StokerError):  # It is only a preference.
                    self._remember(PORT_KEPT_AS, port)
            self._trouble = ""
            log.info("the page is served at %s by process %d", child.url, child.pid)
            return child
        await self._end()
        message, _, hint = rest.partition("\t")
        if message:
            raise from_wire({"code": word, "message": message, "hint": hint})
        raise Failed("the page could not be started", "see the daemon's log")

    def _made(self, settings: PageSettings, again: bool) -> tuple[_Child, int]:
        """A new process, and where it reports that it serves; or nothing at all, and Failed."""
        opened: list[int] = []
        try:
            opened += os.pipe()
            opened += os.pipe()
            ready, report, life, held = opened
            for fd in (report, life):
                os.set_inheritable(fd, True)
            said = msgspec.json.encode(settings).decode()
            command = command_lines.page(report, life, said, self._last_port, again=again)
            pid = os.posix_spawn(command[0], command, {**os.environ, "STOKER_HOME": self._home})
            pidfd = pidfd_of_child(pid)
        except OSError as error:
            for fd in opened:
                os.close(fd)
            raise Failed(f"the page could not be started: {error.strerror}", "") from None
        os.close(report)
        os.close(life)
        started_at_s = asyncio.get_running_loop().time()
        return _Child(pid, pidfd, held, settings, started_at_s=started_at_s), ready

    async def _end(self) -> None:
        """End the page, and wait until it has let go of its port."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        child = self._child
        if child is None:
            return
        child.wanted = False
        self._let_go(child)
        for _ in range(int(_GRACE_S / 0.01)):
            if self._child is not child:
                return
            await asyncio.sleep(0.01)
        signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
        while self._child is child:
            await asyncio.sleep(0.01)

    def _let_go(self, child: _Child) -> None:
        if child.life_fd >= 0:
            os.close(child.life_fd)
            child.life_fd = -1

    def _ended(self, child: _Child) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(child.pidfd)
        os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
        os.close(child.pidfd)
        self._let_go(child)
        if self._child is child:
            self._child = None
        if child.wanted and child.url:
            log.warning("the page's process has ended by itself")
            if loop.time() - child.started_at_s > _GOOD_AFTER_S:
                self._pause_s = _FIRST_PAUSE_S
            self._try_later()

    def _try_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._again = loop.call_later(self._pause_s, lambda: self._task(self._start_again()))
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)

    async def _start_again(self) -> None:
        async with self._queue:
            if self._settings is None or self._child is not None:
                return
            try:
                await self._spawn(self._settings, again=True)
            except StokerError as error:
                self._trouble = error.message
                log.warning("the page is not served: %s", error.message)
                self._try_later()

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_taken(host: str, port: int) -> bool:
    """Whether something listens there; all other trouble is for the new page to tell."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


async def _line(fd: int) -> str:
    """The one line that the page reports; empty if it ended without a word."""
    reader = asyncio.StreamReader()
    with open(fd, "rb", buffering=0) as pipe:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                text = await reader.readline()
        except TimeoutError:
            return ""
        finally:
            transport.close()
    return text.decode(errors="replace").rstrip("\n")
