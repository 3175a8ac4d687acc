"""An inventory that never waits for a driver: it is read in the background, at its own pace.

Law: no thread that others wait for calls the driver. The pacer hands each call to a worker and
gives it a time; a worker that does not come back is left behind with its device, another takes
over for the rest, and there are never more than a few of them.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from stoker.inventory.device_reading import DeviceReading, Driver, DriverUnavailable, Known
from stoker.ports import SeenGpu, Sighting

log = logging.getLogger("stoker.inventory")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to read, and how long to wait; all in seconds."""

    interval_s: float = 1.0
    timeout_s: float = 2.0  # of one call; a device's reading is one call here
    retry_s: float = 30.0  # to look again for a driver that is not there, or that has a fault
    left_behind_at_most: int = 3


class _Hung(Exception):
    """A call was not answered in time, or no worker is left to make it."""


@dataclass(slots=True, eq=False)
class _Worker:
    """A thread that does one thing at a time, as long as it is wanted."""

    work: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any]] | None] = field(
        default_factory=queue.SimpleQueue
    )
    busy_with: object = None
    since_s: float = 0.0
    idle: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to wait for work. It never keeps the process from ending."""
        threading.Thread(target=self._run, name="stoker-driver-call", daemon=True).start()

    def _run(self) -> None:
        while (task := self.work.get()) is not None:
            call, answers = task
            try:
                answers.put((call(), None))
            except Exception as error:  # It is raised again where the answer is awaited.
                answers.put((None, error))
            self.idle.set()


class BackgroundInventory:
    """What a driver said last, with the time at which it said so."""

    def __init__(
        self,
        driver: Driver,
        *,
        pace: Pace | None = None,
        cpus: int | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        """`notify` is called by a thread of this inventory after each reading."""
        self.driver = driver
        self._pace = pace or Pace()
        self._interval_s = self._pace.interval_s
        self._now_ms = now_ms
        self._notify = notify
        self._counted = len(os.sched_getaffinity(0))
        # Made anew after each reading, so who has this very one has seen all that there is to see.
        self._sighting = Sighting(self._counted if cpus is None else cpus)
        self._gpus: tuple[SeenGpu, ...] | None = None
        self._why = ""
        self._known = Known()
        self._distances: Mapping[tuple[str, str], int] = {}
        self._linked: set[str] = set()  # The GPUs whose distances were asked for.
        self._opened = False
        self._opened_at_s = 0.0
        self._worker: _Worker | None = None
        self._left_behind: list[_Worker] = []
        self._wake = threading.Condition()
        self._wanted = True
        self._ending = False
        self._rounds = 0
        self._pacer = threading.Thread(target=self._run, name="stoker-gpus", daemon=True)

    # ------------------------------------------------------------------ for the daemon

    def start(self) -> None:
        """Begin to read."""
        self._pacer.start()

    def stop(self) -> None:
        """Read no more. A call that hangs is not waited for."""
        with self._wake:
            self._ending = True
            self._wake.notify_all()
        if self._pacer.is_alive():
            self._pacer.join(1.0)

    def observe(self) -> Sighting:
        """See ports.Inventory. GPUs are None until a driver was met."""
        return self._sighting

    @property
    def why(self) -> str:
        """In one line, what is wrong; empty if nothing is."""
        return self._why

    def set_cpus(self, cpus: int | None) -> None:
        """How many CPU slots to offer; None for as many as the machine has."""
        with self._wake:
            cpus = self._counted if cpus is None else cpus
            self._sighting = replace(self._sighting, cpus=cpus)

    def set_foreign(self, foreign: str) -> None:
        """What to do about processes that are not ours; see ports.Sighting."""
        with self._wake:
            self._sighting = replace(self._sighting, foreign=foreign)

    def set_interval(self, interval_s: float) -> None:
        """How often to read from now on: seldom when nothing runs."""
        with self._wake:
            self._interval_s = interval_s
            self._wake.notify_all()

    def read_soon(self) -> None:
        """Read without waiting for the interval to pass."""
        with self._wake:
            self._wanted = True
            self._wake.notify_all()

    def wait_for_reading(self, timeout_s: float) -> bool:
        """Wait for a first reading, if only to learn that there is no driver."""
        with self._wake:
            return self._wake.wait_for(lambda: self._rounds > 0, timeout_s)

    # ------------------------------------------------------------------ the pacer

    def _run(self) -> None:
        while True:
            began_s = time.monotonic()
            self._round()
            with self._wake:
                self._rounds += 1
                self._wake.notify_all()
            self._notify()
            if not self._rest(began_s):
                break
        self._close()
        if self._worker is not None:
            self._worker.work.put(None)

    def _rest(self, began_s: float) -> bool:
        """Wait for the next round; whether there is to be one."""
        with self._wake:
            while not self._ending and not self._wanted:
                interval_s = self._interval_s
                if not self._opened and not self._known.devices:
                    interval_s = max(interval_s, self._pace.retry_s)
                left_s = began_s + interval_s - time.monotonic()
                if left_s <= 0:
                    break
                self._wake.wait(left_s)
            self._wanted = False
            return not self._ending

    def _round(self) -> None:
        self._collect_returned()
        why = ""
        try:
            self._read_all()
        except DriverUnavailable as gone:
            why = str(gone)
            self._known.all_faulty(str(gone), self._now_ms())
            self._close()
        except _Hung:
            pass
        except Exception as error:
            # What a driver's library may do is not for us to know; jobs go on without readings.
            log.exception("the GPUs could not be read")
            why = f"the GPUs could not be read: {error!r}"
        if self._known.devices:
            self._gpus = self._known.seen(self._distances)
        with self._wake:
            self._sighting = replace(self._sighting, gpus=self._gpus)
        self._say(why or self._hanging())

    def _read_all(self) -> None:
        if not self._opened:
            self._open()
        positions = self._call("list", self.driver.positions)
        stuck = {worker.busy_with for worker in self._left_behind}
        read: dict[int, DeviceReading] = {}
        for position in positions:
            if position in stuck:
                continue
            now_ms = self._now_ms()
            try:
                read[position] = self._call(position, partial(self.driver.read, position, now_ms))
            except _Hung:
                continue
        self._known.take(read, positions, self._now_ms())
        if self._gpus is None:
            self._gpus = ()  # There is a driver, even if it has no GPU.
        well = {r.id: p for p, r in read.items() if not r.fault}
        if not well.keys() <= self._linked:
            distances = self._call("links", partial(self.driver.distances, list(well.values())))
            self._distances = {**self._distances, **distances}
            self._linked |= well.keys()
        self._reopen_later(read)

    def _open(self) -> None:
        self._call("open", self.driver.open)
        self._opened = True
        self._opened_at_s = time.monotonic()

    def _close(self) -> None:
        """End the session, unless a worker may still be in the middle of a call."""
        opened, self._opened = self._opened, False
        if opened and not self._left_behind:
            with suppress(DriverUnavailable, _Hung):
                self._call("close", self.driver.close)

    def _reopen_later(self, read: Mapping[int, DeviceReading]) -> None:
        """A device that was reset, or a driver that came back, may show only to a new session."""
        if self._left_behind or not any(reading.fault for reading in self._known.devices.values()):
            return
        hopeless = all(reading.fault for reading in read.values())
        patience_s = self._pace.retry_s / 6 if hopeless else self._pace.retry_s
        if time.monotonic() - self._opened_at_s >= patience_s:
            self._close()

    # ------------------------------------------------------------------ calls

    def _call(self, about: object, call: Callable[[], T]) -> T:
        worker = self._worker
        if worker is None:
            if len(self._left_behind) >= self._pace.left_behind_at_most:
                raise _Hung
            worker = self._worker = _Worker()
            worker.start()
        worker.busy_with, worker.since_s = about, time.monotonic()
        worker.idle.clear()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        worker.work.put((call, answers))
        try:
            value, error = answers.get(timeout=self._pace.timeout_s)
        except queue.Empty:
            self._left_behind.append(worker)
            self._worker = None
            raise _Hung from None
        if error is not None:
            raise error
        result: T = value
        return result

    def _collect_returned(self) -> None:
        """Those whose call came back at last are let go; what it said is too old to be used."""
        for worker in [w for w in self._left_behind if w.idle.is_set()]:
            worker.work.put(None)
            self._left_behind.remove(worker)
            if worker.busy_with == "open":
                self._opened = True

    def _hanging(self) -> str:
        if not self._left_behind:
            return ""
        seconds = int(time.monotonic() - min(worker.since_s for worker in self._left_behind))
        return f"the driver has not answered for {seconds} s; the last readings are used"

    def _say(self, why: str) -> None:
        if why and why.split(" for ")[0] != self._why.split(" for ")[0]:
            log.info("%s", why)
        self._why = why
