"""Who gives way so that urgent jobs can start: of those that offered it, as few as needed.

Those with the least work to lose go first: the time since they last wrote a checkpoint or reported
a step, or since they started. None is stopped if room comes by itself just as soon. The GPUs are
then kept for the urgent job (`Job.kept`): those on which others have ended may be free before it
can start, and no job that comes after it is placed there.

Urgent jobs may come in an endless stream. So none gives way more often in an hour than it said,
and its wait counts: after an hour it goes before all others (`Job.goes_first`), and once it runs,
it is left alone for as long as it has waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile

from stoker.core import events as ev
from stoker.core.fit import fits_beside, reservation
from stoker.core.gpu import Gpu, Reservation
from stoker.core.making_room import MakingRoom, Room, nothing_starts, waiting_for_room
from stoker.core.model import RUNNING, Cause, Job, is_before_usual
from stoker.core.state import State
from stoker.core.timers import HOUR_MS, latest_end_ms

MOST_LOOKED_AT = 256  # jobs that wait, in a turn

Decision = ev.RoomKept | ev.StopRequested


def giving_way(state: State) -> list[Decision]:
    """The attempts that are to give way now, and what is kept, as events still to be applied.

    The jobs that wait are those that planning has just found no room for.
    """
    if not state.ready.urgent or nothing_starts(state):
        return []
    offered = offering(state)
    if not offered and not state.keeping:
        return []
    ending: dict[int, Job] = {}
    decided: list[Decision] = []
    for job, room in _rooms(state, offered):
        gpus = () if room is None else room.gpus
        if (room is not None and room.ending) or (job.kept and gpus != job.kept):
            decided.append(ev.RoomKept(state.now_ms, job.id, gpus))
        for one in () if room is None else room.ending:
            ending[one.id] = one
            stop = ev.StopRequested(state.now_ms, one.id, one.attempt, Cause.GAVE_WAY, str(job.id))
            decided.append(stop)
    return decided


def none_gives_way(state: State, job: Job) -> bool:
    """True if an urgent job waits for room that no job that offered to give way can make."""
    rooms = _rooms(state, offering(state))
    return not nothing_starts(state) and all(room is None for one, room in rooms if one is job)


def giving_way_for(state: State, job: Job) -> list[Job]:
    """The jobs that are to end before it can start: for it, or on the GPUs that are kept for it."""
    stopping = [state.jobs[job_id] for job_id in sorted(state.stopping)]
    return [one for one in stopping if _is_for(one, job) or _is_on(one, job.kept)]


def gives_way_for(job: Job) -> int | None:
    """The urgent job for which this one was told to give way; None: its user wanted it."""
    stop = None if job.active is None else job.active.stop
    return int(stop.detail) if stop is not None and stop.detail.isdecimal() else None


def _is_for(one: Job, job: Job) -> bool:
    stop = None if one.active is None else one.active.stop
    return stop is not None and stop.cause is Cause.GAVE_WAY and gives_way_for(one) == job.id


def _is_on(one: Job, gpus: Sequence[str]) -> bool:
    return one.active is not None and not set(gpus).isdisjoint(one.active.gpus)


def offering(state: State) -> list[Job]:
    """The jobs that may be told to give way now, those with the least work to lose first."""
    found = [job for job_id in state.offered if may_give_way(state, job := state.jobs[job_id])]
    return sorted(found, key=lambda job: (*work_lost_ms(state, job), -job.id))


def may_give_way(state: State, job: Job) -> bool:
    """Whether it has offered that, and has not done so enough for the time being."""
    from_ms = _offers_from_ms(job)
    return from_ms is not None and from_ms <= state.now_ms


def next_offer(state: State) -> tuple[int, int] | None:
    """When another job may be told to give way, although nothing happens till then; and which."""
    offers = [(_offers_from_ms(state.jobs[job_id]), job_id) for job_id in state.offered]
    ahead = [(ms, job_id) for ms, job_id in offers if ms is not None and ms > state.now_ms]
    return min(ahead, default=None)


def next_offer_ms(state: State) -> int | None:
    """When that is."""
    offer = next_offer(state)
    return None if offer is None else offer[0]


def _offers_from_ms(job: Job) -> int | None:
    """From when on it may be told to give way; None if it has not offered it, or is ending."""
    attempt, gave_way = job.active, job.gave_way
    if not job.terms.preemptible or job.state is not RUNNING or attempt is None:
        return None
    if gave_way is None:
        return 0
    times_ms, most, from_ms = gave_way.times_ms, job.terms.yields, 0
    if len(times_ms) >= most:
        from_ms = times_ms[-most] + HOUR_MS
    if gave_way.since_ms is not None:
        # What it has waited for, it has: as long as it had to wait.
        from_ms = max(from_ms, attempt.placed_at_ms + (attempt.placed_at_ms - gave_way.since_ms))
    return from_ms


def work_lost_ms(state: State, job: Job) -> tuple[int, int]:
    """How much an attempt has done since it last saved its work, and in all."""
    attempt = job.active
    assert attempt is not None
    began_ms = attempt.placed_at_ms if attempt.started_at_ms is None else attempt.started_at_ms
    saved_ms = max(began_ms, attempt.saved_at_ms or 0)
    return (max(0, state.now_ms - saved_ms), max(0, state.now_ms - began_ms))


def _rooms(state: State, offered: list[Job]) -> list[tuple[Job, Room | None]]:
    """The urgent jobs that wait, by rank, and what each will have if some of the offered end."""
    soon_ms = state.now_ms + min((_stops_within_ms(job) for job in offered), default=0)
    room = MakingRoom(state, _leaving(state, soon_ms))
    left = list(offered)
    found: list[tuple[Job, Room | None]] = []
    hopeless: set[int] = set()  # classes of which one could not be helped
    groups = {state.jobs[job_id].group for job_id in state.offered}
    waiting = takewhile(lambda one: is_before_usual(one[0]), waiting_for_room(state, groups))
    for _, job in islice(waiting, MOST_LOOKED_AT):
        assert job.in_class is not None
        if not job.terms.urgent:
            room.for_job(job, ())  # It has waited for long enough, and what comes free is its.
        elif job.in_class.number not in hopeless:
            made = None if _waits_for_scout(state, job) else room.for_job(job, left)
            if made is None:
                hopeless.add(job.in_class.number)
            else:
                left = [one for one in left if one not in made.ending]
            found.append((job, made))
        elif job.kept:
            found.append((job, None))
    return found


def _waits_for_scout(state: State, job: Job) -> bool:
    need = state.need_of(job)
    return need.learns and bool(state.scouts(need))


def _leaving(state: State, soon_ms: int) -> list[int]:
    """The jobs whose attempts end anyway as soon as any that would give way now."""
    leaving = []
    for job_id in state.active:
        job = state.jobs[job_id]
        assert job.active is not None
        end_ms, stop = latest_end_ms(job), job.active.stop
        gives_way = stop is not None and stop.cause is Cause.GAVE_WAY
        if not job.terms.executor and (gives_way or (end_ms is not None and end_ms <= soon_ms)):
            leaving.append(job_id)
    return leaving


def _stops_within_ms(job: Job) -> int:
    """How long it takes at most to give way."""
    warned_ms = 0 if job.terms.signal is None else job.terms.signal_before_ms
    return warned_ms + job.terms.grace_ms


# ---------------------------------------------------------------------- what is kept


def kept_before(state: State, job: Job, gpu: Gpu) -> list[tuple[int, Reservation]]:
    """What is kept of a GPU for jobs that come before this one, and for which."""
    keepers = [state.jobs[job_id] for job_id in state.keeping]
    return [
        (one.id, reservation(state.need_of(one), gpu))
        for one in keepers
        if gpu.id in one.kept and state.ready.has(one) and one.rank < job.rank
    ]


def kept_allows(state: State, job: Job, gpu: Gpu) -> bool:
    """Whether a job may be on a GPU beside those for which room is kept there."""
    kept = [wants for _, wants in kept_before(state, job, gpu)]
    if not kept:
        return True
    staying = [held for job_id, held in gpu.held_by.items() if job_id not in state.stopping]
    return fits_beside(reservation(state.need_of(job), gpu), (*kept, *staying), gpu)
