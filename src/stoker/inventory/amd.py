"""AMD's GPUs through amdsmi, which comes with ROCm, is optional, and is imported only here.

Law: asking and translating are apart.
A value that the driver does not give is None; only what makes a GPU unusable is a fault.
"""

from __future__ import annotations

import ctypes
import importlib
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NoReturn, TypeVar

from stoker.inventory.device_reading import Around, DeviceReading, DriverUnavailable, Fault
from stoker.ports import SeenGpu, SeenProcess

T = TypeVar("T")

VENDOR = "amd"
_MIB = 1 << 20

# amdsmi's numbers for what went wrong.
_DRIVER_GONE = frozenset({32, 34})  # not initialized, driver not loaded
_NOT_TOLD = frozenset({2, 3, 10, 40})  # not supported, not implemented, no permission, no data
_NO_PERMISSION, _OUT_OF_RESOURCES = 10, 15

# What stands for "unknown", where the package does not say "N/A" itself: a field's largest number.
_LARGEST = frozenset({(1 << 32) - 1, (1 << 64) - 1})
_PROCESSES_AT_MOST = 1024

_XGMI = 2  # the kind of link that AMD's own fabric is
_PCIE_WEIGHT = 20  # the least weight that the driver gives to a way over PCIe


@dataclass(frozen=True, slots=True)
class Answers:
    """What amdsmi said about one GPU, as it said it; None where it said nothing."""

    uuid: str
    bdf: str
    enumeration: Mapping[str, Any] | None = None
    asic: Mapping[str, Any] | None = None
    vram: Mapping[str, Any] | None = None
    activity: Mapping[str, Any] | None = None
    power: Mapping[str, Any] | None = None
    power_cap: Mapping[str, Any] | None = None
    temperatures: Sequence[Any] = ()  # the sensors, best first
    processes: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def gpu_id(answers: Answers) -> str:
    """The name that ROCR_VISIBLE_DEVICES understands, where it is told."""
    hip_uuid = (answers.enumeration or {}).get("hip_uuid")
    if isinstance(hip_uuid, str) and hip_uuid.startswith("GPU-"):
        return hip_uuid
    return answers.uuid


def bus_order(bdf: str) -> tuple[int, ...]:
    """`0000:c1:00.0` as numbers, to sort by."""
    domain, bus, rest = bdf.split(":")
    device, _, function = rest.partition(".")
    return (int(domain, 16), int(bus, 16), int(device, 16), int(function or "0", 16))


def seen_gpu(answers: Answers, now_ms: int) -> SeenGpu:
    """A GPU, out of what was said about it."""
    vram = answers.vram or {}
    power = answers.power or {}
    name = (answers.asic or {}).get("market_name")
    return SeenGpu(
        gpu_id(answers),
        _whole(vram.get("vram_total")),
        name=name if isinstance(name, str) and name != "N/A" else "",
        used_mib=_whole(vram.get("vram_used")),
        utilisation_percent=_whole((answers.activity or {}).get("gfx_activity")),
        temperature_c=_first(_celsius(reading) for reading in answers.temperatures),
        power_w=_first(
            _watts(power.get(key))
            for key in ("current_socket_power", "average_socket_power", "socket_power")
        ),
        power_limit_w=_watts((answers.power_cap or {}).get("power_cap")),
        processes=_processes(answers.processes),
        measured_at_ms=now_ms,
        vendor=VENDOR,
    )


def link_distance(link: Mapping[str, Any] | None, weight: int | None) -> int | None:
    """How far two GPUs are: hops over their own fabric, else the driver's weight of the way."""
    kind = None if link is None else link.get("type")
    if link is not None and kind == _XGMI:
        hops = link.get("hops")
        return min(max(1, hops if isinstance(hops, int) else 1), _PCIE_WEIGHT - 1)
    return None if weight is None and kind is None else max(weight or 0, _PCIE_WEIGHT)


def link_words(distance: int) -> str:
    """What is between two GPUs at this distance."""
    if distance >= _PCIE_WEIGHT:
        return "PCIe"
    return "XGMI" if distance == 1 else f"XGMI, {distance} hops"


