"""Whatever GPUs a driver shows; where there is no driver, those that the user declares.

Drivers are looked for in the background: only the start of the daemon waits for one,
for a moment, so that the first job finds its GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from stoker.inventory import amd, nvml
from stoker.inventory.amd import AmdDriver
from stoker.inventory.background import BackgroundInventory, Pace
from stoker.inventory.device_reading import Driver
from stoker.inventory.nvml import NvmlDriver
from stoker.inventory.stand_in import VARIABLE, StandInDriver
from stoker.ports import Sighting

_IDLE_INTERVAL_S = 5.0


def link_words(vendor: str, distance: int) -> str:
    """What is between two GPUs of this vendor at this distance."""
    if vendor == nvml.VENDOR:
        return nvml.LINK_WORDS[distance]
    return amd.link_words(distance)


class DeclaredInventory:
    """No driver is asked: what the user declared is in the state. Only CPU slots are counted."""

    def __init__(self, cpus: int | None = None) -> None:
        self._counted = len(os.sched_getaffinity(0))
        self.set_cpus(cpus)

    def set_cpus(self, cpus: int | None) -> None:
        """How many CPU slots to offer; None for as many as the machine has."""
        self._sighting = Sighting(cpus=self._counted if cpus is None else cpus)

    def read_soon(self) -> None:
        """There is nothing to read."""

    def observe(self) -> Sighting:
        """See ports.Inventory."""
        return self._sighting


class AutoInventory:
    """See ports.Inventory."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        notify: Callable[[], None],
        *,
        cpus: int | None = None,
        interval_s: float = 1.0,
        ask_drivers: bool = True,
    ) -> None:
        self._declared = DeclaredInventory(cpus)
        self._interval_s = interval_s
        self._busy = True
        self._drivers: Sequence[BackgroundInventory] = ()
        if ask_drivers:
            pace = Pace(interval_s=interval_s)
            stand_ins = os.environ.get(VARIABLE)
            drivers: list[Driver] = [NvmlDriver(), AmdDriver()]
            self._drivers = [
                BackgroundInventory(driver, pace=pace, cpus=cpus, now_ms=now_ms, notify=notify)
                for driver in ([StandInDriver(stand_ins)] if stand_ins else drivers)
            ]

    def start(self, wait_s: float) -> None:
        """Begin to look; wait for what there is to see, but not for long."""
        for driver in self._drivers:
            driver.start()
        for driver in self._drivers:
            driver.wait_for_reading(wait_s)
            if driver.observe().gpus:
                return

    def stop(self) -> None:
        """Look no more."""
        for driver in self._drivers:
            driver.stop()

    def observe(self) -> Sighting:
        """See ports.Inventory."""
        for driver in self._drivers:
            sighting = driver.observe()
            if sighting.gpus:
                return sighting
        return self._declared.observe()

    @property
    def why(self) -> str:
        """In one line, why there are no readings, or only old ones; empty if all is well."""
        for driver in self._drivers:
            if driver.observe().gpus:
                return driver.why
        return next((driver.why for driver in self._drivers if driver.why), "")

    def set_cpus(self, cpus: int | None) -> None:
        """How many CPU slots to offer; None for as many as the machine has."""
        self._declared.set_cpus(cpus)
        for driver in self._drivers:
            driver.set_cpus(cpus)

    def set_foreign(self, foreign: str) -> None:
        """What to do about processes that are not ours; see ports.Sighting."""
        for driver in self._drivers:
            driver.set_foreign(foreign)

    def set_interval(self, interval_s: float) -> None:
        """How often to read GPUs on which something runs."""
        self._interval_s = interval_s
        self._pace()

    def set_busy(self, busy: bool) -> None:
        """Look less often while nothing of ours runs."""
        if busy != self._busy:
            self._busy = busy
            self._pace()

    def read_soon(self) -> None:
        """Look now: something has changed."""
        for driver in self._drivers:
            if driver.observe().gpus:
                driver.read_soon()

    def forgive(self, gpu_id: str) -> None:
        """Its user says that a GPU with a critical error is well again."""
        for driver in self._drivers:
            forgive = getattr(driver.driver, "forgive", None)
            if forgive is not None:
                forgive(gpu_id)
        self.read_soon()

    def _pace(self) -> None:
        interval_s = self._interval_s if self._busy else max(self._interval_s, _IDLE_INTERVAL_S)
        for driver in self._drivers:
            driver.set_interval(interval_s)
