"""What the drivers of this machine's GPUs say, for a bug report: models, versions, errors, times.

A program of its own, so that a driver that hangs holds up nothing. It asks exactly what the daemon
asks, since it is the daemon's own reader that asks here.

Law: nothing in it tells whose machine it is: no host, user or program, no UUID, no pid.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from stoker import __version__
from stoker.inventory.amd import AmdDriver
from stoker.inventory.auto import link_words
from stoker.inventory.device_reading import Around, DeviceReading, Driver, DriverUnavailable
from stoker.inventory.nvml import NvmlDriver
from stoker.ports import SeenGpu

FORMAT = 1
_ROUNDS = 3  # The first reading of a GPU may take longer than all others.
# What may be unknown of a GPU.
_READINGS = (
    "memory_mib", "used_mib", "reserved_mib", "utilisation_percent", "temperature_c", "power_w",
    "power_limit_w",
)  # fmt: skip


@dataclass
class Calls:
    """How one function answered, of one GPU."""

    count: int = 0
    longest_ms: float = 0.0
    total_ms: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)  # how often each number came

    def shown(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "times": self.count,
            "mean_ms": round(self.total_ms / self.count, 3),
            "longest_ms": round(self.longest_ms, 3),
            "errors": self.errors,
        }


class Listener:
    """Stands between a reader and its vendor's package, and notes each call."""

    def __init__(self) -> None:
        self.position: int | None = None
        self.calls: dict[tuple[str, int | None], Calls] = {}
        self.package = ModuleType("none")
        self.asking: tuple[str, int | None] | None = None

    def around(self, package: ModuleType) -> ModuleType:
        """The package, with its functions listened to."""
        self.package = package
        heard = ModuleType(package.__name__)
        for attribute, value in vars(package).items():
            is_question = attribute.startswith(("nvml", "amdsmi_")) and callable(value)
            if is_question and not isinstance(value, type):
                value = self._heard(attribute, value)
            setattr(heard, attribute, value)
        return heard

    def _heard(self, name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **options: Any) -> Any:
            # nvidia-ml-py asks another function where a version is wanted.
            form = f"{name}_v2" if "version" in options else name
            calls = self.calls.setdefault((form, self.position), Calls())
            self.asking = (form, self.position)
            began_s = time.perf_counter()
            try:
                return ask(*args, **options)
            except Exception as error:
                number = getattr(error, "value", getattr(error, "err_code", None))
                said = str(number if isinstance(number, int) else type(error).__name__)
                calls.errors[said] = calls.errors.get(said, 0) + 1
                raise
            finally:
                self.asking = None
                took_ms = (time.perf_counter() - began_s) * 1000
                calls.count += 1
                calls.total_ms += took_ms
                calls.longest_ms = max(calls.longest_ms, took_ms)

        return asked

    def shown(self) -> dict[str, Any]:
        """For JSON: all calls, and the one that has not come back."""
        calls = [
            {"function": name, "gpu": position, **told.shown()}
            for (name, position), told in self.calls.items()
            if told.count
        ]
        hangs = None
        if self.asking is not None:
            hangs = {"function": self.asking[0], "gpu": self.asking[1]}
        return {"calls": calls, "hangs": hangs}


class Report:
    """What is known so far, at any moment."""

    def __init__(self) -> None:
        self._drivers: list[tuple[dict[str, Any], Listener]] = []

    def shown(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "format": FORMAT,
            "stoker": __version__,
            "python": platform.python_version(),
            "kernel": platform.release(),
            "drivers": [{**found, **listener.shown()} for found, listener in self._drivers],
        }

    def ask(
        self,
        vendor: str,
        package: str,
        kind: Callable[[Around], Driver],
        versions: Callable[[ModuleType], dict[str, Any]],
    ) -> None:
        """Take in all that a driver says."""
        listener = Listener()
        found: dict[str, Any] = {"vendor": vendor, "package": _version_of(package), "why": ""}
        self._drivers.append((found, listener))
        driver = kind(listener.around)
        try:
            driver.open()
            found["versions"] = versions(listener.package)
            positions = driver.positions()
            readings = [_read(driver, listener, position) for position in positions]
            found["gpus"] = [_of_device(p, r) for p, r in zip(positions, readings, strict=True)]
            listener.position = None
            driver.positions()  # Errors that happened meanwhile are taken in with this.
            found["links"] = _links(vendor, readings, driver.distances(positions))
            driver.close()
        except DriverUnavailable as gone:
            found["why"] = str(gone)


