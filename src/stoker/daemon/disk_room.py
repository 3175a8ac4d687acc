"""How much room is left on the disks of the record and of the logs.

It is read now and then while something runs or waits for room, never while the daemon is idle.
What follows is the core's to decide: see `DiskLooked`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from stoker.core import events as ev
from stoker.core.reasons import low_disk_words, tight_disk_words
from stoker.core.shortage import LowDisk
from stoker.core.state import State
from stoker.daemon.loop import TurnLoop
from stoker.engine import Decided
from stoker.errors import NoUnit, UsageError
from stoker.quantities import quoted, size_mib, whole_number

log = logging.getLogger("stoker.daemon")

_MIB = 1024 * 1024
_USUAL_S = 10.0
_WHILE_STOPPED_S = 2.0
# A turn looks again if the last look was longer ago: so the first job after a quiet night does not
# start by a reading of the evening before.
_STALE_S = 5.0


@dataclass(frozen=True, slots=True)
class LeastRoom:
    """How much is to stay free: of what is said, the least. Nothing said: no bound."""

    percent: int | None = None
    mib: int | None = None

    def bytes_of(self, total_bytes: int) -> int:
        """So much of a disk of this size."""
        wanted = [] if self.percent is None else [total_bytes * self.percent // 100]
        wanted += [] if self.mib is None else [self.mib * _MIB]
        return min(wanted, default=0)


def least_room(text: str) -> LeastRoom:
    """ "5%", "20G", "5%,20G" (whichever is less), "off"."""
    if text.strip().lower() in ("off", "0"):
        return LeastRoom()
    percents: list[int] = []
    sizes: list[int] = []
    for part in (part.strip() for part in text.split(",")):
        if part.endswith("%"):
            percents.append(whole_number(part[:-1].strip(), 1, 99, "percentage"))
        else:
            try:
                sizes.append(size_mib(part))
            except NoUnit as error:
                if part.isdecimal() and 1 <= int(part) <= 99:  # The default has a percentage too.
                    error.hint = f"{part}%, {error.hint}"
                raise
    if len(percents) > 1 or len(sizes) > 1:
        raise UsageError(f"{quoted(text)} is not understood", "write e.g. 5%, 20G, 5%,20G or off")
    return LeastRoom(next(iter(percents), None), next(iter(sizes), None))


@dataclass(frozen=True, slots=True)
class Room:
    """What a file system has, and how much of it this user may still write."""

    total_bytes: int
    free_bytes: int


def room_at(path: str) -> Room:
    """The room of the disk that a path is on."""
    found = os.statvfs(path)
    return Room(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


class DiskWatch:
    """Tells the state when a disk has little room, and when it has enough again."""

    def __init__(
        self,
        turn_loop: TurnLoop,
        paths: Iterable[str],
        read: Callable[[str], Room] = room_at,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turn_loop = turn_loop
        self._paths = sorted(paths)
        self._read = read
        self._now_s = now_s
        self._warn = self._stop = LeastRoom()
        self._looked_at_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._told: tuple[str, bool] | None = None

    def take(self, warn: LeastRoom, stop: LeastRoom) -> None:
        """What was set counts from the next turn."""
        self._warn, self._stop = warn, stop
        self._looked_at_s = float("-inf")

    def before_turn(self) -> None:
        """A turn may start something: it is not to go by what was read long ago."""
        low = self._turn_loop.state.low_disk
        stops = low is not None and low.stops
        if stops or self._now_s() - self._looked_at_s > _STALE_S:
            self.look()

    def after_turn(self) -> None:
        """Look again in a while, as long as there is a reason to."""
        state = self._turn_loop.state
        if self._timer is None and (state.active or state.low_disk is not None):
            stops = state.low_disk is not None and state.low_disk.stops
            wait_s = _WHILE_STOPPED_S if stops else _USUAL_S
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self.look()
        self.after_turn()

    def look(self) -> None:
        """Read, and tell the next turn if anything has changed."""
        self._looked_at_s = self._now_s()
        low = self._lowest()
        if low != self._turn_loop.state.low_disk:
            self._tell(low)
            self._turn_loop.ask(lambda state: _looked(state, low), lambda answer: None)

    def _lowest(self) -> LowDisk | None:
        found: list[LowDisk] = []
        for path in self._paths:
            with suppress(OSError):  # It can't be asked: starts will tell what is wrong with it.
                room = self._read(path)
                for least, stops in ((self._stop, True), (self._warn, False)):
                    least_bytes = least.bytes_of(room.total_bytes)
                    if room.free_bytes < least_bytes:
                        mib = room.free_bytes // _MIB, -(-least_bytes // _MIB)
                        found.append(LowDisk(path, *mib, stops))
        return min(found, key=lambda low: (not low.stops, low.free_mib), default=None)

    def _tell(self, low: LowDisk | None) -> None:
        told = None if low is None else (low.path, low.stops)
        if told == self._told:
            return
        self._told = told
        if low is None:
            log.info("the disks have room again")
        elif low.stops:
            log.warning("nothing is started: %s", low_disk_words(low))
        else:
            log.warning("%s", tight_disk_words(low))


def _looked(state: State, low: LowDisk | None) -> Decided:
    return Decided([ev.DiskLooked(state.now_ms, low)], None)
