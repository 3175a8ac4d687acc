"""Orders to the outside, in the imperative: derived from the state each turn, never remembered.

Each is idempotent per (job, attempt): carrying it out twice is the same as once.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.state import State


@dataclass(frozen=True, slots=True)
class Start:
    """Make the attempt's process, on these GPUs."""

    job_id: int
    attempt: int
    gpus: tuple[str, ...]
    grace_ms: int
    labels: tuple[str, ...] = ()  # how people call these GPUs
    maker: str = ""  # of the GPUs, if a driver shows them


@dataclass(frozen=True, slots=True)
class StartAttached:
    """Let the client at its terminal start the attempt's process."""

    job_id: int
    attempt: int
    gpus: tuple[str, ...]
    grace_ms: int
    labels: tuple[str, ...] = ()  # how people call these GPUs
    maker: str = ""  # of the GPUs, if a driver shows them


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask all processes of the attempt to end; with `force`, end them."""

    job_id: int
    attempt: int
    force: bool


@dataclass(frozen=True, slots=True)
class Warn:
    """Send the signal that was asked for before the time limit."""

    job_id: int
    attempt: int
    signal: int


Command = Start | StartAttached | Terminate | Warn


def orders(state: State) -> list[Command]:
    """Everything that is still to be done outside, as the state has it now."""
    commands: list[Command] = []
    for job_id in state.to_start:
        job = state.jobs[job_id]
        attempt = job.active
        assert attempt is not None
        if attempt.stop is None:
            kind = StartAttached if job.terms.attached else Start
            gpus = [state.gpus[gpu_id] for gpu_id in attempt.gpus]
            commands.append(
                kind(
                    job_id,
                    attempt.number,
                    attempt.gpus,
                    job.terms.grace_ms,
                    tuple([gpu.shown_as for gpu in gpus]) if gpus and gpus[0].label else (),
                    gpus[0].maker if gpus else "",
                )
            )
    for job_id in state.to_warn:
        job = state.jobs[job_id]
        assert job.active is not None and job.terms.signal is not None
        commands.append(Warn(job_id, job.active.number, job.terms.signal))
    for job_id in state.stopping:
        job = state.jobs[job_id]
        assert job.active is not None
        force = state.now_ms >= state.kill_ms(job)
        commands.append(Terminate(job_id, job.active.number, force))
    return commands
