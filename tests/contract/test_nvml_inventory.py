"""NVIDIA's GPUs as seen through the real nvidia-ml-py, on the stand-in driver."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu.build import Built
from fakegpu.driver import (
    GPU_IS_LOST,
    HOST_BRIDGE,
    LIB_RM_VERSION_MISMATCH,
    NOT_SUPPORTED,
    ONE_SWITCH,
    RESET_REQUIRED,
    SAME_BOARD,
    SYSTEM,
    UNKNOWN,
    FakeDriver,
)
from fakegpu.observer import Observer
from stoker.inventory import nvml
from stoker.inventory.background import Pace
from stoker.inventory.device_reading import NOT_LISTED
from stoker.ports import SeenGpu, SeenProcess
from waiting import eventually

QUICK = Pace(interval_s=0.05, timeout_s=0.4, retry_s=0.3)
# For what must not be taken for a hang on a machine under load.
CALM = Pace(interval_s=0.05, timeout_s=30, retry_s=0.3)


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return FakeDriver.create(tmp_path / "gpus", devices=2)


@pytest.fixture
def observer(driver: FakeDriver, built: Built) -> Iterator[Observer]:
    with Observer(driver.environment(built), CALM) as observer:
        yield observer


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process that is nobody's job."""
    process = subprocess.Popen(["sleep", "1000"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_all_that_the_driver_measures_is_read(driver: FakeDriver, observer: Observer) -> None:
    driver.set_reading(1, utilisation=83, temperature_c=71, power_w=212.5, power_limit_w=350)
    driver.add_process(1, os.getpid(), 3000)
    before_ms = time.time_ns() // 1_000_000
    idle, busy = observer.next_reading() or []
    assert idle.utilisation_percent == 0
    assert busy.measured_at_ms is not None
    assert before_ms <= busy.measured_at_ms <= time.time_ns() // 1_000_000
    assert busy == SeenGpu(
        id=driver.uuid(1),
        memory_mib=24 * 1024,
        index=1,
        name="NVIDIA Stand-In 24GB",
        used_mib=3000,
        reserved_mib=512,
        utilisation_percent=83,
        temperature_c=71,
        power_w=212.5,
        power_limit_w=350.0,
        processes=(SeenProcess(os.getpid(), 3000),),
        measured_at_ms=busy.measured_at_ms,
        distances=((driver.uuid(0), nvml.SYSTEM),),
        vendor="nvidia",
    )
    assert observer.why == ""


def test_what_changes_while_it_is_watched_is_seen(
    driver: FakeDriver, observer: Observer, stranger: int
) -> None:
    driver.add_process(0, stranger, 1000)
    assert observer.by_id()[driver.uuid(0)].used_mib == 1000
    driver.add_process(0, stranger, 5000)
    driver.set_reading(0, temperature_c=80)
    grown = observer.by_id()[driver.uuid(0)]
    assert (grown.used_mib, grown.temperature_c) == (5000, 80)
    driver.remove_process(stranger)
    left = observer.by_id()[driver.uuid(0)]
    assert (left.used_mib, left.processes) == (0, ())


def test_a_process_that_was_killed_is_no_longer_on_the_gpu(
    driver: FakeDriver, observer: Observer
) -> None:
    victim = subprocess.Popen(["sleep", "1000"])
    driver.add_process(0, victim.pid, 1000)
    assert observer.by_id()[driver.uuid(0)].processes == (SeenProcess(victim.pid, 1000),)
    victim.kill()
    victim.wait()
    assert observer.by_id()[driver.uuid(0)].processes == ()


def test_a_process_whose_memory_is_not_told_is_seen_all_the_same(
    driver: FakeDriver, observer: Observer, stranger: int
) -> None:
    driver.add_process(0, stranger, 2048, hides_memory=True)
    gpu = observer.by_id()[driver.uuid(0)]
    assert gpu.processes == (SeenProcess(stranger, None),)
    assert gpu.used_mib == 2048


def test_a_program_that_draws_is_seen_too(
    driver: FakeDriver, observer: Observer, stranger: int
) -> None:
    driver.add_process(0, stranger, 90, graphics=True)
    assert observer.by_id()[driver.uuid(0)].processes == (
        SeenProcess(stranger, 90, computes=False),
    )


def test_more_processes_than_the_first_answer_has_room_for_are_all_seen(
    driver: FakeDriver, observer: Observer
) -> None:
    for pid in range(100_001, 100_061):
        driver.add_process(0, pid, 10, of_this_machine=False)
    assert len(observer.by_id()[driver.uuid(0)].processes) == 60


def test_gpus_are_numbered_in_the_order_of_the_bus(built: Built, tmp_path: Path) -> None:
    driver = FakeDriver.create(tmp_path / "gpus")
    for bus in (0xB1, 0x17, 0x65):
        driver.add_device(bus=bus, uuid=f"GPU-on-bus-{bus:02x}")
    with Observer(driver.environment(built), CALM) as observer:
        seen = observer.observe() or []
    assert [(gpu.id, gpu.index) for gpu in seen] == [
        ("GPU-on-bus-17", 0),
        ("GPU-on-bus-65", 1),
        ("GPU-on-bus-b1", 2),
    ]


def test_instances_of_a_divided_gpu_are_gpus_of_their_own(built: Built, tmp_path: Path) -> None:
    driver = FakeDriver.create(tmp_path / "gpus")
    whole = driver.add_device(80 * 1024)
    cut = driver.add_device(80 * 1024, mig=True)
    first, second = driver.set_mig(cut, [10 * 1024, 20 * 1024])
    driver.add_process(cut, os.getpid(), 700, mig=1)
    with Observer(driver.environment(built), CALM) as observer:
        seen = observer.by_id()
        assert set(seen) == {driver.uuid(whole), first, second}
        assert seen[first].memory_mib == 10 * 1024 and seen[second].memory_mib == 20 * 1024
        assert seen[first].processes == ()
        assert seen[second].processes == (SeenProcess(os.getpid(), 700),)
        assert seen[second].utilisation_percent is None, "NVML does not tell it for instances"
        assert seen[second].temperature_c == 35, "the board's"
        assert seen[second].index is None and seen[driver.uuid(whole)].index == 0
        (alone,) = driver.set_mig(cut, [40 * 1024])
        seen = observer.by_id()
        assert set(seen) == {driver.uuid(whole), alone}
        driver.set_mig(cut, [])
        assert set(observer.by_id()) == {driver.uuid(whole), driver.uuid(cut)}


def test_a_lost_gpu_with_instances_faults_each_of_them(built: Built, tmp_path: Path) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=1)
    cut = driver.add_device(80 * 1024, mig=True)
    first, second = driver.set_mig(cut, [10 * 1024, 20 * 1024])
    with Observer(driver.environment(built), CALM) as observer:
        assert observer.by_id()[first].fault == ""
        driver.fault(cut, GPU_IS_LOST)
        seen = observer.by_id()
        assert {gpu.id: gpu.fault for gpu in seen.values()} == {
            driver.uuid(0): "",
            first: "GPU is lost",
            second: "GPU is lost",
        }


def test_links_are_ordered_from_nvlink_to_the_far_side_of_the_machine(
    built: Built, tmp_path: Path
) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=6)
    driver.link(0, 1, SYSTEM, nvlinks=4)
    driver.link(0, 2, SAME_BOARD)
    driver.link(0, 3, ONE_SWITCH)
    driver.link(0, 4, HOST_BRIDGE)
    with Observer(driver.environment(built), CALM) as observer:
        gpu = observer.by_id()[driver.uuid(0)]
    nearest_first = sorted(gpu.distances, key=lambda link: link[1])
    assert [other for other, _ in nearest_first] == [driver.uuid(n) for n in (1, 2, 3, 4, 5)]
    assert len({distance for _, distance in gpu.distances}) == 5


