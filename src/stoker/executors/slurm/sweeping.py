"""What is at the cluster, and no attempt wants it: jobs are cancelled, batches forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.executors.slurm.cancelling import Canceller
from stoker.executors.slurm.cases import Case
from stoker.executors.slurm.files import Files
from stoker.executors.slurm.squeue import Seen
from stoker.executors.slurm.watching import Watcher

_ENDS_WITHIN_S = 10.0


@dataclass(slots=True)
class Phantoms:
    """Jobs that run by Slurm's word alone: since when, although their own files say they ended.

    A controller that was killed takes up what it had saved, and so has jobs run that ended
    meanwhile; their nodes told its predecessor. It finds out only minutes later. Until then their
    GPUs are taken, so they are called off.
    """

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


class Sweeper:
    """Goes through all that the watcher has seen."""

    def __init__(self, watcher: Watcher, canceller: Canceller) -> None:
        self._watcher = watcher
        self._canceller = canceller
        self._phantoms = Phantoms()

    def sweep(self, cases: Iterable[Case], files: Files, now: float) -> None:
        """Cancel what waits at the cluster for no attempt, and forget the batches that are over."""
        by_place = self._watcher.by_place
        known = {(case.batch, case.index): case for case in cases if case.batch}
        live_ids = {one.id for seen in by_place.values() for one in seen if one.live}
        self._canceller.confirm(live_ids, self._watcher.asked_at)
        wanted: list[Seen] = []
        unwanted: list[Seen] = []
        ended: list[Seen] = []
        for place, seen in by_place.items():
            case = known.get(place)
            for one in filter(lambda one: one.live, seen):
                is_wanted = case is not None and _is_wanted(case, one)
                (wanted if is_wanted else unwanted).append(one)
                if case is None and one.state == "RUNNING":
                    if files.was_withdrawn(*place):
                        self._canceller.withdraw(one, now)
                    elif files.has_ended(*place):
                        ended.append(one)
        self._canceller.sift(unwanted, wanted, now)
        self._call_off_phantoms(ended, now)
        live = {batch for batch, _ in by_place} | {batch for batch, _ in known}
        for batch in files.batches():
            if batch not in live:
                files.forget_batch(batch)

    def _call_off_phantoms(self, ended: list[Seen], now: float) -> None:
        overdue = self._phantoms.overdue(ended, now)
        for one in overdue:
            self._canceller.end(one.name, one.id, one, now)
        due_at = self._phantoms.due_at()
        if due_at is not None and not overdue:
            self._watcher.not_later_than(due_at)


def _is_wanted(case: Case, seen: Seen) -> bool:
    """False for a job that was submitted a second time, or whose attempt is to end."""
    if case.started is None:
        return not case.stopping
    return case.started.slurm_id == seen.id
