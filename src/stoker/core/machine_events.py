"""What happens to GPUs, groups, limits, profiles and the clock: one function per event.

Only `State.apply` calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stoker.core import events as ev
from stoker.core.fit import held_reservation, with_in_order
from stoker.core.gpu import Gpu
from stoker.core.indexes import gpus_changed, learn, learned_anew, line_up

if TYPE_CHECKING:
    from stoker.core.state import State


def _takeovers_planned(state: State, e: ev.TakeoversPlanned) -> None:
    if e.takeovers.standbys != state.takeovers.standbys:
        state.change.standbys = True
    state.takeovers = e.takeovers


def _queue_paused(state: State, e: ev.QueuePaused | ev.QueueResumed) -> None:
    paused = isinstance(e, ev.QueuePaused)
    if e.group is None:
        state.paused = paused
        state.change.settings = True
    else:
        state.group_of(e.group).paused = paused
        state.change.groups.add(e.group)
        state.ready.unpark(e.group)


def _policy_set(state: State, e: ev.PolicySet) -> None:
    if e.policy is state.order.policy:
        return
    state.order.policy = e.policy
    state.change.policy = True
    state.ready.follow_policy(state.jobs.unseen_cohorts(), state.jobs.seen())


def _group_limited(state: State, e: ev.GroupLimited) -> None:
    state.group_of(e.group).max_running = e.max_running
    state.change.groups.add(e.group)
    state.ready.unpark(e.group)


def _gpu_added(state: State, e: ev.GpuAdded) -> None:
    gpu = state.gpus.get(e.gpu)
    was_shown_as = gpu.shown_as if gpu is not None else None
    if gpu is None:
        gpu = Gpu(e.gpu, e.memory_mib, e.declared)
    gpu.removing = e.hidden
    gpu.memory_mib = e.memory_mib
    gpu.declared = gpu.declared or e.declared
    gpu.label, gpu.vendor = e.label, e.vendor
    for job_id in gpu.held_by:
        job = state.jobs[job_id]
        assert job.active is not None
        gpu.held_by[job_id] = held_reservation(job.need, job.active, gpu)
    if gpu.shown_as != was_shown_as:
        state.gpus = with_in_order(state.gpus, gpu)
    gpus_changed(state)


def _gpu_removed(state: State, e: ev.GpuRemoved) -> None:
    gpu = state.gpus[e.gpu]
    if e.gone:
        gpu.vendor = ""
    if gpu.held_by or gpu.vendor:
        # One that a driver shows stays known as taken away, or it would come back by itself.
        gpu.removing = True
    else:
        del state.gpus[e.gpu]
    gpus_changed(state)


def _gpu_drained(state: State, e: ev.GpuDrained | ev.GpuResumed) -> None:
    state.gpus[e.gpu].drained = isinstance(e, ev.GpuDrained)
    gpus_changed(state)


def _gpus_measured(state: State, e: ev.GpusMeasured) -> None:
    changed = False
    for gpu_id, reading in e.readings.items():
        gpu = state.gpus.get(gpu_id)
        if gpu is not None:
            before, gpu.reading = gpu.usable, reading
            changed = changed or before != gpu.usable
    if changed:
        learned_anew(state)


def _profile_learned(state: State, e: ev.ProfileLearned) -> None:
    learn(state, e.profile)


def _profiles_forgotten(state: State, e: ev.ProfilesForgotten) -> None:
    for kind in e.kinds:
        if state.profiles.pop(kind, None) is not None:
            state.change.profiles.add(kind)
    learned_anew(state)


def _cpus_counted(state: State, e: ev.CpusCounted) -> None:
    state.ready.unpark(None)
    state.cpus = e.cpus
    state.change.settings = True


def _cluster_limited(state: State, e: ev.ClusterLimited) -> None:
    state.at_cluster_most = e.most
    state.change.settings = True


def _disk_looked(state: State, e: ev.DiskLooked) -> None:
    state.low_disk = e.low  # It is in no record: the next daemon looks for itself.


def _clock_shifted(state: State, e: ev.ClockShifted) -> None:
    state.now_ms = e.at_ms
    state.order.shift(e.by_ms)
    for job_id in state.active:
        attempt = state.jobs[job_id].active
        assert attempt is not None
        attempt.placed_at_ms += e.by_ms
        if attempt.started_at_ms is not None:
            attempt.started_at_ms += e.by_ms
        if attempt.stop is not None:
            attempt.stop.at_ms += e.by_ms
        if attempt.peak_at_ms is not None:
            attempt.peak_at_ms += e.by_ms
        if attempt.suspended_at_ms is not None:
            attempt.suspended_at_ms += e.by_ms
        if attempt.saved_at_ms is not None:
            attempt.saved_at_ms += e.by_ms
        state.change.touched[job_id] = None
    for short in (state.short, *state.short_alone.values()):
        if short is not None:
            short.shift(e.by_ms)
    for job in state.jobs.seen():
        if job.backoff_until_ms is not None:
            job.backoff_until_ms += e.by_ms
            state.change.touched[job.id] = None
        if job.gave_way is not None:
            job.gave_way = job.gave_way.shifted(e.by_ms)
            state.change.touched[job.id] = None
    state.timers.clear()
    for job in state.jobs.seen():
        if job.active is not None:
            state.timers.watch(job)
        else:
            # A moment of --at may lie ahead again, so those in line are looked at too.
            state.ready.discard(job)
            line_up(state, job)


def _time_passed(state: State, e: ev.TimePassed) -> None:
    """The time itself was taken by `apply`; what is due is asked for with `take_due`."""


HANDLERS: dict[type[Any], Callable[[State, Any], None]] = {
    ev.TakeoversPlanned: _takeovers_planned,
    ev.QueuePaused: _queue_paused,
    ev.QueueResumed: _queue_paused,
    ev.PolicySet: _policy_set,
    ev.GroupLimited: _group_limited,
    ev.GpuAdded: _gpu_added,
    ev.GpuRemoved: _gpu_removed,
    ev.GpuDrained: _gpu_drained,
    ev.GpuResumed: _gpu_drained,
    ev.GpusMeasured: _gpus_measured,
    ev.ProfileLearned: _profile_learned,
    ev.ProfilesForgotten: _profiles_forgotten,
    ev.CpusCounted: _cpus_counted,
    ev.ClusterLimited: _cluster_limited,
    ev.DiskLooked: _disk_looked,
    ev.ClockShifted: _clock_shifted,
    ev.TimePassed: _time_passed,
}
