"""What must hold in any state, checked from scratch; tests ask it after every step."""

from __future__ import annotations

from stoker.core.fit import fits_beside, held_reservation
from stoker.core.model import ACTIVE, FINAL, Job, JobState, Requirement, Suspension, Warning
from stoker.core.state import State
from stoker.core.timers import goes_first_ms, is_warned_first, slice_over_ms


def check(state: State) -> None:
    """Raise AssertionError if the state contradicts itself."""
    _check_jobs(state)
    _check_giving_way(state)
    _check_gpus(state)
    _check_counts(state)
    _check_ready(state)
    _check_barriers(state)
    _check_processes(state)


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
            to_warn = job.active.warning is Warning.DUE
            to_warn = to_warn and (not stopping or is_warned_first(job))
            assert to_warn == (job.id in state.to_warn), f"job {job.id}: {job}"
            over_ms = None if stopping else slice_over_ms(job)
            past_slice = over_ms is not None and over_ms <= state.now_ms
            assert past_slice or job.id not in state.past_slice, f"job {job.id}: {job}"
            suspension, suspended = job.active.suspension, job.active.suspended_at_ms is not None
            assert suspended == (suspension in (Suspension.BEGINS, Suspension.LASTS)), f"{job}"
            assert not (suspended and stopping), f"job {job.id} stops, and is suspended: {job}"
            changes = suspension in (Suspension.BEGINS, Suspension.ENDS)
            assert changes == (job.id in state.suspending), f"job {job.id}: {job}"
            begun = job.active.started_at_ms is not None or bool(job.active.place)
            assert begun == (job.id not in state.to_start)
            if not job.terms.executor:
                assert job.state is not JobState.SUBMITTED and not job.active.place
            elif not stopping:
                started = job.active.started_at_ms is not None
                assert started == (job.state is JobState.RUNNING), f"job {job.id}: {job}"
                assert not job.active.gpus


def _check_giving_way(state: State) -> None:
    offered = {i for i in state.active if state.jobs[i].terms.preemptible}
    assert state.offered.keys() == offered, f"{state.offered} have offered, not {offered}"
    keeping = {job.id for job in state.jobs.values() if job.kept}
    assert state.keeping.keys() == keeping, f"GPUs are kept for {state.keeping}, not {keeping}"
    urgent = [job for job in state.jobs.values() if job.terms.urgent and state.ready.has(job)]
    assert state.ready.urgent == len(urgent), f"{state.ready.urgent} are urgent, not {urgent}"
    for job in state.jobs.values():
        assert not job.kept or job.state is JobState.WAITING, f"job {job.id}: {job}"
        first_ms = goes_first_ms(job)
        late = first_ms is not None and first_ms <= state.now_ms
        assert not job.goes_first or (late and job.active is None), f"job {job.id}: {job}"
        assert not (late and state.ready.has(job)) or job.goes_first, f"job {job.id} goes first"


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
    here = [i for i in state.active if not state.jobs[i].terms.executor]
    assert state.cpus_used == sum(state.jobs[i].need.cpus for i in here)
    assert state.at_cluster == len(state.active) - len(here)
    for group in state.groups.values():
        running = sum(1 for i in state.active if state.jobs[i].group == group.name)
        assert group.running == running, f"group {group.name}: {group.running} is not {running}"


def _check_ready(state: State) -> None:
    ready = 0
    for job in state.jobs.values():
        moment = job.backoff_until_ms or 0
        if not job.terms.executor:  # A cluster is told the time, and waits for it itself.
            moment = max(job.not_before_ms or 0, moment)
        unmet = [r for r in job.requires or () if not _cluster_can_await(state, job, r)]
        alone = job.terms.attached and job.id not in state.terminals
        if alone and job.state is JobState.WAITING:
            assert job.id in state.unattended, f"job {job.id}: nothing knows that it is alone"
        if state.ready.has(job):
            ready += 1
            assert job.state is JobState.WAITING and not unmet, f"job {job.id}: {job}"
            assert not alone, f"job {job.id} is in line without its terminal"
        elif job.state is JobState.WAITING and not unmet and not alone:
            assert moment > state.now_ms, f"job {job.id} could be ready and is not: {job}"
    assert state.ready.count == ready
    for job_id in state.terminals:
        assert job_id in state.jobs, f"job {job_id} has ended, and its terminal is still known"
    for job_id in state.unattended:
        attached = job_id in state.jobs and state.jobs[job_id].terms.attached
        assert attached and job_id not in state.terminals, f"job {job_id} waits for no terminal"


def _check_processes(state: State) -> None:
    awaiting: dict[str, set[int]] = {}
    for job in state.jobs.values():
        for requirement in job.requires or ():
            if requirement.process is not None:
                awaiting.setdefault(requirement.process, set()).add(job.id)
    known = {process: set(jobs) for process, jobs in state.dependencies.processes.items()}
    assert known == awaiting, f"{known} is not {awaiting}"


def _check_barriers(state: State) -> None:
    behind: dict[Requirement, set[int]] = {}
    for job in state.jobs.values():
        for requirement in job.requires or ():
            if requirement.last_id is not None:
                behind.setdefault(requirement, set()).add(job.id)
    for requirement, barrier in state.dependencies.barriers:
        missing = {i for i in requirement.ids if i in state.jobs}
        assert missing and barrier.missing.keys() == missing, f"{requirement}: {barrier}"
        assert barrier.behind.keys() == behind.pop(requirement, set()), f"{requirement}: {barrier}"
    assert not behind, f"nothing opens for {behind}"


def _cluster_can_await(state: State, job: Job, requirement: Requirement) -> bool:
    """True if both are the cluster's, which has the other one and was not told to stop it."""
    if requirement.last_id is not None or requirement.process is not None:
        return False
    other = state.jobs.get(requirement.job_id)
    if other is None or not job.terms.executor or other.terms.executor != job.terms.executor:
        return False
    return other.active is not None and bool(other.active.place) and other.active.stop is None
