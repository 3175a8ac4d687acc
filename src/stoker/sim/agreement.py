"""What must hold of a simulated run: the state, the record and the world tell one story."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stoker.core import events as ev
from stoker.core.check import check
from stoker.core.model import Cause, Exit, JobState, Outcome
from stoker.sim.world import successor_of

if TYPE_CHECKING:
    from stoker.sim.run import Simulation

_A_FEW_TURNS_MS = 200
_BY_STOPPING = (Exit(signal=15), Exit(signal=9))


def check_agreement(run: Simulation) -> None:
    """After a turn: the state is sound, and agrees with the world's own ledger."""
    state, world = run.engine.state, run.world
    check(state)
    # Those that took over while the turn was committed are told of in the next one.
    taking_over = {successor_of(fact) for fact in world.pending}
    for gpu_id, ledger in world.ledger.items():
        for (job_id, number), mine in ledger.items():
            if (job_id, number) in taking_over:
                assert job_id in state.takeovers.standbys, f"job {job_id} was not to take over"
                continue
            assert state.is_current(job_id, number), f"job {job_id} is on GPU {gpu_id}, unknown"
            believed = state.gpus[gpu_id].held_by.get(job_id)
            assert believed == mine, f"job {job_id} has {mine} of GPU {gpu_id}, not {believed}"
    told = {(fact.job_id, fact.attempt) for fact in world.pending}
    for job_id in state.active:
        attempt = state.jobs[job_id].active
        assert attempt is not None
        key = (job_id, attempt.number)
        there = key in world.processes or key in world.unseen or key in run.executor.grants
        assert there or key in told, f"{key} is active, and nothing is there"
    for (job_id, number), process in world.processes.items():
        job = state.jobs.get(job_id)
        suspended = job is not None and job.active and job.active.suspended_at_ms is not None
        stands = process.stopped_at_ms is not None
        assert stands == bool(suspended), f"{job_id}.{number} stands: {stands}; {job}"
        if job is not None and job.active is not None and job.active.number == number:
            assert world.places[job_id, number] == job.active.gpus, f"job {job_id} is elsewhere"
        known = state.is_current(job_id, number) or (job_id, number) in taking_over
        assert known, f"{job_id}.{number} runs, and is over or was cancelled"


def check_time_limits(run: Simulation, events: Iterable[ev.Event]) -> None:
    """No process is stopped for its time limit before it had its time, whatever the clock did."""
    if run.shift_was_lost:
        return  # A clock that is set while no engine is there can't be told from time that passed.
    for event in events:
        if not isinstance(event, ev.StopRequested) or event.cause is not Cause.TIME_LIMIT:
            continue
        process = run.world.processes.get((event.job_id, event.attempt))
        if process is None:
            continue  # It had not started yet, or has ended in this very turn.
        limit_ms = run.engine.state.jobs[event.job_id].terms.time_limit_ms
        had_ms = process.ran_ms(run.clock.true_ms)
        assert limit_ms is not None and had_ms >= limit_ms, f"{event}: {had_ms} of {limit_ms} ms"


def check_giving_way(run: Simulation, events: Iterable[ev.Event]) -> None:
    """Nothing gives way that did not offer it, nor for what is not urgent, nor too often."""
    events, state = list(events), run.engine.state
    _check_lost_work(run, events)
    for event in events:
        if not isinstance(event, ev.StopRequested) or event.cause is not Cause.GAVE_WAY:
            continue
        job = state.jobs[event.job_id]
        assert job.terms.preemptible, f"job {job.id} did not offer to give way"
        if not event.detail:
            continue  # Its user wanted it.
        hurry = state.jobs[int(event.detail)]
        assert hurry.terms.urgent and hurry.active is None, f"{event}: {hurry}"
        assert job.gave_way is not None and len(job.gave_way.times_ms) <= job.terms.yields
        key = (event.job_id, event.attempt)
        process, terms = run.world.processes.get(key), job.terms
        if process is not None:
            warned_ms = terms.signal_before_ms if terms.signal is not None else 0
            stops_ms = warned_ms + terms.grace_ms + _A_FEW_TURNS_MS
            run.world.may_lose_ms[key] = process.unsaved_ms(run.clock.true_ms) + stops_ms


