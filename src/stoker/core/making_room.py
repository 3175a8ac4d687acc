"""Which attempts have to end so that jobs that wait can start: as few as needed, where it helps.

Pure arithmetic on a state that is not changed. Room that is about to come by itself, because an
attempt is told to stop already, is counted once: for the first job that can use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.fit import eligible, fits_beside, natural, reservation
from stoker.core.model import Gpu, Job, Need, Reservation
from stoker.core.state import State


class MakingRoom:
    """Ask it for one job after the other, those that come first in line first."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._leaving = dict(state.stopping)  # the jobs whose attempts are about to end
        self._taken: dict[str, list[Reservation]] = {}  # by jobs that room was made for
        self._cpus = state.cpus - state.cpus_used
        self._places: dict[str, int] = {}  # of a group, that are given up less those taken
        for job_id in state.stopping:
            self._leaves(state.jobs[job_id])

    def for_job(self, job: Job, offered: Sequence[Job]) -> list[Job] | None:
        """Those of the offered ones that have to end for it; None if that would not be enough.

        Who is offered first is taken first, where fewer others would not do.
        """
        state, need = self._state, self._state.need_of(job)
        chosen: dict[int, Job] = {}
        if job.group is not None and self._places_in(job.group) < 1:
            if state.groups[job.group].paused:
                return None
            of_group = [one for one in offered if one.group == job.group]
            if not of_group:
                return None
            chosen[of_group[0].id] = of_group[0]
        gpus = self._gpus_for(need, offered, chosen)
        if len(gpus) < need.gpus:
            return None
        for gpu in gpus:
            chosen |= {one.id: one for one in self._in_the_way(need, gpu, offered, chosen) or ()}
        cpus = self._cpus + sum(_cpus_of(one) for one in chosen.values())
        for one in offered:
            if cpus < need.cpus and one.id not in chosen and _cpus_of(one):
                chosen[one.id] = one
                cpus += _cpus_of(one)
        if cpus < need.cpus:
            return None
        for one in chosen.values():
            self._leaving[one.id] = None
            self._leaves(one)
        for gpu in gpus:
            self._taken.setdefault(gpu.id, []).append(reservation(need, gpu))
        self._cpus -= need.cpus
        if job.group is not None:
            self._places[job.group] = self._places.get(job.group, 0) - 1
        return list(chosen.values())

    def _gpus_for(self, need: Need, offered: Sequence[Job], chosen: dict[int, Job]) -> list[Gpu]:
        """The GPUs that the job would get: those on which the fewest have to end, and the first."""
        places = {one.id: place for place, one in enumerate(offered)}
        found = []
        for gpu in self._state.gpus.values():
            if need.gpus and eligible(need, gpu):
                in_the_way = self._in_the_way(need, gpu, offered, chosen)
                if in_the_way is not None:
                    order = (len(in_the_way), [places[one.id] for one in in_the_way])
                    found.append((order, natural(gpu.shown_as), gpu))
        found.sort(key=lambda one: one[:2])
        return [gpu for _, _, gpu in found[: need.gpus]]

    def _in_the_way(
        self, need: Need, gpu: Gpu, offered: Sequence[Job], chosen: dict[int, Job]
    ) -> list[Job] | None:
        """Those of the offered ones on a GPU that have to end for the need to fit there."""
        if gpu.others and (need.whole or (gpu.reading is not None and gpu.reading.closed)):
            return None
        mine, gone = reservation(need, gpu), {*self._leaving, *chosen}
        found: list[Job] = []
        candidates = [one for one in offered if one.id in gpu.held_by and one.id not in gone]
        while not self._fits(mine, gpu, gone):
            if not candidates:
                return None
            found.append(candidates.pop(0))
            gone.add(found[-1].id)
        for one in list(found[:-1]):
            # Those that come later may be larger, and enough without it.
            if self._fits(mine, gpu, gone - {one.id}):
                found.remove(one)
                gone.remove(one.id)
        return found

    def _fits(self, mine: Reservation, gpu: Gpu, gone: set[int]) -> bool:
        staying = [held for job_id, held in gpu.held_by.items() if job_id not in gone]
        staying += self._taken.get(gpu.id, ())
        if gpu.others_mib and mine.memory.mib + gpu.others_mib > (gpu.memory_mib or 0):
            return False
        return fits_beside(mine, staying, gpu)

    def _places_in(self, name: str) -> int:
        group = self._state.groups[name]
        if group.paused:
            return 0
        most = group.max_running
        left = len(self._state.jobs) if most is None else most - group.running
        return left + self._places.get(name, 0)

    def _leaves(self, job: Job) -> None:
        self._cpus += _cpus_of(job)
        if job.group is not None:
            self._places[job.group] = self._places.get(job.group, 0) + 1


def _cpus_of(job: Job) -> int:
    """The slots of this machine that an attempt has."""
    return 0 if job.terms.executor else job.need.cpus
