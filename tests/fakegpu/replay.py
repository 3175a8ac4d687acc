"""A machine that somebody reported (`stoker doctor --report`), played by the stand-in driver."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fakegpu.driver import MIB, NEW_DRIVER, OLD_DRIVER, FakeDriver

# What of errors is no property of a machine: an index with no instance, a wait without an event.
_USUAL = {"6", "10", "13"}
_FIRST_PID = 5_000_000  # beyond all that a machine gives
_SLOW_MS = 1
_LEVELS = {1: 0, 2: 10, 3: 20, 4: 30, 5: 40, 6: 50}  # of Stoker's distances, in NVML's numbers


def machine(report: Mapping[str, Any], path: Path, *, slowly: bool = False) -> FakeDriver:
    """NVIDIA's part of a report as a machine; `slowly`: with calls that take as long as there."""
    told = next(driver for driver in report["drivers"] if driver["vendor"] == "nvidia")
    version = told["versions"]["driver"]
    old = int(version.split(".")[0]) <= int(OLD_DRIVER.split(".")[0])
    driver = FakeDriver.create(path, driver_version=OLD_DRIVER if old else NEW_DRIVER)
    with driver.locked() as state:
        state.driver_version = version.encode()
        state.cuda_version = told["versions"]["cuda"]
    can_be_divided = {
        calls["gpu"]
        for calls in told["calls"]
        if calls["function"] == "nvmlDeviceGetMigMode" and not calls["errors"]
    }
    for device in told["gpus"]:
        _add(driver, device, device["position"] in can_be_divided)
    for link in told["links"]:
        one, other = link["between"]
        level = link["distance"]
        driver.link(one, other, _LEVELS.get(level, 0), nvlinks=4 if level == 0 else 0)
    for calls in told["calls"]:
        _rule(driver, calls, slowly)
    return driver


def _add(driver: FakeDriver, device: Mapping[str, Any], can_be_divided: bool) -> None:
    parts = device["parts"]
    domain, bus, slot = device["bus"]
    whole = parts[0] if parts and not device["mig"] else {}
    number = driver.add_device(
        whole.get("memory_mib") or 80 * 1024,
        name=whole.get("model") or "a board in parts",
        reserved_mib=_reserved_mib(whole),
        bus=bus,
        mig=can_be_divided,
    )
    if device["mig"]:
        driver.set_mig(number, [part["memory_mib"] for part in parts])
    with driver.locked() as state:
        state.devices[number].domain, state.devices[number].slot = domain, slot
        for at, part in enumerate(parts if device["mig"] else []):
            state.devices[number].migs[at].name = part["model"].encode()
            state.devices[number].migs[at].reserved = (part["reserved_mib"] or 0) * MIB
    for at, part in enumerate(parts):
        driver.set_reading(
            number,
            utilisation=part["utilisation_percent"],
            temperature_c=part["temperature_c"],
            power_w=part["power_w"],
            power_limit_w=part["power_limit_w"],
        )
        _add_processes(driver, number, at if device["mig"] else None, part)


def _reserved_mib(part: Mapping[str, Any]) -> int:
    """What the driver keeps; where it does not say so, that is what is used while nothing runs."""
    if part.get("reserved_mib") is None and not part.get("processes"):
        return part.get("used_mib") or 0
    return part.get("reserved_mib") or 0


def _add_processes(
    driver: FakeDriver, number: int, mig: int | None, part: Mapping[str, Any]
) -> None:
    """What ran there: so many processes, which together have what was in use."""
    count, named = part["processes"], part["processes_with_memory"]
    for at in range(count):
        driver.add_process(
            number,
            _FIRST_PID + number * 1000 + (mig or 0) * 100 + at,
            (part["used_mib"] or 0) // count,
            mig=mig,
            graphics=at < part["processes_that_draw"],
            hides_memory=at >= named,
            of_this_machine=False,
        )


def _rule(driver: FakeDriver, calls: Mapping[str, Any], slowly: bool) -> None:
    """What the driver refused each time, it refuses here as well."""
    always = [code for code, times in calls["errors"].items() if times == calls["times"]]
    codes = [int(code) for code in always if code.isdecimal() and code not in _USUAL]
    delay_s = calls["mean_ms"] / 1000 if slowly and calls["mean_ms"] >= _SLOW_MS else 0
    if calls["gpu"] is not None and (codes or delay_s):
        code = codes[0] if codes else 0
        driver.rule(function=calls["function"], device=calls["gpu"], code=code, delay_s=delay_s)
