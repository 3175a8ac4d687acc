"""Jobs that go ahead of the first one that can't start never delay it.

When it could start is worked out here by brute force, from the time limits of what runs, and not
by the plan's own sums.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core import events as ev
from stoker.core.fit import eligible, fits_beside, reservation
from stoker.core.model import Job, Need, Terms
from stoker.core.plan import Scan
from stoker.core.state import State
from stoker.core.timers import latest_end_ms
from stoker.core.waiting import can_never_start

NOW = 1_700_000_000_000

needs = st.sampled_from(
    (
        Need(),
        Need(),
        Need(2),
        Need(3),
        Need(1, share_milli=300),
        Need(1, share_milli=700),
        Need(1, mem_mib=300),
        Need(1, mem_mib=600),
        Need(2, mem_mib=500),
        Need(1, mem_mib=100, max_per_gpu=2),
        Need(1, on=("0", "1")),
        Need(2, on=("1", "2", "3")),
        Need(1, cpus=2),
        Need(0, cpus=2),
        Need(0, cpus=4),
    )
)
limits_ms = st.sampled_from((None, 1_000, 2_000, 5_000, 9_000))
graces_ms = st.sampled_from((20_000, 500, 0))
all_terms = st.builds(Terms, time_limit_ms=limits_ms, grace_ms=graces_ms)
jobs = st.lists(st.tuples(needs, all_terms), max_size=8)


@dataclass(frozen=True)
class Running:
    """Something on GPUs, and when it ends at the latest."""

    need: Need
    gpus: tuple[str, ...]
    ends_ms: float


def with_jobs(running: list[tuple[Need, Terms]], sizes: list[int], cpus: int) -> State:
    """A state in which as many of these run as there is room for, for half a second already."""
    state = State(NOW)
    state.apply(ev.CpusCounted(NOW, cpus))
    for index, size in enumerate(sizes):
        state.apply(ev.GpuAdded(NOW, str(index), size))
    submit(state, running)
    for placed in Scan(state).carry_out(state.apply):
        state.apply(ev.AttemptStarted(NOW, placed.job_id, 1, 1))
    for job_id in [job.id for job in state.jobs.values() if job.active is None]:
        state.apply(ev.JobCancelled(NOW, job_id))
    state.apply(ev.TimePassed(NOW + 500))
    return state


def submit(state: State, wanted: list[tuple[Need, Terms]]) -> None:
    for need, terms in wanted:
        state.apply(ev.JobSubmitted(state.now_ms, state.next_job_id, need, terms))


def of(job: Job, state: State) -> Running:
    assert job.active is not None
    end_ms = latest_end_ms(job)
    return Running(job.need, job.active.gpus, inf if end_ms is None else end_ms)


def could_start_ms(state: State, job: Job, running: list[Running]) -> float:
    """The first moment at which there is room for the job, if all that runs takes all its time."""
    for moment in sorted({float(state.now_ms), *(r.ends_ms for r in running)}):
        left = [r for r in running if r.ends_ms > moment]
        roomy = [
            gpu
            for gpu in state.gpus.values()
            if eligible(job.need, gpu)
            and fits_beside(
                reservation(job.need, gpu),
                [reservation(r.need, gpu) for r in left if gpu.id in r.gpus],
                gpu,
            )
        ]
        if len(roomy) >= job.need.gpus:
            return moment
    return inf


@settings(
    max_examples=int(os.environ.get("STOKER_EXAMPLES", "300")),
    derandomize="STOKER_EXAMPLES" not in os.environ,
    database=None,
    deadline=None,
)
@given(
    running=jobs,
    waiting=jobs,
    sizes=st.lists(st.sampled_from((600, 1_000)), min_size=1, max_size=4),
    cpus=st.sampled_from((2, 4, 6)),
)
def test_whoever_goes_ahead_does_not_delay_the_first_that_can_not_start(
    running: list[tuple[Need, Terms]],
    waiting: list[tuple[Need, Terms]],
    sizes: list[int],
    cpus: int,
) -> None:
    state = with_jobs(running, sizes, cpus)
    submit(state, waiting)
    before = [of(state.jobs[job_id], state) for job_id in state.active]
    placed = [state.jobs[one.job_id] for one in Scan(state).carry_out(state.apply)]
    blocked = [
        job
        for job in state.jobs.values()
        if job.active is None and job.need.gpus and can_never_start(state, job.need) is None
    ]
    if not blocked or blocked[0].need.cpus:
        return  # Nothing waits, or what waits first may lack CPU slots: that is another matter.
    first = blocked[0]
    ahead_of_it = [of(job, state) for job in placed if job.rank < first.rank]
    all_placed = [of(job, state) for job in placed]
    without = could_start_ms(state, first, before + ahead_of_it)
    assert could_start_ms(state, first, before + all_placed) <= without
