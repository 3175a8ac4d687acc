"""What must hold in any state, checked from scratch; tests ask it after every step."""

from __future__ import annotations

from stoker.core.fit import fits_beside, held_reservation
from stoker.core.model import ACTIVE, FINAL, JobState
from stoker.core.state import State


def check(state: State) -> None:
    """Raise AssertionError if the state contradicts itself."""
    _check_jobs(state)
    _check_gpus(state)
    _check_counts(state)
    _check_ready(state)


def _check_jobs(state: State) -> None:
    for job in state.jobs.values():
        assert job.state not in FINAL, f"job {job.id} is final and still in memory"
        assert (job.state in ACTIVE) == (job.active is not None), f"job {job.id}: {job}"
        assert (job.id in state.active) == (job.active is not None), f"job {job.id}: {job}"
        if job.active is not None:
            assert job.active.number == job.attempt
            stopping = job.active.stop is not None
            assert stopping == (job.state is JobState.STOPPING), f"job {job.id}: {job}"
            assert stopping == (job.id in state.stopping)
            started = job.active.started_at_ms is not None
            assert started == (job.id not in state.to_start)


def _check_gpus(state: State) -> None:
    for gpu in state.gpus.values():
        expected = {
            job_id: held_reservation(state.jobs[job_id].need, attempt, gpu)
            for job_id in state.active
            if (attempt := state.jobs[job_id].active) is not None and gpu.id in attempt.gpus
        }
        assert gpu.held_by == expected, f"GPU {gpu.id}: {gpu.held_by} is not {expected}"
        # One that grew beyond what it was given is seen to, but what it uses can't be denied.
        held = [r for job_id, r in gpu.held_by.items() if not _grew(state, job_id)]
        for place, one in enumerate(held):
            assert fits_beside(one, held[:place], gpu), f"GPU {gpu.id} is over its capacity"


def _grew(state: State, job_id: int) -> bool:
    attempt = state.jobs[job_id].active
    return attempt is not None and attempt.peak_mib is not None


def _check_counts(state: State) -> None:
    assert state.held_count == sum(j.state is JobState.HELD for j in state.jobs.values())
    assert state.cpus_used == sum(state.jobs[i].need.cpus for i in state.active)
    for group in state.groups.values():
        running = sum(1 for i in state.active if state.jobs[i].group == group.name)
        assert group.running == running, f"group {group.name}: {group.running} is not {running}"


def _check_ready(state: State) -> None:
    ready = 0
    for job in state.jobs.values():
        moment = max(job.not_before_ms or 0, job.backoff_until_ms or 0)
        if state.ready.has(job):
            ready += 1
            assert job.state is JobState.WAITING and not job.requires, f"job {job.id}: {job}"
        elif job.state is JobState.WAITING and not job.requires:
            assert moment > state.now_ms, f"job {job.id} could be ready and is not: {job}"
    assert state.ready.count == ready
