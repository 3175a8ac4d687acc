"""A small language for tests of the core: GPUs, jobs, what happens to them, and what is planned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stoker.core import events as ev
from stoker.core.check import check
from stoker.core.commands import Command, commands_for
from stoker.core.giving_way import giving_way
from stoker.core.gpu import Gpu
from stoker.core.model import Attempt, Cause, Exit, Job, JobState, Need, Outcome, Requirement, Terms
from stoker.core.plan import Scan
from stoker.core.reasons import Reason
from stoker.core.slices import slices_over
from stoker.core.state import State
from stoker.core.waiting import reason_for

GIB = 1024


def whole(gpus: int = 1, *, cpus: int = 0, on: tuple[str, ...] = ()) -> Need:
    """So many GPUs for the job alone."""
    return Need(gpus, cpus=cpus, on=on)


def share(part: float, *, max_per_gpu: int | None = None) -> Need:
    """A part of one GPU."""
    return Need(1, share_milli=round(part * 1000), max_per_gpu=max_per_gpu)


def mem(gib: int, gpus: int = 1, *, max_per_gpu: int | None = None) -> Need:
    """So much memory on each of its GPUs, which others may share."""
    return Need(gpus, mem_mib=gib * GIB, max_per_gpu=max_per_gpu)


def cpu_only(cpus: int = 1) -> Need:
    """No GPU at all."""
    return Need(0, cpus=cpus)


def with_terminals(loaded: State, like: State) -> State:
    """A state as the record has it, once the clients that another knows of are back."""
    for job_id in like.terminals:
        loaded.apply(ev.TerminalCame(loaded.now_ms, job_id))
    return loaded


class Scene:
    """A state with GPUs, driven by hand. Every change goes through `apply` and is checked."""

    def __init__(self, gpus: int | dict[str, int | None] = 4, *, gib: int = 24, cpus: int = 8):
        self.state = State(now_ms=1_700_000_000_000)
        self.outcomes: dict[int, Outcome] = {}
        self.attempt_outcomes: dict[tuple[int, int], Outcome] = {}
        if isinstance(gpus, int):
            gpus = {str(index): gib for index in range(gpus)}
        for gpu_id, size in gpus.items():
            self.apply(ev.GpuAdded(self.now, gpu_id, None if size is None else size * GIB))
        self.apply(ev.CpusCounted(self.now, cpus))

    @property
    def now(self) -> int:
        """The time as the state has it."""
        return self.state.now_ms

    def apply(self, *events: ev.Event) -> None:
        """Let these come true, and whatever follows from them without a decision."""
        for event in events:
            self.state.apply(event)
        for due in self.state.take_due():
            self.state.apply(due)
        while skips := self.state.take_doomed():
            for skip in skips:
                self.state.apply(skip)
        for ended in self.state.take_change().ended:
            if ended.attempt is not None:
                self.attempt_outcomes[ended.job.id, ended.attempt.number] = ended.outcome
            if ended.job_is_final:
                self.outcomes[ended.job.id] = ended.outcome
        check(self.state)

    # ------------------------------------------------------------------ what users do

    def submit(
        self,
        need: Need | None = None,
        *,
        limit_s: float | None = None,
        grace_s: float = 30,
        signal: int | None = None,
        signal_before_s: float = 0,
        retries: int = 0,
        attached: bool = False,
        terminal: bool = True,
        on_cluster: bool = False,
        priority: int = 0,
        group: str | None = None,
        after: Iterable[int] = (),
        after_any: Iterable[int] = (),
        held: bool = False,
        at_ms: int | None = None,
        after_all: Iterable[tuple[int, int, bool]] = (),
        after_processes: Iterable[str] = (),
        **terms_more: Any,
    ) -> int:
        """A new job; its id. `after_all`: from, to, and whether all of them must succeed.

        `terminal`: the client of an attached job is there. `terms_more`: by the names of Terms.
        """
        terms = Terms(
            None if limit_s is None else round(limit_s * 1000),
            round(grace_s * 1000),
            signal,
            round(signal_before_s * 1000),
            retries,
            attached,
            "slurm" if on_cluster else "",
            **terms_more,
        )
        requires = [Requirement(i, True) for i in after]
        requires += [Requirement(i, False) for i in after_any]
        requires += [Requirement(first, must, last) for first, last, must in after_all]
        requires += [Requirement(0, False, None, process) for process in after_processes]
        job_id = self.state.next_job_id
        self.apply(
            ev.JobSubmitted(
                self.now,
                job_id,
                Need() if need is None else need,
                terms,
                priority,
                group,
                at_ms,
                tuple(requires),
                held,
            ),
            *([ev.TerminalCame(self.now, job_id)] if attached and terminal else []),
        )
        return job_id

    def edit(self, job_id: int, *, need: Need | None = None, priority: int | None = None) -> None:
        """A queued job gets another need or priority."""
        job = self.job(job_id)
        self.apply(
            ev.JobEdited(
                self.now,
                job_id,
                need or job.need,
                job.terms,
                job.priority if priority is None else priority,
                job.group,
                job.not_before_ms,
            )
        )

    def cancel(self, job_id: int) -> None:
        """As a user does it: called off if it is queued, else stopped."""
        active = self.job(job_id).active
        if active is None:
            self.apply(ev.JobCancelled(self.now, job_id))
        else:
            self.apply(ev.StopRequested(self.now, job_id, active.number, Cause.CANCELLED))

    def stop_early(self, job_id: int, detail: str = "at step 9: loss 0.81 (asha)") -> None:
        """As its search does it, of what runs."""
        number = self.job(job_id).attempt
        early = Cause.STOPPED_EARLY
        self.apply(ev.StopRequested(self.now, job_id, number, early, detail))

    # ------------------------------------------------------------------ what happens

    def plan(self) -> dict[int, tuple[str, ...]]:
        """Decide, and place what was decided: the GPUs by job."""
        placed = Scan(self.state).carry_out(self.state.apply)
        for decide in (slices_over, giving_way):
            for decided in decide(self.state):
                self.state.apply(decided)
        self.apply()
        return {one.job_id: one.gpus for one in placed}

    def started(self, *job_ids: int) -> None:
        """The processes of these placed jobs run."""
        for job_id in job_ids:
            number = self.attempt(job_id).number
            self.apply(ev.AttemptStarted(self.now, job_id, number, 1000 + job_id))

    def accepted(self, *job_ids: int) -> None:
        """The cluster has taken these jobs."""
        for job_id in job_ids:
            number = self.attempt(job_id).number
            self.apply(ev.AttemptAccepted(self.now, job_id, number, f"9{job_id}"))

    def evicted(self, job_id: int, cause: Cause = Cause.PREEMPTED) -> None:
        """The cluster took the job's place away."""
        number = self.attempt(job_id).number
        self.apply(ev.AttemptEvicted(self.now, job_id, number, cause, "another had priority"))

    def cut_short(self, job_id: int, cause: Cause) -> None:
        """The cluster ended the job."""
        number = self.attempt(job_id).number
        self.apply(ev.AttemptCutShort(self.now, job_id, number, cause, Exit(signal=9)))

    def exited(self, job_id: int, code: int = 0, *, progressed: bool = True) -> None:
        """The process of a job ended."""
        number = self.attempt(job_id).number
        how = Exit(code=code)
        self.apply(ev.AttemptExited(self.now, job_id, number, how, progressed=progressed))

    def killed(self, job_id: int, signal: int) -> None:
        """The process of a job was ended by a signal."""
        number = self.attempt(job_id).number
        self.apply(ev.AttemptExited(self.now, job_id, number, Exit(signal=signal)))

    def requeue(self, job_id: int) -> None:
        """As a user does it."""
        number = self.attempt(job_id).number
        self.apply(ev.StopRequested(self.now, job_id, number, Cause.REQUEUED))

    def warned(self, job_id: int) -> None:
        """A job was sent the signal of its own."""
        self.apply(ev.WarningSent(self.now, job_id, self.attempt(job_id).number))

    def commands(self, job_id: int) -> list[Command]:
        """What is to be done outside about a job."""
        return [command for command in commands_for(self.state) if command.job_id == job_id]

    def vanished(self, job_id: int) -> None:
        """The process of a job is gone without a trace."""
        number = self.attempt(job_id).number
        self.apply(ev.AttemptVanished(self.now, job_id, number, "power cut"))

    def not_started(self, job_id: int, cause: Cause = Cause.NOT_STARTED) -> None:
        """No process could be made."""
        number = self.attempt(job_id).number
        self.apply(ev.AttemptNotStarted(self.now, job_id, number, "no such command", cause))

    def running(self, need: Need | None = None, *, limit_s: float | None = None) -> int:
        """A job that was submitted, planned and started, as the only one that could be."""
        job_id = self.submit(need, limit_s=limit_s)
        placed = self.plan()
        assert list(placed) == [job_id], placed
        self.started(job_id)
        return job_id

    def pass_s(self, seconds: float) -> None:
        """Time goes on."""
        self.apply(ev.TimePassed(self.now + round(seconds * 1000)))

    # ------------------------------------------------------------------ questions

    def job(self, job_id: int) -> Job:
        """A job that is not final."""
        return self.state.jobs[job_id]

    def attempt(self, job_id: int) -> Attempt:
        """The active attempt of a job."""
        attempt = self.job(job_id).active
        assert attempt is not None
        return attempt

    def gpu(self, gpu_id: str) -> Gpu:
        """One GPU."""
        return self.state.gpus[gpu_id]

    def where(self, job_id: int) -> JobState:
        """Where a job stands, final or not."""
        job = self.state.jobs.get(job_id)
        return self.outcomes[job_id].state if job is None else job.state

    def why(self, job_id: int) -> Reason:
        """Why a job waits."""
        return reason_for(self.state, self.job(job_id))