def test_a_gpu_that_is_lost_is_told_by_name_and_the_others_go_on(
    driver: FakeDriver, observer: Observer
) -> None:
    driver.add_process(1, os.getpid(), 100)
    assert observer.by_id()[driver.uuid(0)].fault == ""
    driver.fault(0, GPU_IS_LOST)
    lost = observer.by_id()[driver.uuid(0)]
    assert (lost.fault, lost.memory_mib, lost.index) == ("GPU is lost", 24 * 1024, 0)
    driver.add_process(1, os.getpid(), 200)
    other = observer.by_id()[driver.uuid(1)]
    assert (other.fault, other.used_mib) == ("", 200)
    driver.fault(0, 0)
    assert observer.by_id()[driver.uuid(0)].fault == ""


def test_a_gpu_that_was_lost_before_the_first_look_has_no_name_but_its_number(
    driver: FakeDriver, built: Built
) -> None:
    driver.fault(0, GPU_IS_LOST)
    with Observer(driver.environment(built), CALM) as observer:
        faults = {gpu.id: gpu.fault for gpu in observer.observe() or []}
        assert faults == {driver.uuid(1): "", "0": "GPU is lost"}
        driver.fault(0, 0)
        faults = {gpu.id: gpu.fault for gpu in observer.next_reading() or []}
        assert faults == {driver.uuid(0): "", driver.uuid(1): ""}


