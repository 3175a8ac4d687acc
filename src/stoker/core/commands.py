"""Orders to the outside, in the imperative: derived from the state each turn, never remembered.

Each is idempotent per (job, attempt): carrying it out twice is the same as once.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.frozen import quick_to_make
from stoker.core.learning import pinned_mib
from stoker.core.model import Job, Need, Suspension, Terms
from stoker.core.state import State
from stoker.core.timers import ask_ms, kill_ms


@dataclass(frozen=True, slots=True)
class Mps:
    """Let the attempt share its GPU through MPS, with so much of it at most."""

    thread_percentage: int | None = None
    limit_mib: int | None = None


@quick_to_make
class _OfAttempt:
    job_id: int
    attempt: int


@quick_to_make
class _Begin(_OfAttempt):
    gpus: tuple[str, ...]
    grace_ms: int
    labels: tuple[str, ...] = ()  # how people call these GPUs
    vendor: str = ""  # of the GPUs, if a driver shows them
    mps: Mps | None = None
    uuids_only: bool = False  # their numbers can't be relied on now
    group: str | None = None
    resumes: int | None = None  # how often it was put back; None: it does not count on that


@quick_to_make
class Start(_Begin):
    """Make the attempt's process, on these GPUs."""


@quick_to_make
class StartAttached(_Begin):
    """Let the client at its terminal start the attempt's process."""


@quick_to_make
class Adopt(_OfAttempt):
    """Take a process that runs already, and that is not ours, for the attempt's."""

    process: str  # see ForeignProcess.kept


@quick_to_make
class Awaited(_OfAttempt):
    """An attempt at the same cluster that must have ended (or succeeded) first."""

    must_succeed: bool


@quick_to_make
class HandOver(_OfAttempt):
    """Let a cluster run the attempt, wherever and whenever it sees fit."""

    executor: str
    need: Need
    terms: Terms
    priority: int
    not_before_ms: int | None
    after: tuple[Awaited, ...]
    group: str | None = None
    resumes: int | None = None  # see Start


@quick_to_make
class Terminate(_OfAttempt):
    """Ask all processes of the attempt to end; with `force`, end them."""

    force: bool
    executor: str = ""


@quick_to_make
class Warn(_OfAttempt):
    """Send the signal that was asked for before the time limit."""

    signal: int


@quick_to_make
class Suspend(_OfAttempt):
    """Stop all processes of the attempt, until they are continued."""

    nth: int  # suspension of this attempt


@quick_to_make
class Continue(_OfAttempt):
    """Let all processes of the attempt go on."""

    nth: int  # suspension that is over


Command = Start | StartAttached | Adopt | HandOver | Terminate | Warn | Suspend | Continue


def _mps(state: State, job: Job) -> Mps | None:
    attempt = job.active
    assert attempt is not None
    if not job.terms.mps or not attempt.gpus or state.gpus[attempt.gpus[0]].vendor == "amd":
        return None
    return Mps(job.terms.thread_percentage, pinned_mib(state, job, attempt))


def _numbers_shift(state: State) -> bool:
    """Whether programs may count the GPUs of this machine otherwise than its driver does.

    A GPU that has failed is left out of CUDA's count, and one that is divided counts otherwise.
    """
    return any(
        gpu.vendor and (not gpu.label or (gpu.reading is not None and gpu.reading.fault))
        for gpu in state.gpus.values()
    )


def commands_for(state: State) -> list[Command]:
    """Everything that is still to be done outside, as the state has it now."""
    commands: list[Command] = []
    for job_id in state.to_start:
        job = state.jobs[job_id]
        attempt = job.active
        assert attempt is not None
        if attempt.stop is None and job.terms.executor:
            commands.append(_hand_over(state, job, attempt.number))
        elif attempt.stop is None and job.terms.adopted is not None:
            commands.append(Adopt(job_id, attempt.number, job.terms.adopted))
        elif attempt.stop is None:
            kind = StartAttached if job.terms.attached else Start
            gpus = [state.gpus[gpu_id] for gpu_id in attempt.gpus]
            numbered = bool(gpus and gpus[0].label)
            commands.append(
                kind(
                    job_id,
                    attempt.number,
                    attempt.gpus,
                    job.terms.grace_ms,
                    tuple([gpu.shown_as for gpu in gpus]) if numbered else (),
                    gpus[0].vendor if gpus else "",
                    _mps(state, job),
                    numbered and _numbers_shift(state),
                    job.group,
                    job.resumes if job.resumes or job.terms.goes_on else None,
                )
            )
    for job_id in state.suspending:  # Before any signal, which one that is stopped can't heed.
        attempt = state.jobs[job_id].active
        assert attempt is not None
        order = Continue if attempt.suspension is Suspension.ENDS else Suspend
        commands.append(order(job_id, attempt.number, attempt.suspensions))
    for job_id in state.to_warn:
        job = state.jobs[job_id]
        assert job.active is not None and job.terms.signal is not None
        if job.active.suspended_at_ms is not None:
            continue  # It could not heed it now.
        commands.append(Warn(job_id, job.active.number, job.terms.signal))
    for job_id in state.stopping:
        job = state.jobs[job_id]
        assert job.active is not None
        if state.now_ms < ask_ms(job):
            continue  # It was sent its own signal, and has time to heed it.
        force = state.now_ms >= kill_ms(job)
        commands.append(Terminate(job_id, job.active.number, force, job.terms.executor))
    return commands


def _hand_over(state: State, job: Job, attempt: int) -> HandOver:
    # Each requirement is with the cluster, or was when this one was placed.
    after = [
        Awaited(other.job_id, state.jobs[other.job_id].attempt, other.must_succeed)
        for other in job.requires or ()
    ]
    return HandOver(
        job.id,
        attempt,
        job.terms.executor,
        job.need,
        job.terms,
        job.priority,
        job.not_before_ms,
        tuple(after),
        job.group,
        job.resumes if job.resumes or job.terms.goes_on else None,
    )
