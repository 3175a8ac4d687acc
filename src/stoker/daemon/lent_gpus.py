"""GPUs that are there only for some commands (`gpu_lend`): forgotten after these and their jobs.

A command gives them back when it ends. One that could not (it was killed, or its terminal was
closed while jobs ran) is seen to have ended; both are remembered for the next daemon. While there
are such GPUs, a look each second is cheap; without them nothing is done.
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
Lent = dict[str, list[str]]  # the processes that need each, as core.foreign keeps them


class LentGpus:
    """Which GPUs are lent to which processes."""

    def __init__(
        self,
        turn_loop: TurnLoop,
        remembered: Mapping[str, str],
        remember: Callable[[str, str | None], None],
    ) -> None:
        self._turn_loop = turn_loop
        self._remember = remember
        self._timer: asyncio.TimerHandle | None = None
        self._lent: Lent = {}
        with suppress(msgspec.DecodeError):
            self._lent = msgspec.json.decode(remembered.get(KEPT_AS, "{}"), type=Lent)

    def begin(self) -> None:
        """Look at what an earlier daemon has lent."""
        if self._lent and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._look)

    def lend(self, gpus: Iterable[str], process: str) -> None:
        """Those of these that are not there for good are there for this process and its jobs."""
        new = missing(self._turn_loop.state, gpus)
        both = [gpu for gpu in gpus if gpu in new or gpu in self._lent]
        self._set(self._lent | {gpu: [*self._lent.get(gpu, ()), process] for gpu in both})
        self.begin()

    def give_back(self, gpus: Iterable[str], process: str) -> None:
        """The process needs these no more; what no other needs goes with the next turn."""
        lent = {gpu: self._lent[gpu] for gpu in gpus if gpu in self._lent}
        self._set(self._lent | {gpu: [p for p in of if p != process] for gpu, of in lent.items()})
        self._look()

    def _set(self, lent: Lent) -> None:
        self._remember(KEPT_AS, msgspec.json.encode(lent).decode() if lent else None)
        self._lent = lent

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left = [gpu for gpu, processes in self._lent.items() if not any(map(lives, processes))]
        if left and _unused(self._turn_loop.state, left):
            self._turn_loop.ask(lambda state: _taken_away(state, left), self._forget)
        self.begin()

    def _forget(self, answer: Answer) -> None:
        if answer.error is None:
            with suppress(StoreFailed):  # They are looked at again.
                self._set({gpu: by for gpu, by in self._lent.items() if gpu not in answer.value})


def missing(state: State, gpus: Iterable[str]) -> list[str]:
    """Those of the GPUs that are not known, or are about to go."""
    found = {gpu: state.gpu_named(gpu) for gpu in gpus}
    return [gpu for gpu, known in found.items() if known is None or known.removing]


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
