"""The clock of the daemon: time of day that flows evenly.

It goes by CLOCK_BOOTTIME, which can't be set and which counts sleep of the machine, and is
compared with the wall clock at each reading: where the two part, the wall clock was set,
and that shows as a shift. The difference is kept in the store, so that a clock that was set while
no daemon ran is noticed too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from stoker.machine import boot_id
from stoker.ports import Reading

TOLERANCE_MS = 2_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _steady_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SystemClock:
    """See ports.Clock."""

    def __init__(
        self,
        remembered: str | None,
        remember: Callable[[str], None],
        wall_ms: Callable[[], int] = _wall_ms,
        steady_ms: Callable[[], int] = _steady_ms,
    ) -> None:
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        self._remember = remember
        self._offset_ms = wall_ms() - steady_ms()
        boot, _, offset = (remembered or "").partition(" ")
        if boot == boot_id() and offset:
            self._offset_ms = int(offset)
        else:
            self._note()

    def now_ms(self) -> int:
        """The time, without looking whether the wall clock was set."""
        return self._steady_ms() + self._offset_ms

    def read(self) -> Reading:
        """See ports.Clock."""
        steady_ms = self._steady_ms()
        shift_ms = self._wall_ms() - steady_ms - self._offset_ms
        if abs(shift_ms) <= TOLERANCE_MS:
            return Reading(steady_ms + self._offset_ms)
        self._offset_ms += shift_ms
        self._note()
        return Reading(steady_ms + self._offset_ms, shift_ms)

    def _note(self) -> None:
        self._remember(f"{boot_id()} {self._offset_ms}")