def _check_lost_work(run: Simulation, events: Iterable[ev.Event]) -> None:
    """What gave way has lost no more than what it had not saved then, and did while it ended."""
    for event in events:
        if not isinstance(event, ev.AttemptExited) or run.shift_was_lost:
            continue
        key = (event.job_id, event.attempt)
        outcome, most_ms = run.store.attempts.get(key), run.world.may_lose_ms.get(key)
        if outcome is not None and outcome.cause is Cause.GAVE_WAY and most_ms is not None:
            lost_ms = run.world.lost_ms[key]
            assert lost_ms <= most_ms, f"{key} has lost {lost_ms} ms of work, of {most_ms}"


def check_end(run: Simulation) -> None:
    """At the end: every job is final, nothing is held, and every ending is as it was."""
    state, world, store = run.engine.state, run.world, run.store
    assert not state.jobs and not state.active and not store.jobs
    assert set(store.outcomes) == set(range(1, run.jobs + 1))
    assert not world.processes and not any(world.ledger.values())
    assert not any(gpu.held_by for gpu in state.gpus.values())
    assert state.cpus_used == 0 and not any(g.running for g in state.groups.values())
    for key in sorted(world.made):
        assert key in store.attempts, f"{key} ran, and there is no record of its end"
    for (job_id, number), outcome in store.attempts.items():
        behaviours = world.behaviours[job_id]
        behaviour = behaviours[min(number, len(behaviours)) - 1]
        own = [behaviour.exit] if (job_id, number) in world.made else []
        if (job_id, number) in world.ran_out:
            own.append(Exit(code=1))
        if own and behaviour.heeds_by is not None:
            own.append(behaviour.heeds_by)
        if own and outcome.cause is Cause.EXIT and job_id in run.forgotten:
            # It was stopped, and a crash has forgotten that a user wanted it.
            own += _BY_STOPPING
        _check_ending(outcome, own, f"{job_id}.{number}")


def _check_ending(outcome: Outcome, own: list[Exit], what: str) -> None:
    """The exit code is the process's own, or that of a stop that was asked for: never invented."""
    match outcome.cause:
        case Cause.EXIT:
            assert outcome.exit in own, f"{what}: {outcome}, not {own}"
            assert outcome.exit is not None
            ok = outcome.state is JobState.SUCCEEDED
            assert ok == outcome.exit.ok, f"{what}: {outcome}"
        case Cause.OUT_OF_MEMORY:
            assert outcome.exit in own, f"{what}: {outcome}, not {own}"
            assert outcome.state is JobState.FAILED, f"{what}: {outcome}"
        case Cause.SLICE | Cause.REQUEUED | Cause.GAVE_WAY if outcome.state is JobState.WAITING:
            assert outcome.exit in (None, *own, *_BY_STOPPING), f"{what}: {outcome}"
        case Cause.STUCK:
            assert outcome.state is JobState.FAILED, f"{what}: {outcome}"
        case Cause.CANCELLED | Cause.TIME_LIMIT | Cause.STOPPED_EARLY:
            early = outcome.cause is Cause.STOPPED_EARLY
            assert early == (outcome.state is JobState.STOPPED) == bool(outcome.detail), what
            possible = (None, *own, *_BY_STOPPING)
            assert outcome.exit in possible, f"{what}: {outcome}"
            assert own or outcome.exit is None, f"{what}: {outcome}"
        case Cause.NO_TRACE:
            lost = outcome.state in (JobState.LOST, JobState.WAITING)
            assert lost and outcome.exit is None, f"{what}: {outcome}"
        case Cause.NOT_STARTED | Cause.TERMINAL_GONE | Cause.REQUEUED:
            assert not own and outcome.exit is None, f"{what}: {outcome}"
        case Cause.REQUIREMENT:
            raise AssertionError(f"{what} ran, and was skipped: {outcome}")
