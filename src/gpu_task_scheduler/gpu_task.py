"""What a user of Stoker's GPUTaskScheduler inherits from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class GPUTask:
    """One test instance: write `main`, and `required_env` if it needs environment variables."""

    def __init__(self, config: dict[str, Any], work_dir: str) -> None:
        self._config = config
        self._work_dir = work_dir

    def required_env(self) -> Mapping[str, str]:
        """Environment variables for `main`, called before it starts, in its own process.

        They are there from the start of the process in which `main` runs.
        """
        return {}

    def main(self) -> None:
        """The test itself."""
