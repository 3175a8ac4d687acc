"""When GPUs will have room for a job that can't start yet, and where that is first."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.fit import fits_beside, natural, preference, reservation
from stoker.core.gpu import Gpu, Reservation
from stoker.core.model import Memory, Need
from stoker.core.state import State
from stoker.core.timers import latest_end_ms


@dataclass(frozen=True, slots=True)
class Room:
    """When a GPU will have room for a need (None: unknown), and what will still be there then."""

    gpu: Gpu
    at_ms: int | None
    in_the_way: int  # how many must go first, if it is unknown when they do
    expected_ms: int | None  # when these should be gone, by what is known of their kinds
    staying: tuple[Reservation, ...]


def _without(gpu: Gpu, gone: set[int]) -> list[Reservation]:
    return [held for job_id, held in gpu.held_by.items() if job_id not in gone]


def wants(need: Need, gpu: Gpu) -> Reservation:
    """What is kept of a GPU for a job that can't start yet."""
    if not need.learns:
        return reservation(need, gpu)
    return reservation(need, gpu, Memory((gpu.memory_mib or 0) // 2))


def nearest(state: State, need: Need, gpus: list[Gpu]) -> list[Room]:
    """Where there will be room first.

    The order must not depend on how full a GPU happens to be beyond that: a claim that went
    back and forth between GPUs would let those behind fill the one that it has just left. So
    it moves only to a GPU on which less is in the way, and that can't go on for ever.
    """
    rooms = [_room_on(state, need, gpu) for gpu in gpus]

    def rank(room: Room) -> tuple[int | tuple[int, int, str], ...]:
        gpu = room.gpu
        return (
            bool(gpu.others),
            room.at_ms is None,
            room.at_ms or 0,
            room.expected_ms is None,
            room.expected_ms or 0,
            room.in_the_way,
            preference(need, gpu),
            gpu.memory_mib or 0,
            natural(gpu.shown_as),
        )

    return sorted(rooms, key=rank)


def _room_on(state: State, need: Need, gpu: Gpu) -> Room:
    wanted = wants(need, gpu)
    leaving = sorted(
        (end, job_id) for job_id in gpu.held_by if (end := ends_at(state, job_id)) is not None
    )
    when, gone = state.now_ms, set[int]()
    while not fits_beside(wanted, _without(gpu, gone), gpu):
        if not leaving:
            break
        end, job_id = leaving.pop(0)
        when = max(when, end)
        gone.add(job_id)
    else:
        return Room(gpu, when, 0, None, tuple(_without(gpu, gone)))
    # It is not known when for sure. Those go first that should, as others of their kind took no
    # longer; of the rest the largest are thought to, so that few are in the way. What goes
    # ahead beside those that stay never makes them more.
    expected = {job_id: _should_end_at(state, job_id) for job_id in gpu.held_by}

    def late_first(job_id: int) -> tuple[bool, int, bool, int, int]:
        end_ms, held = expected[job_id], gpu.held_by[job_id]
        size = (held.whole, held.memory.mib, held.share_milli)
        return (end_ms is not None, -(end_ms or 0), *size)

    staying = sorted(gpu.held_by, key=late_first)
    ends: list[int | None] = []
    while not fits_beside(wanted, [gpu.held_by[job_id] for job_id in staying], gpu):
        ends.append(expected[staying.pop()])
    known = [end for end in ends if end is not None]
    expected_ms = max(known) if len(known) == len(ends) else None
    held = tuple(gpu.held_by[job_id] for job_id in staying)
    return Room(gpu, None, len(ends), expected_ms, held)


def ends_at(state: State, job_id: int) -> int | None:
    """When an active attempt is over at the latest."""
    end = latest_end_ms(state.jobs[job_id])
    return None if end is None else max(end, state.now_ms + 1)


def _should_end_at(state: State, job_id: int) -> int | None:
    """When an active attempt ends if it takes no longer than any of its kind did."""
    job = state.jobs[job_id]
    attempt, profile = job.active, state.profiles.get(job.need.kind or "")
    if attempt is None or attempt.started_at_ms is None or profile is None:
        return None
    if attempt.suspended_at_ms is not None:
        return None
    end = attempt.started_at_ms + attempt.suspended_ms + profile.longest_ms
    return end if end > state.now_ms else None
