"""The decision: which jobs start on which GPUs now, and why any other one waits.

`Scan` walks the classes of ready jobs in order. The first job that can't start gets GPUs held
back for it: those that will be free for it soonest. A job behind it may go ahead only where it
does not delay that one: on other GPUs, in room that both fit into, or, by its own time limit, in
time that the first can't use. A later job that can't start holds GPUs back too if it could be
served wholly by GPUs for which no earlier one is waiting.
CPU slots are held back in the same way, for the first that wants them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from stoker.core import reasons as why
from stoker.core.fit import (
    best,
    could_ever_fit,
    eligible,
    fits_beside,
    has_room,
    natural,
    reservation,
)
from stoker.core.model import WHOLE_SHARE_MILLI, Gpu, Job, JobState, Need, Reservation
from stoker.core.order import JobClass
from stoker.core.state import State

# How many classes that can't start are looked at in a turn, GPU jobs and CPU-only jobs apart.
# Without a bound, a queue in which every job differs would make a turn as long as the queue.
MOST_BLOCKED_CLASSES = 256


@dataclass(frozen=True, slots=True)
class Placement:
    """A job that is to start, and where."""

    job_id: int
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Room on a GPU that is kept for a job, which can use it at `from_ms` (None: unknown)."""

    job_id: int
    from_ms: int | None
    wants: Reservation
    staying: tuple[Reservation, ...]  # what will still be there then


@dataclass(frozen=True, slots=True)
class _Room:
    """When a GPU will have room for a need (None: unknown), and what will still be there then."""

    gpu: Gpu
    at_ms: int | None
    in_the_way: int  # how many must go first, if it is unknown when they do
    staying: tuple[Reservation, ...]


def _without(gpu: Gpu, gone: set[int]) -> list[Reservation]:
    return [held for job_id, held in gpu.held_by.items() if job_id not in gone]


def _size(held: Reservation) -> tuple[bool, int, int]:
    return (held.whole, held.mem_mib, held.share_milli)


