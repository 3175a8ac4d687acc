"""GPUs that are there only for one command (`gpu_lend`): forgotten after it and its last job.

The command itself gives them back when it ends. This is for one that could not (it was killed, or
its terminal was closed while jobs ran), and is remembered for the next daemon. While there are such
GPUs, a look each second is cheap; without them nothing is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import msgspec

from stoker.core import events as ev
from stoker.core.state import State
from stoker.daemon.loop import TurnLoop
from stoker.engine import Answer, Decided
from stoker.executors.foreign import lives
from stoker.ports import StoreFailed

log = logging.getLogger("stoker.daemon")

KEPT_AS = "lent gpus"
_EVERY_S = 1.0


class LentGpus:
    """Which GPUs are lent to which process."""

    def __init__(
        self,
        turn_loop: TurnLoop,
        remembered: Mapping[str, str],
        remember: Callable[[str, str | None], None],
    ) -> None:
        self._turn_loop = turn_loop
        self._remember = remember
        self._timer: asyncio.TimerHandle | None = None
        self._lent: dict[str, str] = {}  # the process of each, as core.foreign keeps it
        with suppress(msgspec.DecodeError):
            self._lent = msgspec.json.decode(remembered.get(KEPT_AS, "{}"), type=dict[str, str])

    def begin(self) -> None:
        """Look at what an earlier daemon has lent."""
        if self._lent and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._look)

    def lend(self, gpus: Iterable[str], process: str) -> None:
        """Jobs that name these declare them, but only for as long as this process and its jobs."""
        self._set({**self._lent, **dict.fromkeys(gpus, process)})
        self.begin()

    def _set(self, lent: dict[str, str]) -> None:
        self._remember(KEPT_AS, msgspec.json.encode(lent).decode() if lent else None)
        self._lent = lent

    def _look(self) -> None:
        self._timer = None
        left = [gpu for gpu, process in self._lent.items() if not lives(process)]
        if left and _unused(self._turn_loop.state, left):
            self._turn_loop.ask(lambda state: _taken_away(state, left), self._forget)
        self.begin()

    def _forget(self, answer: Answer) -> None:
        if answer.error is None:
            with suppress(StoreFailed):  # They are looked at again.
                self._set({gpu: by for gpu, by in self._lent.items() if gpu not in answer.value})


def _unused(state: State, gpus: Iterable[str]) -> list[str]:
    """Those of the GPUs that no unfinished job has or names."""
    named = {name for need in state.jobs.needs() for name in need.on}
    idle = (gpu for gpu in gpus if gpu not in named)
    return [gpu for gpu in idle if gpu not in state.gpus or not state.gpus[gpu].held_by]


def _taken_away(state: State, left: list[str]) -> Decided:
    unused = _unused(state, left)
    known = [state.gpus[gpu] for gpu in unused if gpu in state.gpus]
    # What its user or a driver has declared since then stays.
    gone = [gpu.id for gpu in known if not gpu.declared and not gpu.vendor]
    if gone:
        log.info("GPU %s is forgotten: the command that named it is over", ", ".join(gone))
    return Decided([ev.GpuRemoved(state.now_ms, gpu) for gpu in gone], unused)
