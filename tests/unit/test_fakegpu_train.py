"""The workload: it meets the stand-in's devices as a CUDA program meets real ones."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakegpu.build import Built
from fakegpu.driver import GPU_IS_LOST, FakeDriver
from waiting import eventually


class Trainer:
    """Starts workloads on one machine, and ends those that are left."""

    def __init__(self, driver: FakeDriver, built: Built) -> None:
        self.driver = driver
        self.built = built
        self.started: list[subprocess.Popen[str]] = []

    def start(self, words: str, speed: float = 50, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(self.built.train), *words.split()],
            env={**self.driver.environment(self.built, speed), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(self, words: str, **env: str) -> tuple[int, Any, str]:
        """The exit code, the report (if there is one), and what was said on stderr."""
        process = self.start(words, 50, **env)
        out, err = process.communicate()
        return process.returncode, json.loads(out) if out else None, err

    def start_and_hold(self, mib: int, device: int = 0, **env: str) -> subprocess.Popen[str]:
        """One that has its memory and stays."""
        env.setdefault("CUDA_VISIBLE_DEVICES", str(device))
        process = self.start(f"--peak {mib}M --seconds 1000 --use 60%", speed=1, **env)
        eventually(
            lambda: any(a.pid == process.pid and a.mib == mib for a in self.driver.allocations()),
            "it has its memory",
        )
        return process

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


@pytest.fixture
def trainer(tmp_path: Path, built: Built) -> Iterator[Trainer]:
    trainer = Trainer(FakeDriver.create(tmp_path / "gpus", devices=3, memory_mib=8192), built)
    try:
        yield trainer
    finally:
        trainer.end()


def test_a_training_reports_its_peak_and_that_it_was_alone(trainer: Trainer) -> None:
    code, report, _ = trainer.run("--peak 6G --ramp 2s --late-peak-at 60% --use 70% --seconds 5")
    assert code == 0
    (device,) = report["devices"]
    assert device["peak_mib"] == 6144
    assert device["neighbours"] == []
    assert trainer.driver.allocations() == []


def test_memory_grows_in_steps_and_peaks_late(trainer: Trainer) -> None:
    process = trainer.start("--peak 4G --ramp 10s --late-peak-at 60% --seconds 50", speed=40)
    sizes: set[int] = set()

    def is_over() -> bool:
        sizes.update(a.mib for a in trainer.driver.allocations())
        return process.poll() is not None

    eventually(is_over, "it ends")
    assert process.returncode == 0
    assert len(sizes) >= 2 and max(sizes) <= 4096


def test_a_full_device_ends_a_training_as_pytorch_ends_it(trainer: Trainer) -> None:
    trainer.start_and_hold(5000)
    code, report, err = trainer.run("--peak 4G", CUDA_VISIBLE_DEVICES="0")
    assert (code, report) == (1, None)
    assert "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB." in err
    assert "8.00 GiB of which 2.62 GiB is free" in err


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("tensorflow", "ResourceExhaustedError"),
        ("jax", "RESOURCE_EXHAUSTED: Out of memory"),
        ("cublas", "CUBLAS_STATUS_ALLOC_FAILED"),
        ("cudnn", "CUDNN_STATUS_ALLOC_FAILED"),
    ],
)
def test_each_framework_has_its_own_words_for_a_full_device(
    trainer: Trainer, framework: str, words: str
) -> None:
    code, _, err = trainer.run(f"--peak 9G --framework {framework}")
    assert code == 1
    assert words in err


def test_two_that_want_more_than_there_is_are_slower(trainer: Trainer) -> None:
    alone = trainer.run("--peak 1G --use 70% --seconds 20")[1]["seconds"]
    trainer.driver.add_process(0, 1, 10, use_percent=105, of_this_machine=False)
    too_many_clients = trainer.run("--peak 1G --use 70% --seconds 20")[1]
    assert too_many_clients["devices"][0]["most_use_percent"] == 175
    assert too_many_clients["devices"][0]["neighbours"] == [1]
    # A machine under load only makes both longer; each gets 0.75 of its speed.
    assert too_many_clients["seconds"] > 20 / 0.76
    assert alone >= 20


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("2,0", [2, 0]),
        ("GPU-00000001-fa4e-4000-8000-000000000001", [1]),
        ("GPU-00000002,0", [2, 0]),
        ("1,7,0", [1]),
    ],
)
def test_devices_are_those_that_are_visible_in_their_order(
    trainer: Trainer, visible: str, expected: list[int]
) -> None:
    code, report, _ = trainer.run(
        "--peak 300M", CUDA_VISIBLE_DEVICES=visible, CUDA_DEVICE_ORDER="PCI_BUS_ID"
    )
    assert code == 0
    used = [device["uuid"] for device in report["devices"]]
    assert used == [trainer.driver.uuid(number) for number in expected]


@pytest.mark.parametrize("visible", ["", "-1", "9", "GPU-nobody", "0,0"])
def test_a_program_that_sees_no_device_says_so(trainer: Trainer, visible: str) -> None:
    code, _, err = trainer.run("--peak 300M", CUDA_VISIBLE_DEVICES=visible)
    assert code == 1
    assert "no CUDA-capable device is detected" in err


def test_an_instance_of_a_divided_device_has_only_its_own_memory(trainer: Trainer) -> None:
    cut = trainer.driver.add_device(40_960, mig=True)
    small, large = trainer.driver.set_mig(cut, [4096, 16_384])
    assert trainer.run("--peak 5G", CUDA_VISIBLE_DEVICES=small)[0] == 1
    assert trainer.run("--peak 5G", CUDA_VISIBLE_DEVICES=large)[0] == 0


def test_runs_of_a_kind_that_varies_differ_within_bounds(trainer: Trainer) -> None:
    peaks = {
        trainer.run(f"--peak 1000M --vary 20% --seconds 0.1 --seed {seed}")[1]["devices"][0][
            "peak_mib"
        ]
        for seed in range(8)
    }
    assert len(peaks) > 4
    assert all(800 <= peak <= 1200 for peak in peaks)


def test_a_training_on_a_gpu_that_is_lost_fails(trainer: Trainer) -> None:
    process = trainer.start_and_hold(1000, device=1)
    trainer.driver.fault(1, GPU_IS_LOST)
    _, err = process.communicate()
    assert process.returncode == 1
    assert "CUDA error: unknown error" in err