@dataclass(slots=True)
class Scan:
    """One pass over the ready jobs. Start what it yields before asking for the next."""

    state: State
    holds: dict[str, Hold] = field(default_factory=dict)
    contested: set[str] = field(default_factory=set)
    cpus_held: int = 0
    cpus_held_for: int | None = None
    cpus_from_ms: int | None = None

    def starts(self) -> Iterator[Placement]:
        """The jobs to start, in order."""
        if self.state.paused:
            return
        with self._lines() as lines:
            while True:
                room_left = self._room_left()
                cls = lines.next_class(room_left)
                if cls is None:
                    return
                job = self.state.ready.head(cls)
                assert job is not None
                if self._group_blocks(job) is not None:
                    self.state.ready.park(cls, job.group)
                    continue
                gpus = self.place(job)
                if gpus is None:
                    if not self._could_start(job.need):
                        self.state.ready.park(cls, None)
                        continue
                    # Where no GPU has room for anything, there is nothing to hold back.
                    if room_left[0] or job.need.cpus:
                        self._hold_back(job)
                    lines.set_aside(cls)
                    continue
                yield Placement(job.id, tuple(gpu.id for gpu in gpus))
                assert job.active is not None, f"job {job.id} was yielded and not placed"
                self._went_ahead(job, gpus)
                self.state.ready.put_back(cls)

    def place(self, job: Job) -> list[Gpu] | None:
        """The GPUs that the job may have now; None if it can't start."""
        need = job.need
        if not self._cpus_allow(job):
            return None
        if need.gpus == 0:
            return []
        # The cheap question first: in a long queue it is asked of every GPU in every turn.
        whole, holds = need.whole, self.holds
        open_gpus = [
            gpu
            for gpu in self._gpus(need)
            if not (whole and gpu.held_by)
            and eligible(need, gpu)
            and (not gpu.held_by or has_room(need, gpu))
            and (not holds or self._hold_allows(job, gpu))
        ]
        if len(open_gpus) <= need.gpus:
            return open_gpus if len(open_gpus) == need.gpus else None
        return best(need, open_gpus)[: need.gpus]

    # ------------------------------------------------------------------ holding back

    def _could_start(self, need: Need) -> bool:
        """False if it can't start however long it waits: then nothing is kept for it."""
        if need.cpus > self.state.cpus:
            return False
        return sum(eligible(need, gpu) for gpu in self._gpus(need)) >= need.gpus

    def _hold_back(self, job: Job) -> None:
        need = job.need
        allowed = [gpu for gpu in self._gpus(need) if eligible(need, gpu)]
        from_ms: int | None = self.state.now_ms
        wants_cpus = need.cpus and self.cpus_held_for is None
        if wants_cpus:
            from_ms = self._cpus_free_at(need.cpus)
        uncontested = [gpu for gpu in allowed if gpu.id not in self.contested]
        chosen: list[_Room] = []
        if need.gpus and len(uncontested) >= need.gpus:
            chosen = self._nearest(need, uncontested)[: need.gpus]
            for room in chosen:
                from_ms = (
                    None if from_ms is None or room.at_ms is None else max(from_ms, room.at_ms)
                )
        for room in chosen:
            gpu = room.gpu
            self.holds[gpu.id] = Hold(job.id, from_ms, reservation(need, gpu), room.staying)
        if need.gpus:  # One that needs none waits for no GPU, and contests none.
            self.contested.update(gpu.id for gpu in allowed)
        if wants_cpus:
            self.cpus_held, self.cpus_held_for, self.cpus_from_ms = need.cpus, job.id, from_ms

    def _went_ahead(self, job: Job, gpus: list[Gpu]) -> None:
        """What goes ahead beside a hold stays there, so the next has less room to do so."""
        for gpu in gpus:
            hold = self.holds.get(gpu.id)
            if hold is not None and not self._ends_before(job, hold.from_ms):
                staying = (*hold.staying, reservation(job.need, gpu))
                self.holds[gpu.id] = replace(hold, staying=staying)

    def _hold_allows(self, job: Job, gpu: Gpu) -> bool:
        hold = self.holds.get(gpu.id)
        if hold is None or self._ends_before(job, hold.from_ms):
            return True
        mine = reservation(job.need, gpu)
        return fits_beside(mine, (hold.wants, *hold.staying), gpu)

    def _cpus_allow(self, job: Job) -> bool:
        wanted = job.need.cpus
        free = self.state.cpus - self.state.cpus_used
        if not wanted:
            return True
        if wanted > free:
            return False
        if self.cpus_held_for is None or self._ends_before(job, self.cpus_from_ms):
            return True
        # Slots that are free now and that the first one leaves over when its time comes.
        return wanted <= free - self.cpus_held

    def _ends_before(self, job: Job, moment_ms: int | None) -> bool:
        longest = job.terms.longest_ms
        if moment_ms is None or longest is None:
            return False
        return self.state.now_ms + longest <= moment_ms

    def _nearest(self, need: Need, gpus: list[Gpu]) -> list[_Room]:
        """Where there will be room first.

        The order must not depend on how full a GPU happens to be beyond that: a claim that went
        back and forth between GPUs would let those behind fill the one that it has just left. So
        it moves only to a GPU on which less is in the way, and that can't go on for ever.
        """
        rooms = [self._room_on(need, gpu) for gpu in gpus]
        preferred = {gpu_id: place for place, gpu_id in enumerate(need.prefer)}

        def rank(room: _Room) -> tuple[bool, int, int, int, int, tuple[int, int, str]]:
            gpu = room.gpu
            return (
                room.at_ms is None,
                room.at_ms or 0,
                room.in_the_way,
                preferred.get(gpu.id, len(preferred)),
                gpu.memory_mib or 0,
                natural(gpu.id),
            )

        return sorted(rooms, key=rank)

    def _room_on(self, need: Need, gpu: Gpu) -> _Room:
        wants = reservation(need, gpu)
        leaving = sorted(
            (end, job_id) for job_id in gpu.held_by if (end := self._ends_at(job_id)) is not None
        )
        when, gone = self.state.now_ms, set[int]()
        while not fits_beside(wants, _without(gpu, gone), gpu):
            if not leaving:
                break
            end, job_id = leaving.pop(0)
            when = max(when, end)
            gone.add(job_id)
        else:
            return _Room(gpu, when, 0, tuple(_without(gpu, gone)))
        # Nobody knows when. The largest are thought to go first: so as few as can be are in the
        # way, and what goes ahead beside them never makes them more.
        held = sorted(gpu.held_by.values(), key=_size)
        in_the_way = 0
        while not fits_beside(wants, held, gpu):
            held.pop()
            in_the_way += 1
        return _Room(gpu, None, in_the_way, tuple(held))

    def _cpus_free_at(self, wanted: int) -> int | None:
        free = self.state.cpus - self.state.cpus_used
        ends = sorted(
            ((self._ends_at(i), self.state.jobs[i].need.cpus) for i in self.state.active),
            key=lambda item: (item[0] is None, item[0] or 0),
        )
        when: int | None = self.state.now_ms
        for end, cpus in ends:
            if free >= wanted:
                break
            free += cpus
            when = end if cpus else when
        return when

    def _ends_at(self, job_id: int) -> int | None:
        """When an active attempt is over at the latest."""
        end = self.state.latest_end_ms(self.state.jobs[job_id])
        return None if end is None else max(end, self.state.now_ms + 1)

    # ------------------------------------------------------------------ what is in the way

    def _group_blocks(self, job: Job) -> why.Reason | None:
        if job.group is None:
            return None
        group = self.state.groups[job.group]
        if group.paused:
            return why.QueueIsPaused(job.group)
        if group.max_running is not None and group.running >= group.max_running:
            return why.GroupIsFull(job.group, group.max_running)
        return None

    def _gpus(self, need: Need) -> list[Gpu]:
        gpus = self.state.gpus
        return [gpus[i] for i in need.on if i in gpus] if need.on else list(gpus.values())

    def _room_left(self) -> tuple[bool, bool]:
        """Whether any GPU, and any CPU slot, could take something more."""
        gpu = False
        for one in self.state.gpus.values():
            # Whoever has a GPU whole is alone there, so the first holder tells.
            holder = next(iter(one.held_by.values()), None)
            if one.usable and (holder is None or not holder.whole):
                gpu = True
                break
        return gpu, self.state.cpus_used < self.state.cpus

    @contextmanager
    def _lines(self) -> Iterator[_Lines]:
        lines = _Lines(self.state)
        try:
            yield lines
        finally:
            lines.close()


