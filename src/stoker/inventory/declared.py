"""GPUs that the user declares; no driver is asked. Only the CPU slots are counted."""

from __future__ import annotations

import os

from stoker.ports import Sighting


class DeclaredInventory:
    """Says nothing about GPUs: what the user declared is in the state, and that is all there is."""

    def __init__(self, cpus: int | None = None) -> None:
        self._counted = len(os.sched_getaffinity(0))
        self.set_cpus(cpus)

    def set_cpus(self, cpus: int | None) -> None:
        """How many CPU slots to offer; None for as many as the machine has."""
        self._sighting = Sighting(cpus=self._counted if cpus is None else cpus)

    def read_soon(self) -> None:
        """There is nothing to read."""

    def observe(self) -> Sighting:
        """See ports.Inventory."""
        return self._sighting
