"""Who makes room because its slice is over: only if others wait that can start in its place.

An attempt that is past its slice goes on as long as none do. Whoever comes to wait brings about a
turn, and so this is asked again; nothing is polled.
"""

from __future__ import annotations

from stoker.core import events as ev
from stoker.core.endings import next_place
from stoker.core.making_room import MakingRoom, nothing_starts, waiting_for_room
from stoker.core.model import PLACE_BITS, PLACE_MASK, Cause, Job, Rank, precedence
from stoker.core.state import State
from stoker.core.timers import slice_over_ms


def slices_over(state: State) -> list[ev.StopRequested]:
    """The attempts past their slices that are to end now, as events that are still to be applied.

    The jobs that wait are those that planning has just found no room for.
    """
    if nothing_starts(state):
        return []
    offered = sorted(
        (state.jobs[job_id] for job_id in state.past_slice),
        key=lambda job: (slice_over_ms(job) or 0, job.id),
    )
    room = MakingRoom(state, state.stopping)
    ending: list[Job] = []
    hopeless: set[int] = set()  # classes of which one could not be helped
    for place, job in waiting_for_room(state, {job.group for job in offered}):
        if len(ending) == len(offered):
            break
        assert job.in_class is not None
        if job.in_class.number in hopeless:
            continue
        # One that would come before it when it is put back would only start again.
        left = [one for one in offered if one not in ending]
        willing = [one for one in left if place < _place_behind(state, one)]
        making_room = room.for_job(job, willing)
        if making_room is None:
            hopeless.add(job.in_class.number)
        else:
            ending += making_room.ending
    now_ms = state.now_ms
    return [ev.StopRequested(now_ms, one.id, one.attempt, Cause.SLICE) for one in ending]


def _place_behind(state: State, job: Job) -> Rank:
    """Where a job would stand in line if it were put back now."""
    rank = job.rank
    if not job.terms.keep_place:
        place = next_place(state)
        first = precedence(job.priority, job.terms)
        rank = (first, place >> PLACE_BITS, place & PLACE_MASK, job.id)
    return state.order.place(rank, job.need, job.terms, job.group)
