"""Tools that others wrote for NVIDIA's driver show on the stand-in what Stoker shows."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu.build import Built
from fakegpu.driver import NEW_DRIVER, OLD_DRIVER
from gpu_box import Box
from peers import peers_bin

MIG_MIB = [5120, 10_240]


@pytest.fixture(params=[OLD_DRIVER, NEW_DRIVER])
def busy_box(request: pytest.FixtureRequest, tmp_path: Path, built: Built) -> Iterator[Box]:
    """Two GPUs and one with two instances, with a training on the first, under two drivers."""
    box = Box(tmp_path, built, 2, driver_version=request.param)
    box.driver.add_device(16 * 1024, mig=True)
    box.driver.set_mig(2, MIG_MIB)
    box.driver.set_reading(1, utilisation=83, temperature_c=71, power_w=212)
    try:
        box.power_on()
        box.train("--peak", "6G", "--ramp", "0", "--use", "40", "--seconds", "100000", on=["0"])
        box.until_gpu("0", used_mib=6 * 1024, utilisation_percent=40)
        yield box
    finally:
        box.clean_up()


def output_of(box: Box, *command: str) -> str:
    done = subprocess.run(
        [str(peers_bin() / command[0]), *command[1:]],
        env=box.env | {"TERM": "dumb", "LC_ALL": "C.UTF-8", "COLUMNS": "79"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_gpustat_shows_what_stoker_shows(busy_box: Box) -> None:
    shown = json.loads(output_of(busy_box, "gpustat", "--json"))["gpus"]
    ours = busy_box.gpus()
    for number in (0, 1):
        gpu, theirs = ours[str(number)], shown[number]
        assert theirs["uuid"] == gpu["uuid"] and theirs["name"] == gpu["name"]
        assert theirs["memory.used"] == gpu["used_mib"]
        assert theirs["utilization.gpu"] == gpu["utilisation_percent"]
        assert theirs["temperature.gpu"] == gpu["temperature_c"]
        assert theirs["power.draw"] == gpu["power_w"]
    (job,) = busy_box.jobs().values()
    assert [p["pid"] for p in shown[0]["processes"]] == [job["pid"]]
    assert shown[1]["processes"] == []


def test_nvitop_shows_what_stoker_shows(busy_box: Box) -> None:
    text = output_of(busy_box, "nvitop", "-1", "--no-unicode")
    version, cuda = busy_box.driver.versions()
    assert f"Driver Version: {version} " in text and f"CUDA Driver Version: {cuda} " in text
    ours = busy_box.gpus()
    for number in (0, 1):
        gpu = ours[str(number)]
        (line,) = re.findall(rf"^\|   {number}  Stand-In.*\n(.*)", text, re.MULTILINE)
        assert f"{gpu['temperature_c']}C" in line and f"{gpu['power_w']:.0f}W /" in line
        assert f"{gpu['utilisation_percent']}%" in line
        assert (f"{gpu['used_mib']}MiB / " if gpu["used_mib"] else " 0B / ") in line
    for number, mib in enumerate(MIG_MIB):
        assert re.search(rf"^\| 2:{number} .* / +{mib}MiB", text, re.MULTILINE)
    (job,) = busy_box.jobs().values()
    assert re.search(rf"^\| +0 +{job['pid']} C .* {6 * 1024}MiB +40 ", text, re.MULTILINE)
