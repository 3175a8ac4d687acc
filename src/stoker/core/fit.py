"""Which GPUs: whether a need fits a GPU, and which of those that fit are best.

What is reserved counts, whether it is used yet or not: two jobs are never given the same free
memory while the first of them is still growing into it. What others use counts as it is measured.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb

from stoker.core.gpu import Gpu, Reservation, together_mib
from stoker.core.model import ALONE, WHOLE_SHARE_MILLI, Attempt, Memory, Need

_MOST_SETS = 5_000


def natural(gpu_id: str) -> tuple[int, int, str]:
    """Sorts "2" before "10", and numbers before names."""
    return (0, int(gpu_id), "") if gpu_id.isdecimal() else (1, 0, gpu_id)


def with_in_order(gpus: dict[str, Gpu], new: Gpu) -> dict[str, Gpu]:
    """The GPUs, in the order of what they are called, with one more or one that is called anew.

    The others are in order. Thousands may be added at a time, most often in order too.
    """
    gpus.pop(new.id, None)
    last = next(reversed(gpus.values()), None)
    if last is None or natural(last.shown_as) <= natural(new.shown_as):
        gpus[new.id] = new
        return gpus
    ordered = list(gpus.values())
    insort(ordered, new, key=lambda one: natural(one.shown_as))
    return {one.id: one for one in ordered}


def could_ever_fit(need: Need, gpu: Gpu) -> bool:
    """True if the need fits this GPU when it is empty, drained or not."""
    if gpu.removing or (need.on and not gpu.is_one_of(need.on)):
        return False
    return need.mem_mib is None or (gpu.memory_mib is not None and need.mem_mib <= gpu.memory_mib)


def eligible(need: Need, gpu: Gpu) -> bool:
    """True if the need may be placed here once there is room."""
    return gpu.usable and could_ever_fit(need, gpu)


def reservation(need: Need, gpu: Gpu, memory: Memory | None = None) -> Reservation:
    """What the need takes of this GPU: a share takes its part of the memory too.

    `memory` is what an attempt was given, if it is not what the need says.
    """
    if memory is None:
        memory = need.memory
    alone = memory is not None and memory.mib == ALONE
    if need.whole or alone or (need.learns and memory is None):
        all_of_it = Memory(gpu.memory_mib or 0)
        return Reservation(True, WHOLE_SHARE_MILLI, all_of_it, need.max_per_gpu)
    share = need.share_milli or 0
    if memory is None:
        memory = Memory((gpu.memory_mib or 0) * share // WHOLE_SHARE_MILLI)
    return Reservation(False, share, memory, need.max_per_gpu, need.kind)


def held_reservation(need: Need, attempt: Attempt, gpu: Gpu) -> Reservation:
    """What an attempt has of one of its GPUs."""
    held = reservation(need, gpu, attempt.memory)
    mib, margin, growth = held.memory
    if not margin:
        return held
    # What it uses is no margin any more.
    margin = max(0, min(margin, mib - (attempt.peak_mib or 0)))
    return replace(held, memory=Memory(mib, margin, growth))


def fits_beside(new: Reservation, others: Iterable[Reservation], gpu: Gpu) -> bool:
    """True if the reservations can all be on the GPU together."""
    held = list(others)
    if not held:
        return True
    if new.whole or any(r.whole for r in held):
        return False
    limits = [r.max_per_gpu for r in (new, *held) if r.max_per_gpu is not None]
    if limits and len(held) + 1 > min(limits):
        return False
    if new.share_milli + sum(r.share_milli for r in held) > WHOLE_SHARE_MILLI:
        return False
    return gpu.memory_mib is None or together_mib((new, *held)) <= gpu.memory_mib


def has_room(need: Need, gpu: Gpu) -> bool:
    """True if the need fits beside what is on the GPU now, ours and others'."""
    new = reservation(need, gpu)
    if gpu.reading is not None and not others_allow(new, gpu):
        return False
    return not gpu.held_by or fits_beside(new, gpu.held_by.values(), gpu)


def room_for_mib(need: Need, gpu: Gpu) -> int:
    """How much memory there is for such a need, beside what must be kept free for margins."""
    new = reservation(need, gpu)
    kept = together_mib((new, *gpu.held_by.values())) - new.memory.mib
    return (gpu.memory_mib or 0) - gpu.others_mib - kept


def others_allow(new: Reservation, gpu: Gpu) -> bool:
    """True if those on the GPU who are not ours leave enough of it."""
    reading = gpu.reading
    if reading is None or not (reading.others or reading.others_mib):
        return True
    if new.whole:
        return not reading.others
    taken = together_mib((new, *gpu.held_by.values()))
    return not reading.closed and taken + gpu.others_mib <= (gpu.memory_mib or 0)


def best(
    need: Need,
    candidates: Sequence[Gpu],
    slow_down: Callable[[Gpu], int] | None = None,
    *,
    tight: bool = True,
) -> list[Gpu]:
    """The candidates, best first: what the user prefers, then speed, then memory, then the index.

    Whole GPUs go to the smallest device that will do. Shared ones go where those that are there
    slow the job down least. Of these they go to the fullest, so that what is left over stays as
    large as it can; if not `tight`, to the smallest that is idle, else to the emptiest, as what is
    said of the job may be too little.
    Several come in a set with short links between them.
    """

    def rank(gpu: Gpu) -> tuple[int, int, int, int, int, tuple[int, int, str]]:
        memory = gpu.memory_mib or 0
        if need.whole:
            fit = (0, 0, memory, 0)
        else:
            slower = 0 if slow_down is None else slow_down(gpu)
            room = memory - gpu.others_mib - gpu.reserved_mib
            loose = not tight and bool(gpu.held_by)
            fit = (slower, int(loose), -room if loose else room, -gpu.share_used_milli)
        return (preference(need, gpu), *fit, natural(gpu.shown_as))

    ranked = sorted(candidates, key=rank)
    if need.gpus > 1 and any(g.reading is not None and g.reading.distances for g in ranked):
        return _nearest_together(need, ranked)
    return ranked


def preference(need: Need, gpu: Gpu) -> int:
    """Where the GPU stands among those that the user prefers; after all of them, if not there."""
    for place, name in enumerate(need.prefer):
        if name == gpu.id or name == gpu.label:
            return place
    return len(need.prefer)


def _nearest_together(need: Need, ranked: list[Gpu]) -> list[Gpu]:
    """The same GPUs, with the set of the shortest links first; ties go to the better ranked."""
    size = need.gpus
    while comb(len(ranked), size) > _MOST_SETS:
        ranked = ranked[:-1]
    liked = [preference(need, gpu) for gpu in ranked]

    def cost(places: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        links = sum(_distance(ranked[a], ranked[b]) for a, b in combinations(places, 2))
        return (sum(liked[place] for place in places), links, places)

    chosen = min(combinations(range(len(ranked)), size), key=cost)
    return [ranked[place] for place in chosen]


_FAR = 100  # further than any distance that a driver tells


def _distance(one: Gpu, other: Gpu) -> int:
    reading = one.reading
    return _FAR if reading is None else reading.distances.get(other.id, _FAR)
