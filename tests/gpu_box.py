"""A Stoker on a machine with GPUs that are not there: the stand-in driver and its reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakegpu.build import Built
from fakegpu.driver import OLD_DRIVER, FakeDriver
from stoker_home import StokerHome
from waiting import eventually

SPEED = 20  # seconds of a training in one of ours


class Box(StokerHome):
    """A machine with GPUs, and the Stoker on it."""

    def __init__(
        self,
        root: Path,
        built: Built,
        devices: int,
        memory_mib: int = 24 * 1024,
        driver_version: str = OLD_DRIVER,
    ) -> None:
        super().__init__(root)
        self.driver = FakeDriver.create(root / "gpus", devices, memory_mib, driver_version)
        self.env |= self.driver.environment(built, SPEED)

    def power_on(self, **settings: str) -> None:
        """Start the daemon, reading often, and with little patience for what settles."""
        self.stoker("daemon", "start")
        for name, value in {"poll": "50ms", "settle": "500ms", **settings}.items():
            self.call("config_set", name=name.replace("_", "-"), value=value)

    def train(self, *words: str, **fields: Any) -> int:
        """Queue a training; its id."""
        return self.submit("fakegpu-train", *words, **fields)

    def gpus(self) -> dict[str, dict[str, Any]]:
        """What is shown of the GPUs, by id."""
        return {gpu["id"]: gpu for gpu in self.call("gpus")["gpus"]}

    def until_gpu(self, gpu_id: str, **wanted: Any) -> dict[str, Any]:
        """The GPU once these are as wanted."""

        def there() -> dict[str, Any] | None:
            gpu = self.gpus().get(gpu_id, {})
            return gpu if all(gpu.get(k) == v for k, v in wanted.items()) else None

        found = eventually(there, f"GPU {gpu_id} shows {wanted}")
        assert found is not None
        return found

    def why(self, job_id: int) -> str:
        """Why a job waits, in words."""
        text: str = self.call("why", select={"ids": [str(job_id)]})["jobs"][0]["text"]
        return text

    def until_why(self, job_id: int, words: str) -> str:
        """Why a job waits, once these words are in it."""
        return eventually(lambda: text if words in (text := self.why(job_id)) else "", words)

    def profiles(self) -> dict[str, dict[str, Any]]:
        """What was learned, by kind."""
        return {one["kind"]: one for one in self.call("profiles")["profiles"]}
