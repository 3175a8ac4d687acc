"""What follows from where a job stands: who is in line, active, to be started, on which GPUs.

These keep the indexes of a state in step with its jobs. They are for the functions of the events,
which change the jobs, and for a state that is restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.core.fit import held_reservation
from stoker.core.model import HELD, WAITING, Attempt, Job, Profile, Suspension, Warning
from stoker.core.ready import Cohort
from stoker.core.timers import Timer, goes_first_ms, is_warned_first, ready_ms

if TYPE_CHECKING:
    from stoker.core.state import State


def index(state: State, job: Job) -> None:
    """Enter a job that comes from outside memory into every index."""
    state.dependencies.add(job)
    if job.group is not None:
        state.group_of(job.group)
    state.held_count += job.state is HELD
    if job.kept:
        state.keeping[job.id] = None
    attempt = job.active
    if attempt is None:
        line_up(state, job)
        return
    occupy(state, job, attempt)
    if attempt.started_at_ms is None and not attempt.place:
        state.to_start[job.id] = None
    if attempt.stop is not None:
        state.stopping[job.id] = None
    if attempt.warning is Warning.DUE and (attempt.stop is None or is_warned_first(job)):
        state.to_warn[job.id] = None
    if attempt.suspension in (Suspension.BEGINS, Suspension.ENDS):
        state.suspending[job.id] = None
    state.timers.watch(job)


def line_up(state: State, job: Job) -> None:
    """Put a waiting job in line if nothing but room is missing, else set its timer."""
    if job.state is not WAITING:
        return
    if state.lacks_terminal(job):
        state.unattended[job.id] = None
        return
    if job.requires and state.dependencies.awaits(job):
        return
    if job.gave_way is not None:
        first_ms = goes_first_ms(job)
        job.goes_first = first_ms is not None and first_ms <= state.now_ms
        if first_ms is not None and not job.goes_first:
            state.timers.wait_until(first_ms, job, Timer.FIRST)
    moment = ready_ms(job)
    if moment > state.now_ms:
        state.timers.wait_until(moment, job)
    else:
        state.ready.add(job)


def line_up_dependents(state: State, job: Job) -> None:
    """The cluster has got a job, or has it no longer: others may have to wait elsewhere."""
    if not job.terms.executor:
        return
    for dependent in state.dependencies.of(job.id):
        if dependent.active is None:
            state.ready.discard(dependent)
            line_up(state, dependent)


def occupy(state: State, job: Job, attempt: Attempt) -> None:
    """Let an attempt have what it was given."""
    state.active[job.id] = None
    if attempt.gpus:
        state.order.occupies(job, attempt)
    if job.terms.preemptible:
        state.offered[job.id] = None
    for gpu_id in attempt.gpus:
        gpu = state.gpus[gpu_id]
        gpu.held_by[job.id] = held_reservation(job.need, attempt, gpu)
        gpu.changed_at_ms = state.now_ms
    if job.terms.executor:
        state.at_cluster += 1
    else:
        state.cpus_used += job.need.cpus
    if job.group is not None:
        state.group_of(job.group).running += 1


def vacate(state: State, job: Job, attempt: Attempt) -> None:
    """Let an attempt that is over have nothing any more."""
    job_id = job.id
    del state.active[job_id]
    if attempt.gpus:
        state.order.vacates(job, attempt)
    for gpu_id in attempt.gpus:
        gpu = state.gpus[gpu_id]
        del gpu.held_by[job_id]
        gpu.changed_at_ms = state.now_ms
        if gpu.removing and not gpu.held_by and not gpu.vendor:
            del state.gpus[gpu_id]
            gpus_changed(state)
    if job.terms.executor:
        state.at_cluster -= 1
    else:
        state.cpus_used -= job.need.cpus
    if job.group is not None:
        state.group_of(job.group).running -= 1
        state.ready.unpark(job.group)
    of_attempts = (state.to_start, state.to_warn, state.stopping, state.past_slice)
    for index in (*of_attempts, state.suspending, state.offered):
        if index:
            index.pop(job_id, None)


def gpus_changed(state: State) -> None:
    """There are other GPUs, or they are usable by others than before."""
    state.change.gpus = True
    learned_anew(state)


def learned_anew(state: State) -> None:
    """What is known of memory or of GPUs has changed, and so what jobs need."""
    state.learned_needs.clear()
    state.ready.unpark(None)


def learn(state: State, profile: Profile | None) -> None:
    """Keep what is known of a kind from now on, if anything is."""
    if profile is not None:
        state.profiles[profile.kind] = profile
        state.change.profiles.add(profile.kind)
        learned_anew(state)


def learn_run_time(state: State, job: Job, ran_ms: int) -> None:
    """Keep how long a job took that has come to its end in one go."""
    kind, gpus = job.terms.run_kind, job.need.gpus
    state.order.run_times.add(kind, gpus, ran_ms)
    state.change.run_times[kind, gpus] = None


def each_of(cohort: Cohort) -> list[Job]:
    """Those of a cohort as jobs of their own."""
    return [Job(i, cohort.need, cohort.terms, cohort.priority, cohort.group) for i in cohort.ids]