def _processes(told: Sequence[Mapping[str, Any]]) -> tuple[SeenProcess, ...]:
    found: dict[int, int | None] = {}
    for process in told:
        usage = process.get("memory_usage")
        size = usage.get("vram_mem") if isinstance(usage, Mapping) else process.get("mem")
        number = _whole(size)
        found[int(process["pid"])] = None if number is None else -(-number // _MIB)
    return tuple(SeenProcess(pid, mib) for pid, mib in sorted(found.items()))


def _first(values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _whole(value: object) -> int | None:
    """A count; amdsmi says "N/A" where it knows none."""
    return value if isinstance(value, int) and value >= 0 and value not in _LARGEST else None


def _celsius(value: object) -> int | None:
    number = _whole(value)
    if not number:  # A sensor that is not there reads as 0.
        return None
    return number // 1000 if number > 1000 else number  # Some versions tell thousandths.


def _watts(value: object) -> float | None:
    number = _whole(value)
    if not number:
        return None
    return number / 1e6 if number > 10_000 else float(number)  # Limits come in millionths.


class AmdDriver:
    """One session with the driver; see device_reading.Driver."""

    def __init__(self, around: Around = lambda package: package) -> None:
        """`around` gives what is asked in place of the vendor's package."""
        self._around = around
        self._smi: ModuleType = ModuleType("amdsmi")
        self._handles: list[Any] = []

    def open(self) -> None:
        """See Driver."""
        try:
            # Where it does not find ROCm's library, it prints that, each time.
            with redirect_stdout(io.StringIO()):
                self._smi = self._around(importlib.import_module("amdsmi"))
        except ImportError:
            raise DriverUnavailable("amdsmi, which comes with ROCm, is not installed") from None
        except Exception:
            # The module looks for ROCm's library as it is loaded, and fails in ways of its own.
            raise DriverUnavailable("ROCm's library, libamd_smi.so, was not found") from None
        try:
            self._smi.amdsmi_init()
        except self._smi.AmdSmiException as error:
            raise DriverUnavailable(f"amdsmi: {_words(error)}") from None

    def close(self) -> None:
        """See Driver."""
        with suppress(self._smi.AmdSmiException):  # It had gone already.
            self._smi.amdsmi_shut_down()

    def positions(self) -> Sequence[int]:
        """See Driver."""
        try:
            self._handles = list(self._smi.amdsmi_get_processor_handles())
        except self._smi.AmdSmiException as error:
            raise DriverUnavailable(f"amdsmi: {_words(error)}") from None
        return range(len(self._handles))

    def read(self, position: int, now_ms: int) -> DeviceReading:
        """See Driver."""
        smi = self._smi
        handle = self._handles[position]
        try:
            answers = Answers(
                uuid=self._must(smi.amdsmi_get_gpu_device_uuid, handle),
                bdf=self._must(smi.amdsmi_get_gpu_device_bdf, handle),
                enumeration=self._may("amdsmi_get_gpu_enumeration_info", handle),
                asic=self._may("amdsmi_get_gpu_asic_info", handle),
                vram=self._vram(handle),
                activity=self._may("amdsmi_get_gpu_activity", handle),
                power=self._may("amdsmi_get_power_info", handle),
                power_cap=self._may("amdsmi_get_power_cap_info", handle),
                temperatures=[
                    self._may(
                        "amdsmi_get_temp_metric",
                        handle,
                        sensor,
                        smi.AmdSmiTemperatureMetric.CURRENT,
                    )
                    for sensor in (
                        smi.AmdSmiTemperatureType.EDGE,
                        smi.AmdSmiTemperatureType.HOTSPOT,
                    )
                ],
                processes=self._process_list(handle),
            )
        except Fault as fault:
            return DeviceReading("", fault=str(fault))
        gpu = seen_gpu(answers, now_ms)
        return DeviceReading(gpu.id, bus_order(answers.bdf), (gpu,))

    def distances(self, positions: Sequence[int]) -> Mapping[tuple[str, str], int]:
        """See Driver."""
        ids = {p: reading.id for p in positions if (reading := self.read(p, 0)).id}
        found = {}
        for one in ids:
            for other in ids:
                if one < other:
                    pair = (self._handles[one], self._handles[other])
                    distance = link_distance(
                        self._may("amdsmi_topo_get_link_type", *pair),
                        self._may("amdsmi_topo_get_link_weight", *pair),
                    )
                    if distance is not None:
                        found[ids[one], ids[other]] = found[ids[other], ids[one]] = distance
        return found

    def _process_list(self, handle: Any) -> Sequence[Mapping[str, Any]]:
        """The processes, also where another user's is among them.

        The driver knows no memory of that one. It says so with an error, and the package throws
        the whole list away. So it is asked once more, without the package's check.
        """
        smi = self._smi
        try:
            told: Sequence[Mapping[str, Any]] = smi.amdsmi_get_gpu_process_list(handle)
        except smi.AmdSmiException as error:
            if _code(error) in _DRIVER_GONE:
                self._raise(error)
            if _code(error) not in (_NO_PERMISSION, _OUT_OF_RESOURCES):
                return ()
        else:
            return told
        wrapper = smi.amdsmi_interface.amdsmi_wrapper
        listed = (wrapper.amdsmi_proc_info_t * _PROCESSES_AT_MOST)()
        count = ctypes.c_uint32(_PROCESSES_AT_MOST)
        wrapper.amdsmi_get_gpu_process_list(handle, ctypes.byref(count), listed)
        return [
            {"pid": one.pid, "memory_usage": {"vram_mem": one.memory_usage.vram_mem}}
            if one.name
            else {"pid": one.pid}
            for one in listed[: min(count.value, _PROCESSES_AT_MOST)]
            if one.pid
        ]

    def _vram(self, handle: Any) -> Mapping[str, Any] | None:
        """Memory is asked of every GPU that works, so that an error is a sign that it does not."""
        try:
            vram: Mapping[str, Any] = self._smi.amdsmi_get_gpu_vram_usage(handle)
        except self._smi.AmdSmiException as error:
            if _code(error) in _NOT_TOLD:
                return None
            self._raise(error)
        return vram

    def _must(self, ask: Callable[..., T], *args: object) -> T:
        try:
            return ask(*args)
        except self._smi.AmdSmiException as error:
            self._raise(error)

    def _may(self, name: str, *args: object) -> Any:
        """The answer, or None where there is none; older versions do not have every question."""
        ask = getattr(self._smi, name, None)
        if ask is None:
            return None
        try:
            return ask(*args)
        except self._smi.AmdSmiException as error:
            if _code(error) in _DRIVER_GONE:
                self._raise(error)
            return None

    def _raise(self, error: Any) -> NoReturn:
        if _code(error) in _DRIVER_GONE:
            raise DriverUnavailable(f"amdsmi: {_words(error)}") from None
        raise Fault(f"amdsmi: {_words(error)}") from None


def _code(error: Any) -> int | None:
    code = getattr(error, "err_code", None)
    return code if isinstance(code, int) else None


def _words(error: Any) -> str:
    """`AMDSMI_STATUS_BUSY - Device busy`, out of `Error code: 30 | ...`."""
    return " ".join(str(error).rpartition("|")[2].split())