@pytest.mark.parametrize(
    ("code", "fault"), [(RESET_REQUIRED, "GPU needs a reset"), (UNKNOWN, "NVML: Unknown Error")]
)
def test_a_gpu_that_answers_with_an_error_has_a_fault(
    driver: FakeDriver, observer: Observer, code: int, fault: str
) -> None:
    assert len(observer.observe() or []) == 2
    driver.fault(1, code)
    seen = observer.by_id()
    assert (seen[driver.uuid(0)].fault, seen[driver.uuid(1)].fault) == ("", fault)


def test_a_critical_error_is_a_fault_until_it_is_forgiven(
    driver: FakeDriver, observer: Observer
) -> None:
    driver.xid(0, 31)
    assert observer.by_id()[driver.uuid(0)].fault == "", "a program's own mistake"
    driver.xid(0, 79)
    seen = observer.by_id()
    assert seen[driver.uuid(0)].fault.startswith("XID 79")
    assert seen[driver.uuid(1)].fault == ""
    observer.forgive(driver.uuid(0))
    assert observer.by_id()[driver.uuid(0)].fault == ""


def test_what_a_gpu_does_not_support_is_unknown_and_no_fault(
    driver: FakeDriver, observer: Observer
) -> None:
    for function in ("PowerUsage", "EnforcedPowerLimit", "UtilizationRates", "Temperature"):
        driver.rule(function=f"nvmlDeviceGet{function}", device=0, code=NOT_SUPPORTED)
    driver.rule(function="nvmlDeviceGetMemoryInfo", device=0, code=NOT_SUPPORTED)
    gpu = observer.by_id()[driver.uuid(0)]
    assert gpu.fault == ""
    assert (gpu.memory_mib, gpu.used_mib, gpu.utilisation_percent) == (None, None, None)
    assert (gpu.power_w, gpu.power_limit_w, gpu.temperature_c) == (None, None, None)


def test_a_driver_that_hangs_for_5_seconds_delays_nobody_and_is_read_again_after(
    driver: FakeDriver, built: Built
) -> None:
    with Observer(driver.environment(built), QUICK) as observer:
        old = eventually(lambda: {gpu.id: gpu for gpu in observer.observe() or []}, "GPUs are seen")
        driver.rule(delay_s=5)
        eventually(lambda: (observer.observe(), "has not answered" in observer.why)[1], "it hangs")
        driver.add_process(0, os.getpid(), 4000)
        slowest_ms = 0.0

        def is_old() -> bool:
            nonlocal slowest_ms
            seen = {gpu.id: gpu for gpu in observer.observe() or []}[driver.uuid(0)]
            slowest_ms = max(slowest_ms, observer.took_ms)
            assert seen.used_mib == old[driver.uuid(0)].used_mib, "the last reading is used"
            assert observer.threads <= 2 + QUICK.left_behind_at_most
            assert seen.measured_at_ms is not None
            return time.time_ns() // 1_000_000 - seen.measured_at_ms > 3000

        eventually(is_old, "its age can be told")
        # Whoever waits for the driver waits for five seconds.
        assert slowest_ms < 4000
        driver.clear_rules()
        eventually(
            lambda: (
                [g.used_mib for g in observer.observe() or [] if g.id == driver.uuid(0)] == [4000]
            ),
            "it is read again",
        )
        eventually(lambda: (observer.observe(), observer.why == "")[1], "nothing hangs any more")


