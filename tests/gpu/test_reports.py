"""`stoker doctor --report`: what it tells, what it does not, and machines made of such reports."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fakegpu import replay
from fakegpu.build import Built
from fakegpu.driver import NEW_DRIVER, NOT_SUPPORTED, ONE_SWITCH, FakeDriver
from gpu_box import Box
from stoker.command_lines import driver_report
from stoker_home import StokerHome

# Reports that were sent in. A file that is put here is a machine on which these tests run.
REPORTS = sorted((Path(replay.__file__).parent / "reports").glob("*.json"))


def report_of(env: dict[str, str], patience_s: float = 60) -> dict[str, Any]:
    done = subprocess.run(
        driver_report(patience_s), env=os.environ | env, capture_output=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def nvidia(report: dict[str, Any]) -> dict[str, Any]:
    (found,) = (driver for driver in report["drivers"] if driver["vendor"] == "nvidia")
    return dict(found)


def without_times(driver: dict[str, Any]) -> dict[str, Any]:
    calls = [(c["function"], c["gpu"], c["times"], c["errors"]) for c in driver["calls"]]
    return {**driver, "calls": calls}


@pytest.fixture
def unusual(tmp_path: Path) -> FakeDriver:
    """A machine with two GPUs that are linked, one in two parts, and one that tells little."""
    driver = FakeDriver.create(tmp_path / "unusual", devices=2, driver_version=NEW_DRIVER)
    driver.link(0, 1, ONE_SWITCH, nvlinks=4)
    driver.add_device(40 * 1024, name="NVIDIA A100-PCIE-40GB", mig=True)
    driver.set_mig(2, [5 * 1024, 10 * 1024])
    driver.add_device(16 * 1024, bus=0x81)
    driver.rule(function="nvmlDeviceGetPowerUsage", device=3, code=NOT_SUPPORTED)
    driver.rule(function="nvmlDeviceGetMemoryInfo_v2", device=3, code=NOT_SUPPORTED)
    driver.add_process(0, os.getpid(), 3000)
    driver.add_process(1, os.getpid(), 500, hides_memory=True)
    return driver


def test_a_machine_made_of_a_report_gives_the_same_report(
    built: Built, unusual: FakeDriver, tmp_path: Path
) -> None:
    told = report_of(unusual.environment(built))
    parts = [part for gpu in nvidia(told)["gpus"] for part in gpu["parts"]]
    assert [part["processes_with_memory"] for part in parts] == [1, 0, 0, 0, 0]
    assert [gpu["mig"] for gpu in nvidia(told)["gpus"]] == [False, False, True, False]
    assert [parts[-1]["power_w"], parts[-1]["reserved_mib"]] == [None, None]
    again = report_of(replay.machine(told, tmp_path / "again").environment(built))
    assert without_times(nvidia(again)) == without_times(nvidia(told))


@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.stem)
def test_stoker_shows_of_a_reported_machine_what_its_report_says(
    file: Path, built: Built, tmp_path: Path
) -> None:
    told = json.loads(file.read_text())
    box = Box(tmp_path, built, 0)
    box.driver = replay.machine(told, tmp_path / "machine", slowly=True)
    box.env |= box.driver.environment(built)
    try:
        box.power_on()
        shown = [(gpu["name"], gpu["fault"]) for gpu in box.call("gpus")["gpus"]]
        job = box.submit("true", gpus=1)
        assert box.until_final(job)[0]["state"] == "succeeded"
    finally:
        box.clean_up()
    parts = [(g["fault"], part) for g in nvidia(told)["gpus"] for part in g["parts"]]
    assert shown == [(part["model"], fault) for fault, part in parts]


def test_a_report_does_not_tell_whose_machine_it_is(
    built: Built, unusual: FakeDriver, tmp_path: Path
) -> None:
    home = StokerHome(tmp_path)
    ran = home.cli("doctor", "--report", "gpus.json", env=unusual.environment(built))
    assert ran.code == 0 and ran.out == ""
    assert ran.err == f"stoker: gpus.json is written: 4 GPUs, nvidia driver {NEW_DRIVER}\n"
    text = (home.work / "gpus.json").read_text()
    drivers = json.dumps(json.loads(text)["drivers"])
    secrets = [socket.gethostname(), getpass.getuser(), unusual.uuid(0), str(tmp_path), "sleep"]
    assert [s for s in secrets if re.search(rf"\b{re.escape(s)}\b", drivers)] == []
    parts = [part for gpu in nvidia(json.loads(text))["gpus"] for part in gpu["parts"]]
    assert os.getpid() not in [value for part in parts for value in part.values()]
    assert not os.path.exists(home.home.root), "no daemon was started"


def test_a_call_that_hangs_is_named(built: Built, tmp_path: Path) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=2)
    driver.rule(function="nvmlDeviceGetPowerUsage", device=1, delay_s=600)
    told = nvidia(report_of(driver.environment(built), patience_s=3))
    assert told["hangs"] == {"function": "nvmlDeviceGetPowerUsage", "gpu": 1}


def test_a_report_of_amd_gpus_says_what_they_measure(built: Built, tmp_path: Path) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=2)
    (told,) = (
        one for one in report_of(driver.amd_environment(built))["drivers"] if one["vendor"] == "amd"
    )
    assert [gpu["parts"][0]["memory_mib"] for gpu in told["gpus"]] == [24 * 1024] * 2
    assert told["links"][0]["words"] == "PCIe"
    assert "amdsmi_get_gpu_activity" in {calls["function"] for calls in told["calls"]}


def test_without_a_driver_the_report_says_why_and_a_file_that_can_not_be_written_too(
    tmp_path: Path,
) -> None:
    home = StokerHome(tmp_path)
    told = json.loads(home.stoker("doctor", "--report", "-"))
    assert all(driver["why"] for driver in told["drivers"])
    ran = home.cli("doctor", "--report", "nowhere/gpus.json")
    assert ran.code == 1
    assert ran.err == (
        "stoker: nowhere/gpus.json can't be written: No such file or directory; name another file\n"
    )
