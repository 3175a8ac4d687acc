"""Machines to try the older tools' commands on: without a driver, or with 1, 2, 4 or 8 GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_box import Box
from stoker_home import StokerHome

DECLARED = 3  # so many GPUs a user names where no driver shows any


@dataclass(frozen=True)
class Machine:
    """A machine on which no Stoker was ever started."""

    home: StokerHome
    shown: int  # how many GPUs its driver shows; 0 if there is no driver

    @property
    def ids(self) -> list[str]:
        """The GPUs that its user names."""
        return [str(number) for number in range(self.shown or DECLARED)]


@pytest.fixture(params=[0, 1, 2, 4, 8], ids=lambda count: f"{count}-gpus" if count else "no-driver")
def new_machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """One of each."""
    shown: int = request.param
    home = Box(tmp_path, request.getfixturevalue("built"), shown) if shown else StokerHome(tmp_path)
    try:
        yield Machine(home, shown)
    finally:
        home.clean_up()
