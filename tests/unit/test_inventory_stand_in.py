"""The stand-in GPUs of `stoker demo`, and that no real driver is asked beside them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stoker.inventory.amd import AmdDriver
from stoker.inventory.auto import AutoInventory
from stoker.inventory.device_reading import DriverUnavailable
from stoker.inventory.nvml import NvmlDriver
from stoker.inventory.stand_in import VARIABLE, StandInDriver
from stoker.ports import SeenProcess


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    for number in "01":
        (tmp_path / number).mkdir()
    return tmp_path


def test_what_living_processes_say_of_themselves_is_measured(gpus: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    (gpus / "1" / str(os.getpid())).write_text("7168 30")
    (gpus / "1" / f"{os.getpid()}.new").write_text("")
    (gpus / "1" / str(dead.pid)).write_text("4096 50")
    driver = StandInDriver(str(gpus))
    assert list(driver.positions()) == [0, 1]
    (idle,), (busy,) = driver.read(0, 5).gpus, driver.read(1, 6).gpus
    assert (idle.used_mib, idle.processes) == (0, ())
    assert (busy.used_mib, busy.utilisation_percent, busy.measured_at_ms) == (7168, 30, 6)
    assert busy.processes == (SeenProcess(os.getpid(), 7168, True),)


def test_stand_ins_that_are_gone_are_a_driver_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(DriverUnavailable, match="the stand-in GPUs are gone"):
        StandInDriver(str(tmp_path / "nowhere")).positions()


def test_no_real_driver_is_asked_beside_stand_ins(
    gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    for real in (NvmlDriver, AmdDriver):
        monkeypatch.setattr(real, "open", lambda driver: asked.append(driver))
    monkeypatch.setenv(VARIABLE, str(gpus))
    inventory = AutoInventory(lambda: 0, lambda: None)
    try:
        inventory.start(wait_s=60)
        seen = inventory.observe().gpus or ()
    finally:
        inventory.stop()
    assert [gpu.vendor for gpu in seen] == ["stand-in"] * 2
    assert asked == []
