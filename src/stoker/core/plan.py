"""The decision: which jobs start on which GPUs now.

A plan is events that were not applied yet, and who makes it has to say how they are: each start
takes room, slots and places in line away from the next, and to apply it is the cheapest way to
reckon with that (a view that is copied on writing costs more than the decision). So `carry_out` is
given the door through which an event comes true, and goes on only when it has.

`Scan` walks the classes of ready jobs in order. The first job that can't start gets GPUs held
back for it: those that will be free for it soonest. A job behind it may go ahead only where it
does not delay that one: on other GPUs, in room that both fit into, or, by its own time limit, in
time that the first can't use. A later job that can't start holds GPUs back too if it could be
served wholly by GPUs for which no earlier one is waiting.
CPU slots are held back in the same way, for the first that wants them.

Jobs of a kind of which nothing is known wait for its scout (see core.scouts), unless GPUs are left
over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stoker.core import events as ev
from stoker.core import reasons as why
from stoker.core.class_walk import ClassWalk
from stoker.core.fit import best, eligible, fits_beside, has_room, preference, reservation
from stoker.core.giving_way import kept_allows, kept_before
from stoker.core.going_ahead import should_take_ms, surely_there_until_ms
from stoker.core.gpu import Gpu, Reservation
from stoker.core.laws import must_agree
from stoker.core.model import ALONE, Job, Memory, Need
from stoker.core.room_ahead import Room, ends_at, nearest, wants
from stoker.core.scouts import (
    first_in_line,
    has_room_to_scout,
    may_be_passed,
    may_go_ahead,
    scouts_for,
)
from stoker.core.state import State
from stoker.core.use import slow_down, use_allows

# How many classes that can't start are looked at in a turn, of each line: of CPU-only jobs, of GPU
# jobs, and of those that name the same GPUs. Without a bound, a queue in which every job differs
# would make a turn as long as the queue.
MOST_BLOCKED_CLASSES = 256

Apply = Callable[[ev.AttemptPlaced], None]
_Start = Callable[[Job, ev.AttemptPlaced], None]


@dataclass(frozen=True, slots=True)
class Hold:
    """Room on a GPU that is kept for a job, which can use it at `from_ms` (None: unknown)."""

    job_id: int
    from_ms: int | None
    wants: Reservation
    staying: tuple[Reservation, ...]  # what will still be there then
    sure_ms: int | None = None  # most likely not before this: see core.going_ahead


def _could_take_more(gpu: Gpu) -> bool:
    # An attempt that has a GPU whole is alone there, so the first holder tells.
    return gpu.usable and not (gpu.held_by and next(iter(gpu.held_by.values())).whole)


@dataclass(slots=True)
class Scan:
    """One pass over the ready jobs: `carry_out` to start them, or one question after the other."""

    state: State
    holds: dict[str, Hold] = field(default_factory=dict)
    contested: set[str] = field(default_factory=set)
    cpus_held: int = 0
    cpus_held_for: int | None = None
    cpus_from_ms: int | None = None
    roomy: list[Gpu] | None = None  # those that may have room for something

    def carry_out(self, apply: Apply) -> list[ev.AttemptPlaced]:
        """Start what can start, first things first; what was started."""
        placed: list[ev.AttemptPlaced] = []
        if self.state.paused:
            return placed

        def start(job: Job, placement: ev.AttemptPlaced) -> None:
            apply(placement)
            must_agree(job.active is not None, "job", job.id, "was to be placed, and is not")
            placed.append(placement)

        self._hand_over(start)
        self._scout_ahead(start)
        with ClassWalk(self.state.ready, MOST_BLOCKED_CLASSES, self._some_have_room) as lines:
            while not self._machine_is_short():
                gpu_room = self._gpu_has_room()
                cls = lines.next_class(gpu_room)
                if cls is None:
                    break
                job = self.state.ready.head(cls)
                assert job is not None
                if self.group_blocks(job) is not None:
                    self.state.ready.park(cls, job.group)
                    continue
                need = self.state.need_of(job)
                if scouts_for(self.state, job, need):
                    lines.wait_for_scout(cls)
                    continue
                placement = self.place(job)
                if placement is None:
                    if not self.could_start(need):
                        self.state.ready.park(cls, None)
                        continue
                    # Where no GPU has room for anything, there is nothing to hold back.
                    if gpu_room or need.cpus:
                        self.hold_back(job)
                    lines.set_aside(cls)
                    continue
                start(job, placement)
                if self.holds:
                    self._went_ahead(job, placement.gpus)
                lines.go_on_with(cls)
            self._send_more_scouts(lines, start)
        return placed

    def _scout_ahead(self, start: _Start) -> None:
        """The first of a kind goes before others that could start: what it teaches serves them all.

        On some GPUs at a time. A first in line that is small is passed once at most, another not at
        all: so no stream of new kinds keeps others waiting.
        """
        state = self.state
        most = 0 if self._machine_is_short() else may_go_ahead(state)
        if not most:
            return
        ahead = Scan(state)
        for place, job in enumerate(first_in_line(state)):
            need = state.need_of(job)
            if self.group_blocks(job) is not None or (place and not need.learns):
                continue
            if not need.learns:
                waits = not may_be_passed(state, job, need) or ahead.place(job) is None
                if waits and ahead.could_start(need):
                    ahead.hold_back(job)
                continue
            placement = None if scouts_for(state, job, need) else ahead.place(job)
            if placement is not None:
                start(job, placement)
                most -= 1
                if not most or self._machine_is_short():
                    return

    def _send_more_scouts(self, lines: ClassWalk, start: _Start) -> None:
        """GPUs that no other job wants are not left idle until a scout has been measured."""
        for cls in lines.waiting_for_scouts:
            while (job := self.state.ready.head(cls)) is not None:
                if self._machine_is_short():
                    return
                blocked = self.group_blocks(job) is not None
                placement = None if blocked else self.place(job, empty_only=True)
                if placement is None:
                    break
                start(job, placement)
                self._went_ahead(job, placement.gpus)

    def _machine_is_short(self) -> bool:
        """True while no process is to be made here; of those that are tried, after each."""
        low, short = self.state.low_disk, self.state.short
        if low is not None and low.stops:
            return True
        return short is not None and short.holds(self.state.now_ms)

    def _hand_over(self, start: _Start) -> None:
        """The jobs of a cluster: it decides where and when, so none of them waits for another."""
        ready = self.state.ready
        while self.state.at_cluster < self.state.at_cluster_most:
            cls = ready.pop_cluster_class()
            if cls is None:
                return
            try:
                job = ready.head(cls)
                assert job is not None
                if self.group_blocks(job) is not None:
                    ready.park(cls, job.group)
                else:
                    start(job, self._placed(job, ()))
            finally:
                if not cls.parked:
                    ready.put_back(cls)

    def place(self, job: Job, empty_only: bool = False) -> ev.AttemptPlaced | None:
        """Where the job may start now; None if it can't."""
        need = self.state.need_of(job)
        if need.cpus and not self._cpus_allow(job):
            return None
        if need.gpus == 0:
            return self._placed(job, ())
        if need.one_whole_gpu and not self.holds and not self.state.keeping:
            return self._on_one_whole_gpu(job, need)
        if need.learns:
            return self._scouting_spot(job, need, empty_only)
        # The cheap question first: in a long queue it is asked of every GPU in every turn.
        whole, holds = need.whole, self.holds or self.state.keeping
        open_gpus = [
            gpu
            for gpu in self.gpus_for(need)
            if not (whole and gpu.held_by)
            and eligible(need, gpu)
            and (not (gpu.held_by or gpu.others_mib or gpu.others) or has_room(need, gpu))
            and (not holds or self.hold_allows(job, gpu))
            and (whole or not gpu.held_by or use_allows(self.state, job.need, gpu))
            and not (empty_only and gpu.held_by)
        ]
        if len(open_gpus) < need.gpus:
            return None
        if len(open_gpus) > need.gpus:
            slower, tight = slow_down(self.state, job.need)
            open_gpus = best(need, open_gpus, slower, tight=tight)[: need.gpus]
        if need is job.need:
            return self._placed(job, open_gpus)
        if job.floor_mib == ALONE:
            return self._placed(job, open_gpus, Memory(ALONE))
        return self._placed(job, open_gpus, need.memory)

    def _placed(
        self, job: Job, gpus: Sequence[Gpu], memory: Memory | None = None
    ) -> ev.AttemptPlaced:
        ids = tuple([gpu.id for gpu in gpus])
        return ev.AttemptPlaced(self.state.now_ms, job.id, job.attempt + 1, ids, memory)

    def _on_one_whole_gpu(self, job: Job, need: Need) -> ev.AttemptPlaced | None:
        """What the rest of `place` comes to for the usual job, for which it is asked most often."""
        free = [
            gpu
            for gpu in self.state.gpus.values()
            if not gpu.held_by and gpu.usable and not gpu.others
        ]
        if need.on:
            free = [gpu for gpu in free if gpu.is_one_of(need.on)]
        if not free:
            return None
        # They are in the order of their numbers, and of equals this takes the first.
        if len(free) == 1:
            gpu = free[0]
        elif need.prefer:
            gpu = min(free, key=lambda one: (preference(need, one), one.memory_mib or 0))
        else:
            gpu = min(free, key=lambda one: one.memory_mib or 0)
        alone = job.floor_mib == ALONE
        return self._placed(job, (gpu,), Memory(ALONE) if alone else None)

    def _scouting_spot(self, job: Job, need: Need, empty_only: bool) -> ev.AttemptPlaced | None:
        """All of a GPU, or all that is left of one on which all memory is known."""
        allowed = [
            gpu for gpu in self.gpus_for(need) if eligible(need, gpu) and self.hold_allows(job, gpu)
        ]
        empty = [gpu for gpu in allowed if not gpu.held_by and not gpu.others]
        if len(empty) >= need.gpus:
            return self._placed(job, best(need, empty)[: need.gpus])
        if empty_only:
            return None
        roomy = [gpu for gpu in allowed if has_room_to_scout(self.state, need, gpu)]
        if len(roomy) < need.gpus:
            return None
        roomy.sort(key=lambda gpu: (preference(need, gpu), -gpu.room_mib))
        chosen = roomy[: need.gpus]
        return self._placed(job, chosen, Memory(min(gpu.room_mib for gpu in chosen)))

    # ------------------------------------------------------------------ holding back

    def could_start(self, need: Need) -> bool:
        """False if it can't start however long it waits: then nothing is kept for it."""
        if need.cpus > self.state.cpus:
            return False
        return sum(eligible(need, gpu) for gpu in self.gpus_for(need)) >= need.gpus

    def hold_back(self, job: Job) -> None:
        """Keep for a job that can't start what it will be able to start on first."""
        need = self.state.need_of(job)
        allowed = [gpu for gpu in self.gpus_for(need) if eligible(need, gpu)]
        from_ms: int | None = self.state.now_ms
        wants_cpus = need.cpus and self.cpus_held_for is None
        if wants_cpus:
            from_ms = self._cpus_free_at(need.cpus)
        if job.kept:
            allowed = []  # It has what it waits for: see core.giving_way.
            self.contested.update(job.kept)
        uncontested = [gpu for gpu in allowed if gpu.id not in self.contested]
        chosen: list[Room] = []
        if need.gpus and len(uncontested) >= need.gpus:
            chosen = nearest(self.state, need, uncontested)[: need.gpus]
            for room in chosen:
                from_ms = (
                    None if from_ms is None or room.at_ms is None else max(from_ms, room.at_ms)
                )
        in_the_way = [i for room in chosen if room.at_ms is None for i in room.gpu.held_by]
        sure_ms = surely_there_until_ms(self.state, job, in_the_way) if in_the_way else None
        for room in chosen:
            gpu = room.gpu
            self.holds[gpu.id] = Hold(job.id, from_ms, wants(need, gpu), room.staying, sure_ms)
        if need.gpus:  # One that needs none waits for no GPU, and contests none.
            self.contested.update(gpu.id for gpu in allowed)
        if wants_cpus:
            self.cpus_held, self.cpus_held_for, self.cpus_from_ms = need.cpus, job.id, from_ms

    def _went_ahead(self, job: Job, gpus: tuple[str, ...]) -> None:
        """What goes ahead beside a hold stays there, so the next has less room to do so."""
        for gpu_id in gpus:
            hold = self.holds.get(gpu_id)
            if hold is not None and not self._ends_in_time(job, hold):
                staying = (*hold.staying, self.state.gpus[gpu_id].held_by[job.id])
                self.holds[gpu_id] = replace(hold, staying=staying)

    def hold_allows(self, job: Job, gpu: Gpu) -> bool:
        """Whether the job may be on a GPU beside, or before, the one for which it is kept."""
        if self.state.keeping and not kept_allows(self.state, job, gpu):
            return False
        hold = self.holds.get(gpu.id)
        if hold is None or self._ends_in_time(job, hold):
            return True
        mine = reservation(self.state.need_of(job), gpu)
        return fits_beside(mine, (hold.wants, *hold.staying), gpu)

    def held_for(self, job: Job, gpu_id: str) -> int:
        """The job for which a GPU is held that this one may not have."""
        kept = kept_before(self.state, job, self.state.gpus[gpu_id])
        return kept[0][0] if kept else self.holds[gpu_id].job_id

    def _cpus_allow(self, job: Job) -> bool:
        wanted = job.need.cpus
        if not wanted:
            return True
        free = self.state.cpus - self.state.cpus_used
        if wanted > free:
            return False
        if self.cpus_held_for is None or self._ends_before(job, self.cpus_from_ms):
            return True
        # Slots that are free now and that the first one leaves over when its time comes.
        return wanted <= free - self.cpus_held

    def _ends_in_time(self, job: Job, hold: Hold) -> bool:
        if self._ends_before(job, hold.from_ms):
            return True
        takes_ms = None if hold.sure_ms is None else should_take_ms(self.state, job)
        return takes_ms is not None and self.state.now_ms + takes_ms <= (hold.sure_ms or 0)

    def _ends_before(self, job: Job, moment_ms: int | None) -> bool:
        longest = job.terms.longest_ms
        if moment_ms is None or longest is None:
            return False
        return self.state.now_ms + longest <= moment_ms

    def _cpus_free_at(self, wanted: int) -> int | None:
        free = self.state.cpus - self.state.cpus_used
        ends = sorted(
            (
                (ends_at(self.state, i), self.state.jobs[i].need.cpus)
                for i in self.state.active
                if not self.state.jobs[i].terms.executor
            ),
            key=lambda item: (item[0] is None, item[0] or 0),
        )
        when: int | None = self.state.now_ms
        for end, cpus in ends:
            if free >= wanted:
                break
            free += cpus
            when = end if cpus else when
        return when

    # ------------------------------------------------------------------ what is in the way

    def group_blocks(self, job: Job) -> why.Reason | None:
        """What its group has against a start."""
        if job.group is None:
            return None
        group = self.state.groups[job.group]
        if group.paused:
            return why.QueueIsPaused(job.group)
        if group.max_running is not None and group.running >= group.max_running:
            return why.GroupIsFull(job.group, group.max_running)
        return None

    def gpus_for(self, need: Need) -> list[Gpu]:
        """Those that the need may name."""
        if not need.on:
            return list(self.state.gpus.values())
        named = {name: self.state.gpu_named(name) for name in need.on}
        return list({gpu.id: gpu for gpu in named.values() if gpu is not None}.values())

    def _some_have_room(self, names: tuple[str, ...]) -> bool:
        """Whether one of the GPUs with these names could take something more."""
        named = (self.state.gpu_named(name) for name in names)
        return any(gpu is not None and _could_take_more(gpu) for gpu in named)

    def _gpu_has_room(self) -> bool:
        """True if any GPU could take something more. There is never more room later in a pass."""
        if self.roomy is None:
            self.roomy = list(self.state.gpus.values())
        while self.roomy:
            if _could_take_more(self.roomy[-1]):
                return True
            self.roomy.pop()
        return False
