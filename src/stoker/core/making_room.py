"""Which attempts have to end so that jobs that wait can start: as few as needed, where it helps.

Pure arithmetic on a state that is not changed. Room that is about to come by itself, because an
attempt is told to stop already, is counted once: for the first job that can use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

from stoker.core.fit import eligible, fits_beside, natural, reservation
from stoker.core.gpu import Gpu, Reservation
from stoker.core.model import Job, Need, Rank
from stoker.core.ready import JobClass
from stoker.core.state import State

# How many classes of jobs that wait are looked at, so that a turn does not take as long as a queue
# in which all jobs differ.
MOST_CLASSES = 64


def nothing_starts(state: State) -> bool:
    """True while room would be made in vain, since nothing starts whatever room there is."""
    short, low = state.short, state.low_disk
    return state.paused or bool((low and low.stops) or (short and short.holds(state.now_ms)))


def waiting_for_room(state: State, groups: set[str | None]) -> Iterator[tuple[Rank, Job]]:
    """The jobs that only wait for room, or for a place in one of these groups, in order.

    Each with its place in line, by the policy.
    """
    ready = state.ready
    lines = [ready.in_line(line) for line in (*ready.gpu_lines(), ready.cpu_line)]
    heads = [head for line in lines for head in islice(line, MOST_CLASSES)]
    heads.sort(key=ready.key_of)
    classes = [head.in_class for head in heads]
    classes += [cls for name in sorted(filter(None, groups)) for cls in ready.parked(name)]
    jobs = [_places(state, cls) for cls in classes[: 2 * MOST_CLASSES] if cls is not None]
    yield from merge(*jobs, key=lambda entry: entry[0])


def _places(state: State, cls: JobClass) -> Iterator[tuple[Rank, Job]]:
    for rank, job in state.ready.jobs_of(cls):
        if job is not None:
            yield state.ready.key(cls, rank), job


class Room(NamedTuple):
    """What a job that waits will have."""

    ending: list[Job]  # have to end for that
    gpus: tuple[str, ...]


class MakingRoom:
    """Ask it for one job after the other, those that come first in line first."""

    def __init__(self, state: State, leaving: Iterable[int]) -> None:
        """`leaving`: the jobs whose attempts are about to end anyway."""
        self._state = state
        self._leaving = dict.fromkeys(leaving)
        self._taken: dict[str, list[Reservation]] = {}  # by jobs that room was made for
        self._cpus = state.cpus - state.cpus_used
        self._places: dict[str, int] = {}  # of a group, that are given up less those taken
        for job_id in self._leaving:
            self._leaves(state.jobs[job_id])

    def for_job(self, job: Job, offered: Sequence[Job]) -> Room | None:
        """What it will have if some of the offered ones end; None if that would not be enough.

        Who is offered first is taken first, where fewer others would not do.
        """
        found = self._found(job, offered)
        if found is None:
            return None
        room = self._with_fewer(job, offered, found)
        for one in room.ending:
            self._leaving[one.id] = None
            self._leaves(one)
        need = self._state.need_of(job)
        for gpu_id in room.gpus:
            gpu = self._state.gpus[gpu_id]
            self._taken.setdefault(gpu_id, []).append(reservation(need, gpu))
        self._cpus -= need.cpus
        if job.group is not None:
            self._places[job.group] = self._places.get(job.group, 0) - 1
        return room

    def _with_fewer(self, job: Job, offered: Sequence[Job], room: Room) -> Room:
        """GPU by GPU, more may have been taken than are needed: one may be on several of them."""
        if len(room.ending) < 2:
            return room
        for one in offered:
            alone = self._found(job, [one])
            if alone is not None:
                return alone
        for one in reversed(room.ending):
            others = [other for other in room.ending if other is not one]
            room = self._found(job, others) or room
        return room

    def _found(self, job: Job, offered: Sequence[Job]) -> Room | None:
        state, need = self._state, self._state.need_of(job)
        chosen: dict[int, Job] = {}
        offered = [one for one in offered if one.id not in self._leaving]
        if job.group is not None:
            missing = max(0, 1 - self._places_in(job.group))
            of_group = [one for one in offered if one.group == job.group]
            if len(of_group) < missing or (missing and state.groups[job.group].paused):
                return None
            chosen = {one.id: one for one in of_group[:missing]}
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
        return Room(list(chosen.values()), tuple(gpu.id for gpu in gpus))

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
