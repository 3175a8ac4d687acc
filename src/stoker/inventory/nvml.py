"""NVIDIA's GPUs through nvidia-ml-py, which is optional and imported only here.

Law: a value that the driver does not give is None; only what makes a GPU unusable is a fault.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn, TypeVar

from stoker.inventory.device_reading import (
    GPU_IS_LOST,
    NEEDS_RESET,
    Around,
    DeviceReading,
    DriverUnavailable,
    Fault,
    faulty,
)
from stoker.ports import SeenGpu, SeenProcess

T = TypeVar("T")

VENDOR = "nvidia"
_MIB = 1 << 20

# NVML's numbers for what went wrong.
_UNINITIALIZED = 1
_DRIVER_NOT_LOADED = 9
_LIBRARY_NOT_FOUND = 12
_GPU_IS_LOST = 15
_RESET_REQUIRED = 16
_VERSION_MISMATCH = 18
_ARGUMENT_VERSION_MISMATCH = 25

_WORDS = {
    _UNINITIALIZED: "the NVIDIA driver was restarted",
    _DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    _LIBRARY_NOT_FOUND: "the NVIDIA driver's library, libnvidia-ml.so.1, was not found",
    _VERSION_MISMATCH: "the NVIDIA driver was updated and does not match its library: reboot, "
    "or reload the driver and restart Stoker's daemon",
    _GPU_IS_LOST: GPU_IS_LOST,
    _RESET_REQUIRED: NEEDS_RESET,
}
_DRIVER_GONE = frozenset(
    {_UNINITIALIZED, _DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND, _VERSION_MISMATCH}
)
_GPU_GONE = frozenset({_GPU_IS_LOST, _RESET_REQUIRED})
_NOT_TOLD = frozenset({3, 4, 13, 21})  # not supported, no permission, no function, no data

# Critical errors after which a GPU is of no use until it is reset; all others (an illegal address,
# for one) are the fault of the program that they end.
_FATAL_XIDS = frozenset({46, 48, 62, 64, 79, 95, 110, 119, 120, 140, 143})
_EVENTS_AT_A_TIME = 64

NVLINK, SAME_BOARD, ONE_SWITCH, SEVERAL_SWITCHES, HOST_BRIDGE, NUMA_NODE, SYSTEM = range(7)
_LEVELS = {
    0: SAME_BOARD, 10: ONE_SWITCH, 20: SEVERAL_SWITCHES, 30: HOST_BRIDGE, 40: NUMA_NODE, 50: SYSTEM,
}  # fmt: skip
LINK_WORDS = (
    "NVLink", "the same board", "one PCIe switch", "several PCIe switches", "the host bridge",
    "the NUMA node", "the rest of the machine",
)  # fmt: skip


class NvmlDriver:
    """One session with the driver; see device_reading.Driver."""

    def __init__(self, around: Around = lambda package: package) -> None:
        """`around` gives what is asked in place of the vendor's package."""
        self._around = around
        self._nvml: ModuleType = ModuleType("pynvml")
        self._events: Any = None
        self._watched: set[int] = set()
        self._xids: dict[str, str] = {}

    def open(self) -> None:
        """See Driver."""
        try:
            self._nvml = self._around(importlib.import_module("pynvml"))
        except ImportError:
            from stoker.installing import install_command

            raise DriverUnavailable(
                f"nvidia-ml-py is not installed; run: {install_command('nvidia-ml-py')}"
            ) from None
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            # Whatever was wrong with a GPU, the driver has since been away.
            self._xids.clear()
            raise DriverUnavailable(_words(error)) from None
        self._watched.clear()
        try:
            self._events = self._nvml.nvmlEventSetCreate()
        except self._nvml.NVMLError:
            self._events = None

    def close(self) -> None:
        """See Driver."""
        events, self._events = self._events, None
        with suppress(self._nvml.NVMLError):  # It had gone already.
            if events is not None:
                self._nvml.nvmlEventSetFree(events)
            self._nvml.nvmlShutdown()

    def forgive(self, gpu_id: str) -> None:
        """Forget the critical errors of a GPU that its user says is well again."""
        self._xids.pop(gpu_id, None)

    def positions(self) -> Sequence[int]:
        """See Driver."""
        try:
            count: int = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            self._xids.clear()
            raise DriverUnavailable(_words(error)) from None
        self._note_xids()
        return range(count)

    def read(self, position: int, now_ms: int) -> DeviceReading:
        """See Driver."""
        try:
            return self._read(position, now_ms)
        except Fault as fault:
            return DeviceReading("", fault=str(fault))

    def distances(self, positions: Sequence[int]) -> Mapping[tuple[str, str], int]:
        """See Driver."""
        handles: dict[str, Any] = {}
        for position in positions:
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(position)
                handles[self._nvml.nvmlDeviceGetUUID(handle)] = handle
            except self._nvml.NVMLError:
                continue
        found = {}
        for one in handles:
            for other in handles:
                if one < other:
                    distance = self._distance(handles[one], handles[other])
                    if distance is not None:
                        found[one, other] = found[other, one] = distance
        return found

    # ------------------------------------------------------------------ one device

    def _read(self, position: int, now_ms: int) -> DeviceReading:
        nvml = self._nvml
        handle = self._must(nvml.nvmlDeviceGetHandleByIndex, position)
        uuid: str = self._must(nvml.nvmlDeviceGetUUID, handle)
        pci = self._must(nvml.nvmlDeviceGetPciInfo, handle)
        order = (pci.domain, pci.bus, pci.device)
        self._watch(position, handle)
        if uuid in self._xids:
            memory_mib, name = self._memory(handle)[0], self._name(handle)
            gpu = SeenGpu(uuid, memory_mib, name=name, vendor=VENDOR)
            return faulty(DeviceReading(uuid, order, (gpu,)), self._xids[uuid], now_ms)
        try:
            mig = self._may(nvml.nvmlDeviceGetMigMode, handle)
            if mig is not None and mig[0] == nvml.NVML_DEVICE_MIG_ENABLE:
                gpus = self._instances(handle, now_ms)
                return DeviceReading(uuid, order, gpus, partitioned=True)
            return DeviceReading(uuid, order, (self._gpu(handle, handle, uuid, now_ms),))
        except Fault as fault:
            # Which device it is was still told, so that its name need not be guessed.
            gpu = SeenGpu(uuid, vendor=VENDOR)
            return faulty(DeviceReading(uuid, order, (gpu,)), str(fault), now_ms)

    def _instances(self, parent: Any, now_ms: int) -> tuple[SeenGpu, ...]:
        nvml = self._nvml
        found = []
        for number in range(self._may(nvml.nvmlDeviceGetMaxMigDeviceCount, parent) or 0):
            handle = self._may(nvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, number)
            if handle is None:
                continue  # Numbers have gaps, and instances come and go.
            uuid = self._may(nvml.nvmlDeviceGetUUID, handle)
            if uuid is not None:
                found.append(self._gpu(handle, parent, uuid, now_ms))
        return tuple(found)

    def _gpu(self, handle: Any, board: Any, uuid: str, now_ms: int) -> SeenGpu:
        """A GPU or an instance; heat and power are those of the board that it is on."""
        nvml = self._nvml
        total, used, reserved = self._memory(handle)
        rates = self._may(nvml.nvmlDeviceGetUtilizationRates, handle)
        power_mw = self._may(nvml.nvmlDeviceGetPowerUsage, board)
        limit_mw = self._may(nvml.nvmlDeviceGetEnforcedPowerLimit, board)
        return SeenGpu(
            uuid,
            total,
            name=self._name(handle),
            used_mib=used,
            reserved_mib=reserved,
            utilisation_percent=None if rates is None else rates.gpu,
            temperature_c=self._may(
                nvml.nvmlDeviceGetTemperature, board, nvml.NVML_TEMPERATURE_GPU
            ),
            power_w=None if power_mw is None else power_mw / 1000,
            power_limit_w=None if limit_mw is None else limit_mw / 1000,
            processes=self._processes(handle),
            measured_at_ms=now_ms,
            vendor=VENDOR,
        )

    def _name(self, handle: Any) -> str:
        return self._may(self._nvml.nvmlDeviceGetName, handle) or ""

    def _memory(self, handle: Any) -> tuple[int | None, int | None, int | None]:
        """Total, used and reserved by the driver, in MiB."""
        nvml = self._nvml
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        except nvml.NVMLError as error:
            if error.value not in _NOT_TOLD | {_ARGUMENT_VERSION_MISMATCH}:
                self._raise(error)
        else:
            return memory.total // _MIB, _mib_up(memory.used), _mib_up(memory.reserved)
        try:
            # An older driver: what it keeps for itself counts as used.
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            if error.value not in _NOT_TOLD:
                self._raise(error)
            return None, None, None
        return memory.total // _MIB, _mib_up(memory.used), None

    def _processes(self, handle: Any) -> tuple[SeenProcess, ...]:
        """Programs that compute and programs that draw; one that does both is told of twice."""
        nvml = self._nvml
        used: dict[int, int | None] = {}
        computing: set[int] = set()
        for computes, ask in (
            (True, nvml.nvmlDeviceGetComputeRunningProcesses),
            (False, nvml.nvmlDeviceGetGraphicsRunningProcesses),
        ):
            for process in self._may(ask, handle) or []:
                mib = None if process.usedGpuMemory is None else _mib_up(process.usedGpuMemory)
                before = used.get(process.pid)
                used[process.pid] = before if mib is None else max(mib, before or 0)
                if computes:
                    computing.add(process.pid)
        return tuple(SeenProcess(pid, mib, pid in computing) for pid, mib in sorted(used.items()))

    def _distance(self, one: Any, other: Any) -> int | None:
        nvml = self._nvml
        with suppress(nvml.NVMLError):  # A GPU without such links need not know the question.
            status = nvml.nvmlDeviceGetP2PStatus(one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
            if status == nvml.NVML_P2P_STATUS_OK:
                return NVLINK
        try:
            return _LEVELS.get(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other))
        except nvml.NVMLError:
            return None

    # ------------------------------------------------------------------ critical errors

    def _watch(self, position: int, handle: Any) -> None:
        if self._events is None or position in self._watched:
            return
        self._watched.add(position)
        with suppress(self._nvml.NVMLError):  # Not every GPU tells of them.
            self._nvml.nvmlDeviceRegisterEvents(
                handle, self._nvml.nvmlEventTypeXidCriticalError, self._events
            )

    def _note_xids(self) -> None:
        for _ in range(_EVENTS_AT_A_TIME if self._events is not None else 0):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                if event.eventData in _FATAL_XIDS:
                    uuid = self._nvml.nvmlDeviceGetUUID(event.device)
                    self._xids[uuid] = f"XID {event.eventData}: {NEEDS_RESET}"
            except self._nvml.NVMLError:
                break  # There are no more, or the GPU is gone and says so itself.

    # ------------------------------------------------------------------ errors

    def _must(self, ask: Callable[..., T], *args: object) -> T:
        """The answer; whatever goes wrong makes the GPU unusable."""
        try:
            return ask(*args)
        except self._nvml.NVMLError as error:
            self._raise(error)

    def _may(self, ask: Callable[..., T], *args: object) -> T | None:
        """The answer, or None where there is none to be had."""
        try:
            return ask(*args)
        except self._nvml.NVMLError as error:
            if error.value in _DRIVER_GONE | _GPU_GONE:
                self._raise(error)
            return None

    def _raise(self, error: Any) -> NoReturn:
        if error.value in _DRIVER_GONE:
            self._xids.clear()
            raise DriverUnavailable(_words(error)) from None
        raise Fault(_words(error)) from None


def _mib_up(size: int) -> int:
    """Whole MiB, rounded so that what is used is never told too small."""
    return -(-size // _MIB)


def _words(error: Any) -> str:
    return _WORDS.get(error.value, f"NVML: {error}")
