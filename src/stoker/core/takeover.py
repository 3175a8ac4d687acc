"""Who takes over: jobs that start the moment an attempt like theirs ends well.

A GPU does not wait for the turn, and the commit, in which that end is taken in: who is next there
was decided, and committed, before. So only where nothing about the end could change the decision:
those next in line need just what the attempt has, and no job waits for its end.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from stoker.core.class_walk import ClassWalk
from stoker.core.frozen import quick_to_make
from stoker.core.model import Job, Rank, Takeovers
from stoker.core.plan import Scan
from stoker.core.ready import JobClass
from stoker.core.state import MOST_ENDS_IN_A_TURN, State

NO_TAKEOVERS = Takeovers()
_MOST_LOOKED_AT = 1_000


class Standby(NamedTuple):
    """An attempt that is to take the place of another."""

    job_id: int
    attempt: int
    grace_ms: int
    may_be_followed: bool = True  # in its turn, by one that stands by


@quick_to_make
class AllowTakeovers:
    """When one of these attempts ends well, start the first of the standbys in its place at once.

    It holds until the next is given, or none.
    """

    attempts: tuple[tuple[int, int], ...]
    standbys: tuple[Standby, ...]


def allowed(state: State) -> AllowTakeovers | None:
    """What the state has planned, as a command."""
    if not state.takeovers.attempts:
        return None
    attempts = [state.jobs[job_id] for job_id in state.takeovers.attempts]
    standbys = [
        Standby(job.id, job.attempt + 1, job.terms.grace_ms, not state.is_required(job.id))
        for job in map(state.jobs.__getitem__, state.takeovers.standbys)
    ]
    return AllowTakeovers(tuple([(job.id, job.attempt) for job in attempts]), tuple(standbys))


def planned(state: State) -> Takeovers:
    """Which attempts may be followed, and who is next, as the state is now."""
    if state.paused or not state.active or (state.low_disk and state.low_disk.stops):
        return NO_TAKEOVERS
    if state.order.changes_by_itself and len(state.ready.apart()) > 1:
        return NO_TAKEOVERS
    scan = Scan(state)
    with ClassWalk(state.ready, 2) as lines:
        first = _next_class(scan, lines)
        if first is None:
            return NO_TAKEOVERS
        need = first.need
        if not need.one_whole_gpu or need.cpus or first.floor_mib is not None:
            return NO_TAKEOVERS
        attempts = [job_id for job_id in state.active if _can_be_followed(state, job_id, first)]
        if not attempts:
            return NO_TAKEOVERS
        second = _next_class(scan, lines)
        # The first entry of a class that was in line is its head's.
        rival = None if second is None else state.ready.key(second, second.heap[0])
        standbys = _first_of(state, first, len(attempts) * (MOST_ENDS_IN_A_TURN - 1), rival)
        return Takeovers(tuple(attempts), standbys) if standbys else NO_TAKEOVERS


def _next_class(scan: Scan, lines: ClassWalk) -> JobClass | None:
    """The class whose head is first among GPU jobs, but for those that no end lets start."""
    ready = scan.state.ready
    while (cls := lines.next_gpu_class()) is not None:
        job = ready.head(cls)
        assert job is not None
        if scan.group_blocks(job) is not None:
            ready.park(cls, job.group)
        elif not scan.could_start(scan.state.need_of(job)):
            ready.park(cls, None)
        else:
            lines.set_aside(cls)
            return cls
    return None


def _can_be_followed(state: State, job_id: int, cls: JobClass) -> bool:
    job = state.jobs[job_id]
    attempt = job.active
    assert attempt is not None
    if job.need != cls.need or job.group != cls.group or not _is_plain(job):
        return False
    if attempt.stop is not None or attempt.memory is not None or state.is_required(job_id):
        return False
    if attempt.suspended_at_ms is not None:
        return False  # It does not end.
    gpu = state.gpus[attempt.gpus[0]]
    return gpu.usable and not gpu.others


def _is_plain(job: Job) -> bool:
    """True if the daemon makes its process, and nothing else with it."""
    terms = job.terms
    if terms.attached or terms.executor or terms.mps or terms.adopted:
        return False
    return not (terms.requeue_on or terms.requeue or job.resumes)  # These have a directory, too.


def _first_of(state: State, cls: JobClass, count: int, rival: Rank | None) -> tuple[int, ...]:
    """The first jobs of a class, as far as none of another class comes before them.

    Where very many have left that were not the first, it gives up: then there is a turn.
    """
    found: list[int] = []
    for rank, job in islice(state.ready.jobs_of(cls), _MOST_LOOKED_AT):
        if len(found) == count or (rival is not None and state.ready.key(cls, rank) > rival):
            break
        if job is None:
            continue
        if not _is_plain(job):
            break
        if not found or found[-1] != job.id:  # One that came back may stand there twice.
            found.append(job.id)
    return tuple(found)