def _read(driver: Driver, listener: Listener, position: int) -> DeviceReading:
    listener.position = position
    for _ in range(_ROUNDS):
        reading = driver.read(position, 0)
    return reading


def _of_device(position: int, reading: DeviceReading) -> dict[str, Any]:
    """One board: itself, or its instances."""
    return {
        "position": position,
        "bus": list(reading.order),
        "mig": reading.partitioned,
        "fault": reading.fault,
        "parts": [_of_gpu(gpu) for gpu in reading.gpus],
    }


def _of_gpu(gpu: SeenGpu) -> dict[str, Any]:
    processes = gpu.processes
    return {
        "model": gpu.name,
        "uuid_form": _form(gpu.id),
        **{name: getattr(gpu, name) for name in _READINGS},
        "processes": len(processes),
        "processes_with_memory": sum(process.used_mib is not None for process in processes),
        "processes_that_draw": sum(not process.computes for process in processes),
    }


def _form(uuid: str) -> str:
    """`GPU-xxxxxxxx-xxxx-…`: what a UUID looks like, and not which one it is."""
    known = uuid[:4] if uuid.startswith(("GPU-", "MIG-")) else ""
    return known + "".join("x" if c.isalnum() else c for c in uuid[len(known) :])


def _links(
    vendor: str, readings: Sequence[DeviceReading], distances: Mapping[tuple[str, str], int]
) -> list[dict[str, Any]]:
    at = {reading.id: number for number, reading in enumerate(readings) if reading.id}
    return [
        {
            "between": [at[one], at[other]],
            "distance": distance,
            "words": link_words(vendor, distance),
        }
        for (one, other), distance in sorted(distances.items(), key=lambda pair: pair[0])
        if one in at and other in at and at[one] < at[other]
    ]


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _nvidia_versions(nvml: ModuleType) -> dict[str, Any]:
    found: dict[str, Any] = {"driver": None, "nvml": None, "cuda": None}
    with suppress(nvml.NVMLError):
        found["driver"] = nvml.nvmlSystemGetDriverVersion()
        found["nvml"] = nvml.nvmlSystemGetNVMLVersion()
        found["cuda"] = nvml.nvmlSystemGetCudaDriverVersion()
    return found


def _amd_versions(smi: ModuleType) -> dict[str, Any]:
    found: dict[str, Any] = {"driver": None}
    with suppress(smi.AmdSmiException, IndexError):
        handle = smi.amdsmi_get_processor_handles()[0]
        found["driver"] = smi.amdsmi_get_gpu_driver_info(handle)["driver_version"]
    return found


def main() -> None:
    """Print the report, after so many seconds also of a driver that does not answer."""
    report = Report()

    def show() -> None:
        json.dump(report.shown(), sys.stdout, indent=1)
        sys.stdout.write("\n")
        sys.stdout.flush()

    def give_up() -> None:
        show()
        os._exit(0)

    watchdog = threading.Timer(float(sys.argv[1]), give_up)
    watchdog.daemon = True
    watchdog.start()
    report.ask("nvidia", "nvidia-ml-py", NvmlDriver, _nvidia_versions)
    report.ask("amd", "amdsmi", AmdDriver, _amd_versions)
    watchdog.cancel()
    show()


if __name__ == "__main__":
    main()