class _Lines:
    """The two lines of classes, GPU jobs and CPU-only jobs, merged by the order of their heads."""

    def __init__(self, state: State) -> None:
        self._ready = state.ready
        self._aside: list[JobClass] = []
        self._blocked = {True: 0, False: 0}
        self._next: dict[bool, JobClass | None] = {True: None, False: None}

    def next_class(self, room_left: tuple[bool, bool]) -> JobClass | None:
        """The class whose head is first, leaving out lines in which nothing more can start."""
        gpu_room, cpu_room = room_left
        # With no room at all the first one in line must still be seen, for what it needs to be
        # held back; CPU-only jobs that ask for no slots start in any case.
        for is_gpu, room in ((True, gpu_room), (False, cpu_room)):
            looked_at = self._blocked[is_gpu]
            done = looked_at >= MOST_BLOCKED_CLASSES or (is_gpu and not room and looked_at)
            if self._next[is_gpu] is None and not done:
                self._next[is_gpu] = self._ready.pop_class(is_gpu)
        first: tuple[tuple[int, int], bool] | None = None
        for is_gpu, cls in self._next.items():
            head = self._ready.head(cls) if cls is not None else None
            if head is not None and (first is None or head.order < first[0]):
                first = (head.order, is_gpu)
        if first is None:
            return None
        cls, self._next[first[1]] = self._next[first[1]], None
        return cls

    def set_aside(self, cls: JobClass) -> None:
        """Nothing of this class starts in this pass."""
        self._aside.append(cls)
        self._blocked[bool(cls.need.gpus)] += 1

    def close(self) -> None:
        """Let every class stand in its line again."""
        for cls in (*self._aside, *self._next.values()):
            if cls is not None:
                self._ready.put_back(cls)


