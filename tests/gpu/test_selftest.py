"""`stoker selftest` on the stand-in driver: each of its checks passes, and each can fail."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakegpu.build import Built
from fakegpu.driver import EXCLUSIVE, GPU_IS_LOST, NEW_DRIVER, NOT_SUPPORTED, UNKNOWN
from gpu_box import Box
from stoker_home import processes_with
from terminals import Terminal
from waiting import eventually


@pytest.fixture
def machine(tmp_path: Path, built: Built) -> Iterator[Box]:
    """Four GPUs, and a directory for temporary files that is seen through."""
    box = Box(tmp_path, built, 4, driver_version=NEW_DRIVER)
    (tmp_path / "tmp").mkdir()
    box.env["TMPDIR"] = str(tmp_path / "tmp")
    try:
        yield box
    finally:
        box.clean_up()
        for pid in processes_with(f"TMPDIR={tmp_path / 'tmp'}".encode()):
            os.kill(pid, 9)


def result_of(box: Box, code: int) -> dict[str, tuple[str, str]]:
    """What each check found: its result and its words."""
    ran = box.cli("selftest", "--json")
    assert ran.code == code, ran.out + ran.err
    found: dict[str, Any] = json.loads(ran.out)
    assert found["ok"] == (code == 0)
    assert is_clean(box)
    return {one["check"]: (one["result"], one["text"]) for one in found["checks"]}


def is_clean(box: Box) -> bool:
    """Nothing of the self-test is left, neither file nor process nor memory."""
    home = f"STOKER_HOME={box.env['TMPDIR']}/".encode()
    return os.listdir(box.env["TMPDIR"]) == [] and not processes_with(home, prefix=True)


def test_on_a_good_machine_all_passes_and_gpus_in_use_are_left_alone(machine: Box) -> None:
    machine.driver.add_device()
    machine.power_on()
    job = machine.submit("sleep", "100000", on=["1"])
    machine.call("gpu_drain", gpus=["3"])
    stranger = subprocess.Popen(["sleep", "100000"])
    try:
        machine.until_state(job, "running")
        machine.driver.add_process(2, stranger.pid, 3000)
        found = result_of(machine, 0)
    finally:
        stranger.kill()
        stranger.wait()
    assert {check: result for check, (result, _) in found.items()} == {
        "GPU 0": "ok",
        "GPU 1": "skipped",
        "GPU 2": "skipped",
        "GPU 3": "skipped",
        "GPU 4": "ok",
        "GPU 0: own device": "ok",
        "GPU 0: memory of a job": "ok",
        "GPU 4: own device": "ok",
        "GPU 4: memory of a job": "ok",
        "packing": "ok",
        "out of memory": "ok",
        "killed jobs": "ok",
        "MPS": "ok",
        "links": "ok",
    }
    assert found["GPU 1"][1].endswith(f"in use by your queue (job {job})")
    assert found["GPU 2"][1].endswith(f"in use by process {stranger.pid}")
    assert found["GPU 3"][1].endswith("paused in your queue")
    assert "0-4: the rest of the machine" in found["links"][1]
    assert machine.jobs()[job]["state"] == "running"
    assert list(machine.jobs()) == [job], "the user's queue has no job of the self-test"


def test_what_is_wrong_with_a_machine_is_found(machine: Box, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    control = broken / "nvidia-cuda-mps-control"
    control.write_text("#!/bin/sh\nexit 1\n")
    control.chmod(0o755)
    machine.env["PATH"] = f"{broken}:{machine.env['PATH']}"
    driver = machine.driver
    driver.fault(3, GPU_IS_LOST)
    driver.rule(function="cuDeviceGetUuid", device=2, code=UNKNOWN)
    driver.rule(function="beyond", code=UNKNOWN)
    driver.rule(function="only one")
    driver.set_reading(1, hides_process_memory=True)
    driver.rule(function="nvmlDeviceGetMemoryInfo", device=1, code=NOT_SUPPORTED)
    found = result_of(machine, 1)
    assert {check for check, (result, _) in found.items() if result == "failed"} == {
        "GPU 3",
        "GPU 2: own device",
        "GPU 1: memory of a job",
        "out of memory",
        "MPS",
        "links",
    }
    assert "GPU is lost" in found["GPU 3"][1]
    assert "cuDeviceGetUuid_v2: CUDA_ERROR_UNKNOWN (999)" in found["GPU 2: own device"][1]
    assert "tells no memory of its process" in found["GPU 1: memory of a job"][1]
    assert found["out of memory"][1].endswith("the driver answered error 999")
    assert "saw 1 GPU" in found["links"][1]


def test_a_machine_whose_gpus_can_not_be_shared_is_found(machine: Box) -> None:
    for number in (1, 2, 3):
        machine.driver.remove_device(number)
    machine.driver.set_reading(0, compute_mode=EXCLUSIVE)
    machine.driver.rule(function="stays")
    found = result_of(machine, 1)
    failed = {check for check, (result, _) in found.items() if result == "failed"}
    assert failed == {"packing", "out of memory", "killed jobs"}
    assert "CUDA_ERROR_DEVICE_UNAVAILABLE (46)" in found["packing"][1]
    assert found["killed jobs"][1].endswith("MiB are still used after two jobs were killed")
    assert found["links"] == ("skipped", "two free GPUs are needed")


def test_without_a_gpu_nothing_passes(machine: Box) -> None:
    for number in range(4):
        machine.driver.remove_device(number)
    assert list(result_of(machine, 1)) == ["GPUs"]


def test_ctrl_c_leaves_nothing(machine: Box) -> None:
    with Terminal(
        machine.command("selftest"), machine.env | {"NO_COLOR": "1"}, machine.work
    ) as seen:
        seen.until(b"own device")
        seen.type(b"\x03")
        assert seen.wait() == 130
    assert seen.screen.decode().endswith("was interrupted, and has cleaned up\r\n")
    eventually(lambda: is_clean(machine), "nothing is left")
    assert machine.driver.allocations() == []
