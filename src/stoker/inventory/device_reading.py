"""What a vendor's library says about one device, and how such readings become what is seen.

Pure: no driver is asked here. A device keeps its name through trouble: what was read of it before
tells which one it is when the driver gives no more than an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Protocol

from stoker.ports import SeenGpu

NOT_LISTED = "the driver no longer lists it"
GPU_IS_LOST = "GPU is lost"
NEEDS_RESET = "GPU needs a reset"


def is_lost(fault: str) -> bool:
    """True if what runs on a GPU with this fault can't go on: the GPU itself is at fault."""
    return fault in (NOT_LISTED, GPU_IS_LOST) or fault.endswith(NEEDS_RESET)


Around = Callable[[ModuleType], ModuleType]


class DriverUnavailable(Exception):
    """There is no driver to ask, or it has gone; the words say why, in one line."""


class Fault(Exception):
    """The GPU can't be used, and the words say why."""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One device as read once: itself, or the instances that it is cut into."""

    id: str  # empty if the driver did not even say which device it is
    order: tuple[int, ...] = ()  # where it sits on the bus
    gpus: tuple[SeenGpu, ...] = ()
    partitioned: bool = False
    fault: str = ""


class Driver(Protocol):
    """A vendor's library. Any of these calls may hang; none of them is made by two at once.

    They raise DriverUnavailable when the library must be opened anew.
    """

    def open(self) -> None:
        """Get ready, also after a close."""

    def close(self) -> None:
        """Let go of the driver."""

    def positions(self) -> Sequence[int]:
        """The numbers by which the devices can be read now."""

    def read(self, position: int, now_ms: int) -> DeviceReading:
        """One device; its trouble is a fault in the reading, and no exception."""

    def distances(self, positions: Sequence[int]) -> Mapping[tuple[str, str], int]:
        """How far devices are from each other, by their ids; what is not known is left out."""


def faulty(reading: DeviceReading, fault: str, now_ms: int) -> DeviceReading:
    """A device that was read before, and that can't be used now."""
    gpus = tuple(
        SeenGpu(
            gpu.id,
            gpu.memory_mib,
            name=gpu.name,
            reserved_mib=gpu.reserved_mib,
            fault=fault,
            lost=is_lost(fault),
            measured_at_ms=now_ms,
            vendor=gpu.vendor,
        )
        for gpu in reading.gpus
    )
    return replace(reading, gpus=gpus, fault=fault)


class Known:
    """The devices that were read so far, and at which position."""

    def __init__(self) -> None:
        self.devices: dict[str, DeviceReading] = {}
        self._at: dict[int, str] = {}

    def take(
        self, read: Mapping[int, DeviceReading], positions: Iterable[int], now_ms: int
    ) -> None:
        """Take in a round of readings; positions that were not read keep what they had."""
        positions = list(positions)
        told = {reading.id for reading in read.values() if reading.id}
        at = {p: self._at[p] for p in positions if p not in read and p in self._at}
        waiting = set(at.values())
        missing = [id for id in self.devices if id not in told and id not in waiting]
        for position, reading in read.items():
            if reading.id:
                before = self.devices.get(reading.id)
                if reading.fault and before is not None:
                    # Its instances and its memory are still those that were seen when it was well.
                    reading = faulty(before, reading.fault, now_ms)
                self.devices[reading.id] = reading
                at[position] = reading.id
                continue
            id = self._guess(position, missing)
            before = self.devices.get(id)
            if before is None:
                # It has never been read: all that is known of it is its number.
                before = DeviceReading(id, (1 << 32, position), (SeenGpu(id),))
            self.devices[id] = faulty(before, reading.fault, now_ms)
            at[position] = id
            if id in missing:
                missing.remove(id)
        for id in missing:
            if self.devices[id].order >= (1 << 32,):
                del self.devices[id]  # It has been read since, and has a name now.
            else:
                self.devices[id] = faulty(self.devices[id], NOT_LISTED, now_ms)
        self._at = at

    def _guess(self, position: int, missing: Sequence[str]) -> str:
        """Which device the driver gave only an error for."""
        id = self._at.get(position, "")
        if id in missing:
            return id
        return missing[0] if len(missing) == 1 else str(position)

    def all_faulty(self, fault: str, now_ms: int) -> None:
        """The driver is gone, and none of them can be used."""
        for id, reading in self.devices.items():
            self.devices[id] = faulty(reading, fault, now_ms)

    def seen(self, distances: Mapping[tuple[str, str], int]) -> tuple[SeenGpu, ...]:
        """All GPUs in the order of the bus. Instances have no index: only UUIDs name them."""
        gpus = []
        devices = sorted(self.devices.values(), key=lambda d: (d.order, d.id))
        for index, device in enumerate(devices):
            links = tuple(
                (other.id, distances[device.id, other.id])
                for other in devices
                if (device.id, other.id) in distances and not other.partitioned
            )
            for gpu in device.gpus:
                if device.partitioned:
                    gpus.append(gpu)
                else:
                    gpus.append(replace(gpu, index=index, distances=links))
        return tuple(gpus)
