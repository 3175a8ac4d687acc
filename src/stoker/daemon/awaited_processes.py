"""Processes that jobs wait for (`--after-pid`) and that Stoker did not start.

A pidfd tells their end, so that nothing is looked at again and again; only where the kernel gives
none is /proc read once a second. One that can't be found any more counts as ended: it has been
reaped, or the machine was started anew. How it ended is for its parent alone to know.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable

from stoker.core import events as ev
from stoker.core.foreign import ForeignProcess
from stoker.core.model import Requirement
from stoker.core.state import State
from stoker.daemon.loop import TurnLoop
from stoker.engine import Answer, Decided
from stoker.errors import UsageError
from stoker.executors.foreign import lives
from stoker.executors.processes import stat_of
from stoker.machine import boot_id
from stoker.quantities import quoted

_LOOK_AGAIN_S = 1.0
_MOST_SHOWN = 60  # characters of its command line
_POLLED = -1  # in place of a pidfd


def awaited(texts: Iterable[str]) -> list[Requirement]:
    """The requirements that these processes end; "4711", or with the start time "4711@98765"."""
    instead = "leave out --after-pid, or queue the job where the process runs"
    found = [identified(text, "--after-pid 4711", instead).kept for text in texts]
    return [Requirement(0, False, None, process) for process in dict.fromkeys(found)]


def identified(text: str, example: str, instead: str) -> ForeignProcess:
    """The process that a user named, as it is now; `instead` says what to do if it is not there."""
    pid_text, _, start = text.partition("@")
    if not all(part.isdecimal() and len(part) <= 18 for part in (pid_text, start or "0")):
        raise UsageError(f"{quoted(text)} is not a process id", f"write e.g. {example}")
    pid = int(pid_text)
    stat = stat_of(pid) if pid else None
    if stat is None or stat.state in "ZX" or (start and stat.id.start_time != int(start)):
        raise UsageError(
            f"the daemon sees no process {pid}: it has ended, or runs in another PID namespace",
            instead,
        )
    try:
        os.close(os.pidfd_open(pid))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            raise UsageError(
                f"{pid} is a thread and not a process", "name the process that it is of"
            ) from None
    return ForeignProcess(pid, stat.id.start_time, boot_id(), _command(pid))


def _command(pid: int) -> str:
    """Its command line for people; its name where it has none, as a kernel thread."""
    for path in (f"/proc/{pid}/cmdline", f"/proc/{pid}/comm"):
        try:
            with open(path, "rb") as file:
                text = file.read(4096).replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if text:
            shown = "".join(c if c.isprintable() else " " for c in text)
            return shown if len(shown) <= _MOST_SHOWN else f"{shown[: _MOST_SHOWN - 3]}..."
    return ""


class AwaitedProcesses:
    """Watches the processes that jobs of the state wait for, and reports their ends."""

    def __init__(self, turn_loop: TurnLoop) -> None:
        self._turn_loop = turn_loop
        self._watched: dict[str, int] = {}  # their pidfds

    def look(self) -> None:
        """Watch what jobs wait for since the last turn, and nothing else."""
        wanted = self._turn_loop.state.dependencies.processes
        if wanted.keys() == self._watched.keys():
            return
        for kept in [one for one in self._watched if one not in wanted]:
            self._unwatch(kept)
        for kept in [one for one in wanted if one not in self._watched]:
            self._watch(kept)

    def _watch(self, kept: str) -> None:
        loop = asyncio.get_running_loop()
        self._watched[kept] = _POLLED
        try:
            pidfd = os.pidfd_open(ForeignProcess.of(kept).pid)
        except ProcessLookupError:
            self._over(kept)
            return
        except OSError:
            loop.call_soon(self._poll, kept)
            return
        self._watched[kept] = pidfd
        # Opened first, then compared: a pid that was given to another in between is noticed.
        if lives(kept):
            loop.add_reader(pidfd, self._over, kept)
        else:
            self._over(kept)

    def _unwatch(self, kept: str) -> None:
        pidfd = self._watched.pop(kept)
        if pidfd != _POLLED:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)

    def _poll(self, kept: str) -> None:
        if self._watched.get(kept) != _POLLED:
            return
        if lives(kept):
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._poll, kept)
        else:
            self._over(kept)

    def _over(self, kept: str) -> None:
        """It has ended; told until it is committed."""
        if kept not in self._watched:
            return
        pidfd, self._watched[kept] = self._watched[kept], _POLLED
        if pidfd != _POLLED:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)

        def ended(state: State) -> Decided:
            is_awaited = kept in state.dependencies.processes
            return Decided([ev.ProcessEnded(state.now_ms, kept)] if is_awaited else [], {})

        def reply(answer: Answer) -> None:
            if answer.error is None:
                # Should a job wait for it after all, it is looked at anew after this turn.
                self._watched.pop(kept, None)
            else:
                asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._over, kept)

        self._turn_loop.ask(ended, reply)
