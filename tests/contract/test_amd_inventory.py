"""AMD's GPUs as seen through the real `amdsmi`, on a stand-in libamd_smi.so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu.build import Built
from fakegpu.driver import FakeDriver
from fakegpu.observer import Observer
from stoker.inventory.background import Pace
from stoker.inventory.device_reading import NOT_LISTED
from stoker.ports import SeenGpu, SeenProcess
from waiting import eventually

CALM = Pace(interval_s=0.05, timeout_s=30, retry_s=0.3)
QUICK = Pace(interval_s=0.05, timeout_s=0.4, retry_s=0.3)
BUSY, NO_DATA = 30, 40  # of AMD's statuses


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    driver = FakeDriver.create(tmp_path / "gpus")
    for number in range(3):
        driver.add_device(
            64 * 1024, name="AMD Instinct MI210", uuid=f"GPU-{number:016x}", reserved_mib=100
        )
    return driver


@pytest.fixture
def observer(driver: FakeDriver, built: Built) -> Iterator[Observer]:
    with Observer(driver.amd_environment(built), CALM, "amd") as observer:
        yield observer


def test_all_that_the_driver_measures_is_read(driver: FakeDriver, observer: Observer) -> None:
    driver.set_reading(1, utilisation=83, temperature_c=71, power_w=212, power_limit_w=300)
    driver.add_process(1, os.getpid(), 3000)
    seen = observer.by_id()[driver.uuid(1)]
    assert seen == SeenGpu(
        id="GPU-0000000000000001",
        memory_mib=64 * 1024,
        index=1,
        name="AMD Instinct MI210",
        used_mib=3100,
        utilisation_percent=83,
        temperature_c=71,
        power_w=212.0,
        power_limit_w=300.0,
        processes=(SeenProcess(os.getpid(), 3000),),
        measured_at_ms=seen.measured_at_ms,
        distances=((driver.uuid(0), 40), (driver.uuid(2), 40)),
        vendor="amd",
    )
    assert observer.why == ""


def test_gpus_on_one_fabric_are_nearest(driver: FakeDriver, built: Built) -> None:
    driver.link(0, 2, 0, nvlinks=1)
    with Observer(driver.amd_environment(built), CALM, "amd") as observer:
        distances = dict(observer.by_id()[driver.uuid(0)].distances)
    assert distances[driver.uuid(2)] < distances[driver.uuid(1)]


def test_a_process_of_another_user_hides_no_other(driver: FakeDriver, observer: Observer) -> None:
    driver.add_process(0, os.getpid(), 500)
    driver.add_process(0, os.getppid(), 700, hides_memory=True)
    seen = observer.by_id()[driver.uuid(0)].processes
    assert set(seen) == {SeenProcess(os.getpid(), 500), SeenProcess(os.getppid(), None)}


def test_what_is_not_measured_is_unknown(driver: FakeDriver, observer: Observer) -> None:
    driver.set_reading(0, hides_readings=True)
    seen = observer.by_id()[driver.uuid(0)]
    assert (seen.utilisation_percent, seen.power_w) == (None, None)
    driver.rule(function="amdsmi_get_gpu_vram_usage", device=0, code=NO_DATA)
    seen = observer.by_id()[driver.uuid(0)]
    assert (seen.memory_mib, seen.used_mib, seen.fault) == (None, None, "")


def test_a_gpu_that_fails_is_shown_with_its_fault_and_the_others_as_usual(
    driver: FakeDriver, observer: Observer
) -> None:
    assert observer.by_id()[driver.uuid(2)].fault == ""
    driver.fault(2, BUSY)
    seen = observer.by_id()
    assert "AMDSMI_STATUS_BUSY" in seen[driver.uuid(2)].fault
    assert seen[driver.uuid(0)].fault == ""
    driver.fault(2, 0)
    eventually(lambda: observer.by_id()[driver.uuid(2)].fault == "", "it is well again")


def test_a_driver_that_goes_away_comes_back(driver: FakeDriver, observer: Observer) -> None:
    assert len(observer.by_id()) == 3
    driver.stop()
    eventually(lambda: observer.by_id()[driver.uuid(0)].fault, "the driver is gone")
    assert "not loaded" in observer.why
    driver.remove_device(2)
    driver.start()
    eventually(lambda: observer.by_id()[driver.uuid(0)].fault == "", "it is back")
    assert observer.by_id()[driver.uuid(2)].fault == NOT_LISTED


def test_a_call_that_hangs_holds_up_no_other_gpu(driver: FakeDriver, built: Built) -> None:
    driver.rule(function="amdsmi_get_gpu_activity", device=1, delay_s=600)
    with Observer(driver.amd_environment(built), QUICK, "amd") as observer:
        seen = eventually(observer.by_id, "the others are read")
        assert driver.uuid(0) in seen and driver.uuid(1) not in seen
        driver.clear_rules()


def test_without_rocm_it_is_said_in_one_line_and_nothing_is_printed(built: Built) -> None:
    with Observer({"LD_LIBRARY_PATH": str(built.root)}, CALM, "amd") as observer:
        assert observer.observe() is None
        assert observer.why == "ROCm's library, libamd_smi.so, was not found"
