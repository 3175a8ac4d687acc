"""Everything on which the rest of a simulated run depends, as a value that can be compared.

Two runs with the same fingerprint go on alike. So nothing may be left out that a decision looks
at, and nothing may be put in that none does: what was logged, how the run got here, and the order
of indexes, which a restart changes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import astuple
from operator import attrgetter
from typing import TYPE_CHECKING

from stoker.core.gpu import GpuReading
from stoker.core.model import Job
from stoker.core.state import State

if TYPE_CHECKING:
    from stoker.sim.run import Simulation


_OF_JOB = attrgetter(
    "id", "need", "terms", "priority", "group", "state", "not_before_ms", "backoff_until_ms",
    "attempt", "failures", "requires", "ooms", "floor_mib", "mps_faults", "resumes", "stuck",
    "gave_way", "kept",
)  # fmt: skip
_OF_ATTEMPT = attrgetter(
    "number", "gpus", "placed_at_ms", "started_at_ms", "pid", "place", "warning", "memory",
    "suspension", "suspended_at_ms", "suspended_ms", "suspensions",
)  # fmt: skip
_OF_USE = attrgetter("peak_mib", "peak_at_ms", "settled")
_OF_GPU = attrgetter("id", "memory_mib", "declared", "drained", "removing", "label", "vendor")


def of_job(job: Job) -> Hashable:
    """A job and its active attempt, by value."""
    attempt = job.active
    if attempt is None:
        return (*_OF_JOB(job), None)
    stop = attempt.stop
    stopped = None if stop is None else (stop.cause, stop.at_ms, stop.detail)
    return (*_OF_JOB(job), _OF_ATTEMPT(attempt), stopped)


def of_state(state: State) -> Hashable:
    """The state with its indexes: equal if a reader could not tell two states apart."""
    gpus = tuple((_OF_GPU(gpu), frozenset(gpu.held_by.items())) for gpu in state.gpus.values())
    # A group of which nothing is known but its name is as good as none.
    groups = frozenset(
        (g.name, g.paused, g.max_running, g.running)
        for g in state.groups.values()
        if g.paused or g.max_running is not None or g.running
    )
    return (
        (state.now_ms, state.next_job_id, state.paused, state.cpus, state.cpus_used),
        (state.at_cluster, state.at_cluster_most, state.takeovers.standbys),
        frozenset(of_job(job) for job in state.jobs.values()),
        _places(state),
        gpus,
        groups,
        frozenset(state.profiles.values()),
        _order(state),
        frozenset(job.id for job in state.jobs.values() if state.ready.has(job)),
        frozenset(state.active),
        frozenset(state.to_start),
        frozenset(state.to_warn),
        frozenset(state.stopping),
        frozenset(state.suspending),
        tuple(state.dependencies.doomed),
        frozenset(timer for timer in state.timers if timer[0] > state.now_ms),
    )


def _order(state: State) -> Hashable:
    """What the policy looks at."""
    order = state.order
    came = frozenset((job.id, order.came_ms(job.rank)) for job in state.jobs.values())
    used = frozenset(order.usage.items())
    return order.policy, frozenset(order.run_times.items()), used, came


def _places(state: State) -> Hashable:
    """How jobs stand that were put back: behind which ones, and in which order.

    The numbers that say so are given anew once those who had the highest have ended.
    """
    placed = sorted(job.rank for job in state.jobs.values() if job.place is not None)
    return tuple((rank[0], rank[1], rank[-1]) for rank in placed)


def _seen(state: State) -> Hashable:
    """What was read of GPUs, and of attempts on them, and is in no record."""
    attempts = [(job.id, job.active) for job in state.jobs.values() if job.active is not None]
    return (
        tuple(_of_reading(gpu.reading) for gpu in state.gpus.values()),
        frozenset((job_id, *_OF_USE(attempt)) for job_id, attempt in attempts),
    )


def _of_reading(reading: GpuReading | None) -> Hashable:
    if reading is None:
        return None
    ours = frozenset(reading.ours_mib.items())
    return (reading.at_ms, reading.used_mib, ours, reading.others_mib, reading.use_percent)


def of_run(run: Simulation) -> Hashable:
    """The whole of a simulation between two turns."""
    world, clock, store, short = run.world, run.clock, run.store, run.engine.state.short
    processes = frozenset(
        (key, p.started_at_ms, p.ends_at_ms, p.exit, p.forced, p.stopped_at_ms, p.stood_ms, p.asked)
        for key, p in world.processes.items()
    )
    return (
        (clock.true_ms, clock.wall_ahead_ms, clock.unread_shift_ms),
        (len(run.todo), len(run.outside), run.world.short),
        (run.disk.disk_full, run.disk.reserve, run.disk.room),
        run.engine.unsaved.value(),
        None if short is None else astuple(short),  # No record has it.
        of_state(run.engine.state),
        run.engine.state.takeovers,
        run.takeover.allowed,
        run.engine.next_wakeup_ms(),
        frozenset(store.outcomes.items()),
        frozenset(store.attempts.items()),
        processes,
        frozenset(world.made),
        frozenset(world.pending),
        frozenset(world.unseen.items()),
        frozenset(world.watched),
        frozenset(world.terminals.acceptances.items()),
        frozenset((key, at_ms) for key, (at_ms, _) in world.terminals.told.items()),
        tuple(world.terminals.reports),
        frozenset(world.terminals.died_at_ms),
        frozenset(run.executor.offered_at_ms.items()),
        frozenset(run.state_terminals()),
        tuple(world.told),
        tuple((gpu_id, frozenset(held)) for gpu_id, held in world.ledger.items()),
        world.sighting,
        _seen(run.engine.state),
        (world.look_ms, world.devices.value(), frozenset(world.ran_out)),
        frozenset(run.engine.unjudged.items()),
    )