def test_one_gpu_that_hangs_does_not_keep_the_others_from_being_read(
    driver: FakeDriver, built: Built
) -> None:
    with Observer(driver.environment(built), QUICK) as observer:
        eventually(lambda: len(observer.observe() or []) == 2, "both are seen")
        driver.rule(device=0, delay_s=600)
        eventually(lambda: (observer.observe(), "has not answered" in observer.why)[1], "it hangs")
        for mib in (100, 200, 300):
            driver.add_process(1, os.getpid(), mib)
            assert observer.by_id()[driver.uuid(1)].used_mib == mib
        assert observer.threads <= 4, "the hanging GPU was asked only once"
        driver.clear_rules()


def test_a_gpu_that_hangs_from_the_first_look_on_hides_only_itself(
    driver: FakeDriver, built: Built
) -> None:
    driver.rule(device=0, delay_s=600)
    with Observer(driver.environment(built), QUICK) as observer:
        eventually(
            lambda: [gpu.id for gpu in observer.observe() or []] == [driver.uuid(1)],
            "the other is seen",
        )
        driver.clear_rules()
        eventually(lambda: len(observer.observe() or []) == 2, "both are seen")


def test_a_missing_library_is_one_line_and_no_gpu(tmp_path: Path) -> None:
    with Observer({"LD_LIBRARY_PATH": str(tmp_path)}, QUICK) as observer:
        assert observer.observe() is None
        assert observer.why == "the NVIDIA driver's library, libnvidia-ml.so.1, was not found"


def test_a_missing_driver_is_one_line_and_is_found_when_it_comes(
    driver: FakeDriver, built: Built
) -> None:
    driver.stop()
    with Observer(driver.environment(built), CALM) as observer:
        assert observer.observe() is None
        assert observer.why == "the NVIDIA driver is not loaded"
        driver.start()
        eventually(lambda: len(observer.observe() or []) == 2, "it is found")
        assert observer.why == ""


def test_a_library_that_does_not_match_its_driver_is_explained(
    driver: FakeDriver, built: Built
) -> None:
    driver.init_fails(LIB_RM_VERSION_MISMATCH)
    with Observer(driver.environment(built), CALM) as observer:
        assert observer.observe() is None
        assert "updated" in observer.why and "\n" not in observer.why


def test_gpus_of_a_driver_that_is_restarted_come_back(
    driver: FakeDriver, observer: Observer
) -> None:
    assert len(observer.observe() or []) == 2
    driver.xid(0, 79)
    driver.stop()
    seen = observer.by_id()
    assert {gpu.fault for gpu in seen.values()} == {"the NVIDIA driver is not loaded"}
    driver.start()
    eventually(lambda: {g.fault for g in observer.next_reading() or []} == {""}, "they come back")
    driver.add_process(1, os.getpid(), 77)
    assert observer.by_id()[driver.uuid(1)].used_mib == 77


def test_a_gpu_that_a_restarted_driver_no_longer_lists_is_told_of(
    driver: FakeDriver, observer: Observer
) -> None:
    assert len(observer.observe() or []) == 2
    driver.remove_device(0)
    driver.stop()
    driver.start()
    eventually(
        lambda: (
            {g.id: g.fault for g in observer.next_reading() or []}
            == {driver.uuid(0): NOT_LISTED, driver.uuid(1): ""}
        ),
        "it is missed",
    )
