"""Jobs that run by Slurm's word alone: their own files say that they have ended.

A controller that was killed takes up what it had saved, and so has jobs run that ended meanwhile;
their nodes told its predecessor. It finds out only when it next goes through the jobs of each node,
minutes later. Until then nobody gets their GPUs, so they are called off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.executors.slurm.squeue import Seen

_ENDS_WITHIN_S = 10.0


@dataclass(slots=True)
class Phantoms:
    """Since when which ended jobs have been said to run."""

    _since: dict[str, float] = field(default_factory=dict)

    def overdue(self, ended: Iterable[Seen], now: float) -> list[Seen]:
        """Those of the jobs for which that has gone on for too long; these are all that there are.

        Usually it is no more than the moment that the news takes from the node to the controller.
        """
        there = list(ended)
        self._since = {one.id: self._since.get(one.id, now) for one in there}
        return [one for one in there if now - self._since[one.id] >= _ENDS_WITHIN_S]

    def due_at(self) -> float | None:
        """When Slurm is to be asked again at the latest."""
        first = min(self._since.values(), default=None)
        return None if first is None else first + _ENDS_WITHIN_S