def reason_for(state: State, job: Job) -> why.Reason:
    """Why a queued job does not run, worked out for this job alone."""
    if job.state is JobState.HELD:
        return why.IsHeld()
    if job.requires:
        must = any(r.must_succeed for r in job.requires)
        return why.WaitsForJobs(tuple(r.job_id for r in job.requires), must)
    if job.backoff_until_ms is not None and job.backoff_until_ms > state.now_ms:
        return why.WaitsForTime(job.backoff_until_ms, after_failure=True)
    if job.not_before_ms is not None and job.not_before_ms > state.now_ms:
        return why.WaitsForTime(job.not_before_ms, after_failure=False)
    impossible = can_never_start(state, job.need)
    if impossible is not None:
        return impossible
    if state.paused:
        return why.QueueIsPaused(None)
    scan = Scan(state)
    blocked = scan._group_blocks(job)
    if blocked is not None:
        return blocked
    return _room_reason(scan, job)


def can_never_start(state: State, need: Need) -> why.CanNeverStart | why.NeedsCpus | None:
    """Set if the need can't be met by the GPUs and CPUs as they are, were they all free."""
    if need.cpus > state.cpus:
        return why.NeedsCpus(need.cpus, state.cpus, state.cpus)
    could = [gpu for gpu in state.gpus.values() if could_ever_fit(need, gpu)]
    usable = sum(gpu.usable for gpu in could)
    if usable >= need.gpus:
        return None
    return why.CanNeverStart(need.gpus, len(could), len(could) - usable)


def _room_reason(scan: Scan, job: Job) -> why.Reason:
    state, need = scan.state, job.need
    free_cpus = state.cpus - state.cpus_used
    if need.cpus > free_cpus:
        return why.NeedsCpus(need.cpus, free_cpus, state.cpus)
    allowed = [gpu for gpu in scan._gpus(need) if eligible(need, gpu)]
    roomy = [gpu for gpu in allowed if has_room(need, gpu)]
    if len(roomy) < need.gpus:
        return _gpu_shortage(need, allowed, len(roomy))
    # There is room, so somebody before it has a hold on it: see who, in the order of the queue.
    with scan._lines() as lines:
        while (cls := lines.next_class((True, True))) is not None:
            head = state.ready.head(cls)
            if head is None or head.order >= job.order:
                lines.set_aside(cls)
                break
            if (
                scan._group_blocks(head) is None
                and scan.place(head) is None
                and scan._could_start(head.need)
            ):
                scan._hold_back(head)
            lines.set_aside(cls)
    if scan.place(job) is not None:
        return why.IsNext()
    held = [gpu.id for gpu in roomy if not scan._hold_allows(job, gpu)]
    if len(roomy) - len(held) < need.gpus:
        return why.HeldBack(scan.holds[held[0]].job_id, tuple(held))
    assert scan.cpus_held_for is not None
    return why.HeldBack(scan.cpus_held_for, ())


def _gpu_shortage(need: Need, allowed: list[Gpu], free: int) -> why.Reason:
    shareable = [g for g in allowed if not any(r.whole for r in g.held_by.values())]
    if need.whole or need.gpus > 1 or not shareable:
        return why.NeedsGpus(need.gpus, free, len(allowed))
    if need.mem_mib is not None:
        room = {g.id: (g.memory_mib or 0) - g.reserved_mib for g in shareable}
        most = max(room, key=lambda gpu_id: room[gpu_id])
        if room[most] < need.mem_mib:
            return why.NeedsMemory(need.mem_mib, room[most], most)
    if need.share_milli is not None:
        shares = {g.id: WHOLE_SHARE_MILLI - g.share_used_milli for g in shareable}
        most = max(shares, key=lambda gpu_id: shares[gpu_id])
        if shares[most] < need.share_milli:
            return why.NeedsShare(need.share_milli, shares[most], most)
    return why.NeedsGpus(need.gpus, free, len(allowed))
