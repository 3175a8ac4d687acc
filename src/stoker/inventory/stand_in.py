"""The GPUs of `stoker demo`: stand-ins, so that measured memory can be shown on any machine.

They are a directory: one folder per GPU, in it one file per process, named by its pid, with its
memory in MiB and how much it computes in percent. The programs of the demo write these files about
themselves. No real driver is loaded beside them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from stoker.inventory.device_reading import DeviceReading, DriverUnavailable
from stoker.ports import SeenGpu, SeenProcess

# A daemon that has this in its environment sees the GPUs in that directory, and no others.
VARIABLE = "STOKER_STAND_IN_GPUS"
_VENDOR = "stand-in"
_MEMORY_MIB = 24 * 1024


class StandInDriver:
    """See device_reading.Driver."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def open(self) -> None:
        """See Driver."""

    def close(self) -> None:
        """See Driver."""

    def positions(self) -> Sequence[int]:
        """See Driver."""
        try:
            return sorted(int(name) for name in os.listdir(self._directory))
        except OSError as error:
            raise DriverUnavailable(f"the stand-in GPUs are gone: {error.strerror}") from None

    def read(self, position: int, now_ms: int) -> DeviceReading:
        """See Driver."""
        id = f"GPU-stand-in-{position}"
        found = self._processes(position)
        gpu = SeenGpu(
            id,
            _MEMORY_MIB,
            name="Stand-in 24GB",
            used_mib=sum(mib for mib, _ in found.values()),
            utilisation_percent=min(sum(percent for _, percent in found.values()), 100),
            processes=tuple(SeenProcess(pid, mib, True) for pid, (mib, _) in found.items()),
            measured_at_ms=now_ms,
            vendor=_VENDOR,
        )
        return DeviceReading(id, (position,), (gpu,))

    def distances(self, positions: Sequence[int]) -> Mapping[tuple[str, str], int]:
        """See Driver."""
        return {}

    def _processes(self, position: int) -> dict[int, tuple[int, int]]:
        """Memory and utilisation of each living process, by pid."""
        folder = os.path.join(self._directory, str(position))
        found = {}
        for name in sorted(name for name in os.listdir(folder) if name.isdecimal()):
            # As with a real driver, what a process had is free when it has ended.
            if os.path.exists(f"/proc/{name}"):
                with open(os.path.join(folder, name), encoding="ascii") as file:
                    mib, percent = file.read().split()
                found[int(name)] = int(mib), int(percent)
        return found
