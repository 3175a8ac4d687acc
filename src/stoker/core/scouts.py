"""Who is measured first: the scouts, from which is seen what jobs of their kind take.

The first job of a kind of which nothing is known gets all the room of a GPU, best an empty one,
until its memory is known. Others of its kind wait for that. What users declare is not known
either: where memory is measured, it is believed once one of the kind has shown it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import merge
from itertools import islice

from stoker.core.fit import has_room
from stoker.core.gpu import Gpu
from stoker.core.model import Job, Need, Rank
from stoker.core.state import State

# Scouts go ahead of others on one GPU in so many, and of so many classes at the front of the lines.
_GPUS_PER_SCOUT = 4
_MOST_LOOKED_AHEAD = 64
# What is declared of a kind is believed after so long, even if none of it has shown what it takes.
_BELIEVED_AFTER_MS = 300_000


def is_scout(state: State, job_id: int) -> bool:
    """Whether nothing is known of a running job, that has all the room of a GPU therefore."""
    need = state.jobs[job_id].need
    return need.learns and need.kind not in state.profiles


def scouts_for(state: State, need: Need) -> list[int]:
    """The running jobs from which is to be seen what the need's kind takes.

    One that shows nothing for long, as it never computes, is waited for only where nothing is
    declared.
    """
    if need.kind is None or need.whole or need.kind in state.profiles:
        return []
    scouts = state.scouts(need)
    if need.learns or not scouts:
        return scouts
    if not any(gpu.vendor for gpu in state.gpus.values()):
        return []
    attempts = [(job_id, state.jobs[job_id].active) for job_id in scouts]
    since_ms = state.now_ms - _BELIEVED_AFTER_MS
    return [i for i, one in attempts if one is not None and one.placed_at_ms > since_ms]


def may_go_ahead(state: State) -> int:
    """How many scouts may go ahead of others now."""
    if not state.ready.learning:
        return 0
    half_free = (gpu.room_mib >= (gpu.memory_mib or 0) // 2 for gpu in state.gpus.values())
    if not any(half_free):
        return 0
    running = sum(is_scout(state, job_id) for job_id in state.active)
    return max(0, max(1, len(state.gpus) // _GPUS_PER_SCOUT) - running)


def first_in_line(state: State) -> Iterator[Job]:
    """The heads of the classes among which scouts are looked for, in the order of the queue."""
    lines = [state.ready.in_line(line) for line in state.ready.gpu_lines()]
    heads = islice(merge(*lines, key=state.ready.key_of), _MOST_LOOKED_AHEAD)
    return iter(list(heads))  # What starts meanwhile leaves its line.


def may_be_passed(state: State, first: Job, need: Need) -> bool:
    """Whether a scout may have the room of the first in line, which could start.

    Only of one for which there is soon room again, and which was not passed by another just now.
    """
    smallest = min((gpu.memory_mib or 0 for gpu in state.gpus.values()), default=0)
    if need.whole or need.gpus > 1 or need.mem_mib is None or need.mem_mib > smallest // 2:
        return False
    last = next(reversed(state.active), None)  # that was started
    return last is None or _place(state, state.jobs[last]) < _place(state, first)


def _place(state: State, job: Job) -> Rank:
    return state.order.place(job.rank, job.need, job.terms, job.group)


def has_room_to_scout(state: State, need: Need, gpu: Gpu) -> bool:
    """Whether a job of which nothing is known may find out here what it needs."""
    if gpu.memory_mib is None or gpu.room_mib < gpu.memory_mib // 2:
        return False
    if any(is_scout(state, job_id) for job_id in gpu.held_by):
        return False
    return has_room(replace(need, mem_mib=gpu.memory_mib // 2), gpu)
