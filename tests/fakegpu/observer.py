"""A process of its own that sees GPUs as the daemon does, and says so when asked.

The driver's library is chosen when a process starts, by LD_LIBRARY_PATH: so the real nvidia-ml-py
must be met in a process that was started with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from stoker.inventory.amd import AmdDriver
from stoker.inventory.background import BackgroundInventory, Pace
from stoker.inventory.device_reading import Driver
from stoker.inventory.nvml import NvmlDriver
from stoker.ports import SeenGpu, SeenProcess

_TESTS = Path(__file__).resolve().parents[1]


class Observer:
    """The asking side."""

    def __init__(self, env: Mapping[str, str], pace: Pace, vendor: str = "nvidia") -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), json.dumps(asdict(pace)), vendor],
            env={
                "PYTHONPATH": f"{_TESTS.parent / 'src'}:{_TESTS}",
                "PYTHONDONTWRITEBYTECODE": "1",
                **env,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.why = ""
        self.took_ms = 0.0
        self.threads = 0

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def observe(self) -> list[SeenGpu] | None:
        """What is seen now."""
        return self._ask("observe")

    def next_reading(self) -> list[SeenGpu] | None:
        """What is seen after a further round of reading, however soon."""
        return self._ask("next")

    def by_id(self) -> dict[str, SeenGpu]:
        """A further reading, by UUID."""
        return {gpu.id: gpu for gpu in self.next_reading() or []}

    def forgive(self, gpu_id: str) -> None:
        """Say that a GPU is well again."""
        self._ask(f"forgive {gpu_id}")

    def _ask(self, words: str) -> list[SeenGpu] | None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        self.why, self.took_ms = answer["why"], answer["took_ms"]
        self.threads = answer["threads"]
        if answer["gpus"] is None:
            return None
        return [_gpu(gpu) for gpu in answer["gpus"]]


def _gpu(fields: dict[str, Any]) -> SeenGpu:
    fields["processes"] = tuple(SeenProcess(**process) for process in fields["processes"])
    fields["distances"] = tuple((other, level) for other, level in fields["distances"])
    return SeenGpu(**fields)


def _serve() -> None:
    rounds = threading.Condition()
    count = 0

    def notify() -> None:
        nonlocal count
        with rounds:
            count += 1
            rounds.notify_all()

    pace = Pace(**json.loads(sys.argv[1]))
    driver: Driver = NvmlDriver() if sys.argv[2] == "nvidia" else AmdDriver()
    inventory = BackgroundInventory(driver, pace=pace, notify=notify)
    inventory.start()
    inventory.wait_for_reading(60)
    for line in sys.stdin:
        if line.startswith("forgive"):
            assert isinstance(driver, NvmlDriver)
            driver.forgive(line.split()[1])
        elif line.startswith("next"):
            with rounds:
                # The round that is under way may have begun before it was asked.
                target = count + 2
                while count < target:
                    inventory.read_soon()
                    rounds.wait(0.1)
        began_s = time.perf_counter()
        sighting = inventory.observe()
        took_ms = (time.perf_counter() - began_s) * 1000
        gpus = None if sighting.gpus is None else [asdict(gpu) for gpu in sighting.gpus]
        answer = {
            "gpus": gpus,
            "why": inventory.why,
            "took_ms": took_ms,
            "threads": threading.active_count(),
        }
        print(json.dumps(answer), flush=True)
    inventory.stop()


if __name__ == "__main__":
    _serve()
