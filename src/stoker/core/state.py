"""The state, and the one door through which it changes.

`State.apply(event)` is the only mutator of jobs, attempts, GPUs and groups. What an event may do to
its job is said by the table in `core.moves`; all else is a bug, and raises before the commit.
The indexes (ready jobs, timers, dependents, what is to be started or stopped) are derived from
the jobs, and rebuilt from them by `State.restored`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any, Protocol

from stoker.core import events as ev
from stoker.core.change import Change, Ended
from stoker.core.endings import backoff_ms, judged
from stoker.core.fit import held_reservation, natural, with_in_order
from stoker.core.gates import Gate, Gates
from stoker.core.jobs import Jobs
from stoker.core.laws import IllegalMove, must_agree
from stoker.core.learning import after_out_of_memory, after_run
from stoker.core.model import (
    CANCELLED,
    FAILED,
    FINAL,
    HELD,
    LOST,
    MOST_MPS_RETRIES,
    RUNNING,
    SKIPPED,
    STOPPING,
    SUBMITTED,
    SUCCEEDED,
    WAITING,
    Attempt,
    Cause,
    Gpu,
    Group,
    Job,
    JobState,
    Need,
    Outcome,
    Profile,
    Relief,
    Requirement,
    Stop,
    Warning,
)
from stoker.core.moments import (
    Timer,
    attempt_timers,
    deadline_ms,
    kill_ms,
    ready_ms,
    warning_ms,
)
from stoker.core.moves import MOST_REMEMBERED, MOVES, illegal
from stoker.core.needs import largest_mib, learned_need
from stoker.core.order import Crowd, ReadyQueue, by_priority
from stoker.core.shortage import Shortage, after_failure

# Of one place: an attempt and those that take over from it, one after the other, before a turn.
MOST_ENDS_IN_A_TURN = 4


class _OfJob(Protocol):
    @property
    def job_id(self) -> int: ...


class _OfAttempt(_OfJob, Protocol):
    @property
    def attempt(self) -> int: ...


class State:
    """All jobs that are not final, the GPUs, and the indexes that planning asks."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.next_job_id = 1
        self.paused = False
        self.cpus = 1
        self.cpus_used = 0
        self.at_cluster = 0  # how many active jobs are a cluster's
        self.at_cluster_most = 1000
        self.held_count = 0
        self.relief = Relief()
        self.short: Shortage | None = None  # what the machine has not enough of to start anything
        self.short_alone: dict[int, Shortage] = {}  # what only these jobs' own files lack
        self.jobs = Jobs()
        self.gpus: dict[str, Gpu] = {}
        self.groups: dict[str, Group] = {}
        self.profiles: dict[str, Profile] = {}
        self.ready = ReadyQueue(self.jobs.get)
        self.active: dict[int, None] = {}
        self.to_start: dict[int, None] = {}
        self.terminals: dict[int, None] = {}  # attached jobs whose clients are there; in no record
        self.unattended: dict[int, None] = {}  # attached jobs that wait without their clients
        self.to_warn: dict[int, None] = {}
        self.stopping: dict[int, None] = {}
        self.doomed: list[tuple[int, int, JobState]] = []
        self.change = Change()
        # The latest events that were about a job that was there. Submissions are not among them:
        # they may be very large, and say nothing that the job does not.
        self.story: deque[Any] = deque(maxlen=MOST_REMEMBERED)
        self.gates = Gates(self.jobs)
        self._dependents: dict[int, list[int]] = {}
        self._timers: list[tuple[int, int, int, int]] = []  # when, job, attempt, Timer
        self._learned_needs: dict[tuple[Need, int | None], Need] = {}

    @classmethod
    def restored(
        cls,
        jobs: Iterable[Job],
        gpus: Iterable[Gpu],
        groups: Iterable[Group],
        profiles: Iterable[Profile] = (),
        crowds: Sequence[Crowd] = (),
        *,
        now_ms: int,
        next_job_id: int,
        paused: bool,
        cpus: int,
        at_cluster_most: int,
        standbys: Iterable[int] = (),
    ) -> State:
        """The state as the store has it, with every index built anew.

        A job is one of the `jobs`, or one of a crowd.
        """
        state = cls(now_ms)
        state.next_job_id, state.paused, state.cpus = next_job_id, paused, cpus
        state.at_cluster_most = at_cluster_most
        state.relief = Relief(standbys=tuple(standbys))
        state.gpus = {g.id: g for g in sorted(gpus, key=lambda g: natural(g.shown_as))}
        state.groups = {g.name: g for g in groups}
        state.profiles = {p.kind: p for p in profiles}
        others = list(jobs)
        # A job that can't start before its client has come stands in no line until then.
        others += [job for crowd in crowds if crowd.terms.attached for job in _each_of(crowd)]
        crowds = [crowd for crowd in crowds if not crowd.terms.attached]
        state.jobs.let_in(others, crowds)
        for crowd in crowds:
            state.ready.add_crowd(crowd)
            if crowd.group is not None:
                state.group_of(crowd.group)
        for job in others:
            must_agree(job.state not in FINAL, "job", job.id, "is final and stays in the store")
            state._index(job)
        return state

    # ------------------------------------------------------------------ the door

    def apply(self, event: ev.Event) -> None:
        """Let one fact come true."""
        if event.at_ms > self.now_ms:
            self.now_ms = event.at_ms
        _APPLY[type(event)](self, event)

    def take_change(self) -> Change:
        """What is to be committed; the next change starts empty."""
        change, self.change = self.change, Change()
        return change

    # ------------------------------------------------------------------ questions

    def is_current(self, job_id: int, attempt: int) -> bool:
        """True if that attempt is the one that is active: the fence against stale facts."""
        job = self.jobs.get(job_id)
        return job is not None and job.active is not None and job.active.number == attempt

    def lacks_terminal(self, job: Job) -> bool:
        """True if the job is to run in a terminal, and its client is not there to start it."""
        return job.terms.attached and job.id not in self.terminals

    def is_required(self, job_id: int) -> bool:
        """True if others wait for this job, or for the last of all that may end before a turn."""
        if self.gates.may_open(job_id, MOST_ENDS_IN_A_TURN * len(self.active)):
            return True
        # The first one that still waits is enough; there may be very many.
        return any(
            requirement.job_id == job_id and requirement.last_id is None
            for dependent_id in self._dependents.get(job_id, ())
            if (dependent := self.jobs.get(dependent_id)) is not None
            for requirement in dependent.requires or ()
        )

    def next_timer_ms(self) -> int | None:
        """When something may become due without any event."""
        while self._timers and not self._is_awaited(*self._timers[0]):
            heappop(self._timers)
        first_ms = self._timers[0][0] if self._timers else None
        if self.short is not None and self.short.holds(self.now_ms):
            until_ms = self.short.until_ms
            return until_ms if first_ms is None else min(first_ms, until_ms)
        return first_ms

    def _is_awaited(self, moment: int, job_id: int, number: int, kind: int) -> bool:
        """False for a timer that was overtaken: its attempt ended, or its moment moved."""
        job = self.jobs.get(job_id)
        if job is None:
            return False
        if kind == Timer.READY:
            waits = job.state is WAITING and not self.ready.has(job) and not self._awaits(job)
            return waits and not self.lacks_terminal(job) and ready_ms(job) == moment
        attempt = job.active
        if attempt is None or attempt.number != number:
            return False
        if kind == Timer.GRACE:
            return attempt.stop is not None and kill_ms(job) == moment
        if attempt.stop is not None:
            return False
        if kind == Timer.WARNING:
            return attempt.warning is Warning.NONE and warning_ms(job) == moment
        return deadline_ms(job) == moment

    def take_due(self) -> list[ev.Event]:
        """What has become due by now, as events that are still to be applied.

        Each of them once, though the timers of an attempt's placement and of its start, which
        moves the moment, may both have run out.
        """
        due: dict[ev.Event, None] = {}
        while self._timers and self._timers[0][0] <= self.now_ms:
            _, job_id, number, kind = heappop(self._timers)
            job = self.jobs.get(job_id)
            if job is None:
                continue
            if kind == Timer.READY:
                self._settle(job)
                continue
            attempt = job.active
            if attempt is None or attempt.number != number or attempt.stop is not None:
                continue
            at_ms = self.now_ms
            if kind == Timer.WARNING and attempt.warning is Warning.NONE:
                if (warning_ms(job) or 0) <= at_ms:
                    due[ev.WarningDue(at_ms, job_id, number)] = None
            elif kind == Timer.LIMIT and (deadline_ms(job) or 0) <= at_ms:
                due[ev.StopRequested(at_ms, job_id, number, Cause.TIME_LIMIT)] = None
        return list(due)

    def take_doomed(self) -> list[ev.Event]:
        """The jobs whose requirement can no longer come true, as events still to be applied."""
        if not self.doomed:
            return []
        doomed, self.doomed = self.doomed, []
        skips: list[ev.Event] = []
        seen: set[int] = set()
        for job_id, requirement, ended_as in doomed:
            job = self.jobs.get(job_id)
            if job is None or job_id in seen:
                continue
            seen.add(job_id)
            if job.active is None:
                skips.append(ev.JobSkipped(self.now_ms, job_id, requirement, ended_as))
            else:
                # A cluster has it already, and was told to let it wait for the other one.
                number = job.active.number
                skips.append(ev.StopRequested(self.now_ms, job_id, number, Cause.REQUIREMENT))
        return skips

    def group_of(self, name: str) -> Group:
        """The group of that name, made on first mention."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name)
        return group

    # ------------------------------------------------------------------ what was learned

    def gpu_named(self, name: str) -> Gpu | None:
        """The GPU with that id or number."""
        gpu = self.gpus.get(name)
        if gpu is None:
            gpu = next((one for one in self.gpus.values() if one.label == name), None)
        return gpu

    def shown_gpus(self, gpu_ids: Iterable[str]) -> list[str]:
        """How people call these GPUs; one that is not there any more by its whole name."""
        return [self.gpus[i].shown_as if i in self.gpus else i for i in gpu_ids]

    def need_of(self, job: Job) -> Need:
        """What the job needs as far as is known now: the memory that it was to be given by itself.

        A job that learns and of whose kind nothing is known still `learns` there: it is to scout.
        """
        need = job.need
        if need.kind is None and job.floor_mib is None:
            return need
        key = (need, job.floor_mib)
        known = self._learned_needs.get(key)
        if known is None:
            known = self._learned_needs[key] = learned_need(
                need, job.floor_mib, self.gpus.values(), self.profiles
            )
        return known

    def largest_mib(self, need: Need) -> int:
        """The memory of the largest GPUs of which there are enough for the need; 0 if unknown."""
        return largest_mib(need, self.gpus.values())

    def use_percent(self, need: Need) -> int | None:
        """How much of a GPU jobs of its kind use; None if nobody knows."""
        profile = self.profiles.get(need.kind) if need.kind is not None else None
        return None if profile is None else profile.use_percent

    def scouts(self, need: Need) -> list[int]:
        """The running jobs of the need's kind, if nothing is known of it yet."""
        if need.kind in self.profiles:
            return []
        return [i for i in self.active if self.jobs[i].need.kind == need.kind]

    def _learned(self) -> None:
        """What is known of memory or of GPUs has changed, and so what jobs need."""
        self._learned_needs.clear()
        self.ready.unpark(None)

    # ------------------------------------------------------------------ indexes

    def _index(self, job: Job) -> None:
        """Enter a job that comes from outside memory into every index."""
        for requirement in job.requires or ():
            if requirement.last_id is None:
                self._dependents.setdefault(requirement.job_id, []).append(job.id)
            else:
                self.gates.put_behind(job.id, requirement)
        if job.group is not None:
            self.group_of(job.group)
        self.held_count += job.state is HELD
        attempt = job.active
        if attempt is None:
            self._settle(job)
            return
        self._occupy(job, attempt)
        if attempt.started_at_ms is None and not attempt.place:
            self.to_start[job.id] = None
        if attempt.stop is not None:
            self.stopping[job.id] = None
        elif attempt.warning is Warning.DUE:
            self.to_warn[job.id] = None
        self._set_attempt_timers(job)

    def _settle(self, job: Job) -> None:
        """Put a waiting job in line if nothing but room is missing, else set its timer."""
        if job.state is not WAITING:
            return
        if self.lacks_terminal(job):
            self.unattended[job.id] = None
            return
        if job.requires and self._awaits(job):
            return
        moment = ready_ms(job)
        if moment > self.now_ms:
            heappush(self._timers, (moment, job.id, 0, Timer.READY))
        else:
            self.ready.add(job)

    def _awaits(self, job: Job) -> bool:
        """True if the job has to stay here until another one has ended.

        Of its own jobs a cluster can be told that one is to wait for another.
        """
        return any(not self._cluster_can_await(job, r) for r in job.requires or ())

    def _cluster_can_await(self, job: Job, requirement: Requirement) -> bool:
        if requirement.last_id is not None:
            return False  # Too many to name to a cluster.
        other = self.jobs.get(requirement.job_id)
        if other is None or not job.terms.executor or job.terms.executor != other.terms.executor:
            return False
        attempt = other.active
        return attempt is not None and bool(attempt.place) and attempt.stop is None

    def _settle_dependents(self, job: Job) -> None:
        """The cluster has got a job, or has it no longer: others may have to wait elsewhere."""
        if not job.terms.executor:
            return
        for dependent_id in self._dependents.get(job.id, ()):
            dependent = self.jobs.get(dependent_id)
            if dependent is not None and dependent.active is None:
                self.ready.discard(dependent)
                self._settle(dependent)

    def _set_attempt_timers(self, job: Job) -> None:
        assert job.active is not None
        for moment, kind in attempt_timers(job):
            heappush(self._timers, (moment, job.id, job.active.number, kind))

    def _occupy(self, job: Job, attempt: Attempt) -> None:
        self.active[job.id] = None
        for gpu_id in attempt.gpus:
            gpu = self.gpus[gpu_id]
            gpu.held_by[job.id] = held_reservation(job.need, attempt, gpu)
        if job.terms.executor:
            self.at_cluster += 1
        else:
            self.cpus_used += job.need.cpus
        if job.group is not None:
            self.group_of(job.group).running += 1

    def _vacate(self, job: Job, attempt: Attempt) -> None:
        job_id = job.id
        del self.active[job_id]
        for gpu_id in attempt.gpus:
            gpu = self.gpus[gpu_id]
            del gpu.held_by[job_id]
            if gpu.removing and not gpu.held_by and not gpu.maker:
                del self.gpus[gpu_id]
                self._gpus_changed()
        if job.terms.executor:
            self.at_cluster -= 1
        else:
            self.cpus_used -= job.need.cpus
        if job.group is not None:
            self.group_of(job.group).running -= 1
            self.ready.unpark(job.group)
        for index in (self.to_start, self.to_warn, self.stopping):
            if index:
                index.pop(job_id, None)

    def _move(self, job: Job, target: JobState) -> None:
        """Let the event that is being applied move its job."""
        before = job.state
        if target not in MOVES.get((before, type(self.story[-1])), ()):
            raise self._illegal(job.id, f"{before} -> {target}")
        if before is WAITING:
            self.ready.discard(job)
        elif before is HELD:
            self.held_count -= 1
        if target is HELD:
            self.held_count += 1
        job.state = target
        self.change.touched[job.id] = None

    def _concerned(self, event: _OfJob) -> Job:
        """The job that an event is about, if that can happen to it as it stands."""
        self.story.append(event)
        job = self.jobs.get(event.job_id)
        if job is None or (job.state, type(event)) not in MOVES:
            where = "not in memory" if job is None else job.state
            raise self._illegal(event.job_id, f"it is {where}")
        return job

    def _current(self, event: _OfAttempt) -> tuple[Job, Attempt]:
        """The same for an event about an attempt, which must be the active one."""
        job = self._concerned(event)
        active = job.active
        if active is None or active.number != event.attempt:
            raise self._illegal(job.id, f"attempt {event.attempt} is not active")
        return job, active

    def _illegal(self, job_id: int, what: str) -> IllegalMove:
        return illegal(job_id, what, self.story)

    # ------------------------------------------------------------------ endings

    def _finish(self, job: Job, attempt: Attempt | None, outcome: Outcome, at_ms: int) -> None:
        """The job is final: it leaves memory, and those that wait for it are told."""
        self._move(job, outcome.state)
        job_id, change = job.id, self.change
        if self.short_alone:
            self.short_alone.pop(job_id, None)
        del self.jobs[job_id]
        if self.terminals:
            self.terminals.pop(job_id, None)
        if self.unattended:
            self.unattended.pop(job_id, None)
        change.touched.pop(job_id, None)
        change.started.pop(job_id, None)
        change.ended.append(Ended(job, attempt, outcome, at_ms, True))
        for requirement in job.requires or ():
            self.gates.leave(job_id, requirement)
        if job_id in self._dependents:
            for dependent_id in self._dependents.pop(job_id):
                dependent = self.jobs.get(dependent_id)
                if dependent is not None:
                    self._requirement_ended(dependent, job_id, outcome.state)
        for requirement, gate in self.gates.ended(job_id):
            self._gate_moved(requirement, gate, job_id, outcome.state)

    def _requirement_ended(self, job: Job, required_id: int, ended_as: JobState) -> None:
        left: list[Requirement] = []
        for requirement in job.requires or ():
            if requirement.job_id != required_id or requirement.last_id is not None:
                left.append(requirement)
            elif requirement.must_succeed and ended_as is not SUCCEEDED:
                left.append(requirement)
                self.doomed.append((job.id, required_id, ended_as))
        job.requires = tuple(left) or None
        self.change.touched[job.id] = None
        self._settle(job)

    def _gate_moved(
        self, requirement: Requirement, gate: Gate, ended_id: int, ended_as: JobState
    ) -> None:
        """One of those for whom a gate is shut has ended: it may have been the last."""
        if requirement.must_succeed and ended_as is not SUCCEEDED:
            self.doomed += [(job_id, ended_id, ended_as) for job_id in gate.behind]
            gate.behind.clear()  # They are skipped in this very turn.
        if gate.missing:
            return
        for job_id in gate.behind:
            job = self.jobs[job_id]
            job.requires = tuple([r for r in job.requires or () if r != requirement]) or None
            self.change.touched[job_id] = None
            self._settle(job)

    def _end_attempt(self, job: Job, attempt: Attempt, outcome: Outcome, at_ms: int) -> None:
        succeeded = outcome.state is SUCCEEDED
        next_try = None
        if not succeeded and outcome.cause is Cause.OUT_OF_MEMORY:
            next_try = after_out_of_memory(self, job, attempt)
        elif succeeded or attempt.settled:
            self._learn(after_run(self.profiles.get(job.need.kind or ""), job, attempt, at_ms))
        self._vacate(job, attempt)
        job.active = None
        if succeeded:
            self._finish(job, attempt, outcome, at_ms)
            return
        if next_try is not None:
            # Not its fault, so it costs no retry; and what was wrong is mended, so nothing is
            # gained by waiting.
            self._move(job, WAITING)
            job.ooms += 1
            job.floor_mib = next_try.floor_mib
            self._learn(next_try.profile)
            self.change.ended.append(Ended(job, attempt, outcome, at_ms, False))
            self._settle(job)
            return
        if outcome.cause is Cause.OUT_OF_MEMORY:
            self._finish(job, attempt, outcome, at_ms)
            return
        if outcome.cause is Cause.MPS_FAULT and job.mps_faults < MOST_MPS_RETRIES:
            # Most likely a neighbour's fault. One that takes its server down again and again is
            # not let do so for ever.
            self._move(job, WAITING)
            job.mps_faults += 1
            self.change.ended.append(Ended(job, attempt, outcome, at_ms, False))
            self._settle(job)
            return
        may_retry = outcome.state in (FAILED, LOST) and job.failures < job.terms.retries
        if not may_retry:
            self._finish(job, attempt, outcome, at_ms)
            return
        job.failures += 1
        self._queue_again(job, attempt, outcome, at_ms, job.failures)

    def _queue_again(
        self, job: Job, attempt: Attempt, outcome: Outcome, at_ms: int, times: int
    ) -> None:
        """Another attempt follows, the later the more often it went wrong."""
        self._move(job, WAITING)
        job.backoff_until_ms = self.now_ms + backoff_ms(times)
        self.change.ended.append(Ended(job, attempt, outcome, at_ms, False))
        self._settle_dependents(job)
        self._settle(job)

    def _learn(self, profile: Profile | None) -> None:
        if profile is not None:
            self.profiles[profile.kind] = profile
            self.change.profiles.add(profile.kind)
            self._learned()

    # ------------------------------------------------------------------ one method an event

    def _job_submitted(self, e: ev.JobSubmitted) -> None:
        _, job_id, need, terms, priority, group, not_before_ms, requires, held, _ = e
        if job_id < self.next_job_id:
            raise IllegalMove(f"job id {job_id} was given before")
        self.next_job_id = job_id + 1
        self.change.submitted.append(e)
        if held or requires or not_before_ms is not None or terms.attached:
            job = Job(job_id, need, terms, priority, group, HELD if held else WAITING)
            job.not_before_ms, job.requires = not_before_ms, requires or None
            self.jobs[job_id] = job
            self._index(job)
            return
        # The usual job only wants room, and there may be a hundred thousand of them at once.
        if group is not None and group not in self.groups:
            self.group_of(group)
        self.jobs.add_to(self.ready.add_new(job_id, need, terms, priority, group), job_id)

    def _jobs_submitted(self, e: ev.JobsSubmitted) -> None:
        ids, group = e.ids, e.group
        if not ids or ids[0] < self.next_job_id:
            raise IllegalMove(f"the job ids {ids} were given before")
        self.next_job_id = ids[-1] + 1
        self.change.submitted_alike.append(e)
        if group is not None:
            self.group_of(group)
        for priority, some in by_priority(ids, e.priorities).items():
            crowd = Crowd(e.need, e.terms, priority, group, some)
            if e.terms.attached:
                for job in _each_of(crowd):
                    self.jobs[job.id] = job
                    self._settle(job)
                continue
            self.ready.add_crowd(crowd)
            self.jobs.add_crowd(crowd)

    def _submission_taken(self, e: ev.SubmissionTaken) -> None:
        self.change.submissions.append(e)

    def _job_retried(self, e: ev.JobRetried) -> None:
        if e.job_id in self.jobs:
            raise self._illegal(e.job_id, "it is not final, and was retried")
        job = Job(e.job_id, e.need, e.terms, e.priority, e.group, attempt=e.attempt)
        job.requires = e.requires or None
        self.jobs[job.id] = job
        self.change.touched[job.id] = None
        self.change.retried.append(job.id)
        self.gates.retried(job.id)
        self._index(job)

    def _job_held(self, e: ev.JobHeld) -> None:
        self._move(self._concerned(e), HELD)

    def _job_released(self, e: ev.JobReleased) -> None:
        job = self._concerned(e)
        self._move(job, WAITING)
        self._settle(job)

    def _job_edited(self, e: ev.JobEdited) -> None:
        job = self._concerned(e)
        self.ready.discard(job)
        if job.need != e.need:
            job.ooms, job.floor_mib = 0, None
        job.need, job.terms = e.need, e.terms
        if not e.terms.attached:
            self.terminals.pop(job.id, None)
            self.unattended.pop(job.id, None)
        job.priority, job.group, job.not_before_ms = e.priority, e.group, e.not_before_ms
        if job.group is not None:
            self.group_of(job.group)
        self.change.touched[job.id] = None
        self.change.edited.append(e)
        self._settle(job)

    def _job_cancelled(self, e: ev.JobCancelled) -> None:
        self._finish(self._concerned(e), None, Outcome(CANCELLED, e.cause), e.at_ms)

    def _job_skipped(self, e: ev.JobSkipped) -> None:
        detail = f"{e.requirement} {e.requirement_state}"
        outcome = Outcome(SKIPPED, Cause.REQUIREMENT, detail=detail)
        self._finish(self._concerned(e), None, outcome, e.at_ms)

    def _jobs_removed(self, e: ev.JobsRemoved) -> None:
        for job_id in e.job_ids:
            if job_id in self.jobs:
                raise self._illegal(job_id, "it is not final, and was removed")
            self.change.removed.append(job_id)

    def _attempt_placed(self, e: ev.AttemptPlaced) -> None:
        job = self._concerned(e)
        if e.attempt != job.attempt + 1:
            raise self._illegal(job.id, f"attempt {e.attempt} follows {job.attempt}")
        self._move(job, SUBMITTED if job.terms.executor else RUNNING)
        job.attempt = e.attempt
        job.backoff_until_ms = None
        job.active = Attempt(e.attempt, e.gpus, e.at_ms, memory=e.memory)
        self._occupy(job, job.active)
        self.change.placed.append(job.id)
        self.to_start[job.id] = None
        self._set_attempt_timers(job)
        if self.short is not None and not job.terms.executor:
            self.short.try_with(job.id, self.now_ms)

    def _relief_planned(self, e: ev.ReliefPlanned) -> None:
        if e.relief.standbys != self.relief.standbys:
            self.change.standbys = True
        self.relief = e.relief

    def _attempt_accepted(self, e: ev.AttemptAccepted) -> None:
        job, attempt = self._current(e)
        if not job.terms.executor:
            raise self._illegal(job.id, "it is not a cluster's")
        attempt.place = e.place
        self.to_start.pop(job.id, None)
        self.change.touched[job.id] = None
        self._settle_dependents(job)

    def _attempt_started(self, e: ev.AttemptStarted) -> None:
        job, attempt = self._current(e)
        attempt.started_at_ms = e.at_ms
        attempt.pid = e.pid
        self.to_start.pop(job.id, None)
        if self.short is not None or self.short_alone:
            self._has_started(job, attempt)
        if job.terms.executor:
            attempt.place = e.place or attempt.place
            self.change.begun.append(job.id)
            self.change.touched[job.id] = None
        else:
            self.change.started[job.id] = None
        if job.state is SUBMITTED:
            self._move(job, RUNNING)
        self._set_attempt_timers(job)
        self._settle_dependents(job)

    def _has_started(self, job: Job, attempt: Attempt) -> None:
        """One that was tried since a start failed has started: there is enough of all again."""
        self.short_alone.pop(job.id, None)
        short = self.short
        if short is not None and not job.terms.executor and attempt.placed_at_ms > short.since_ms:
            self.short = None

    def _attempt_put_back(self, e: ev.AttemptPutBack) -> None:
        job, attempt = self._current(e)
        if e.alone:
            known = self.short_alone.get(job.id)
            if known is not None:
                known.trial = job.id
            short = after_failure(known, e.what, job.id, self.now_ms)
            self.short_alone[job.id] = short
        else:
            self.short = after_failure(self.short, e.what, job.id, self.now_ms)
        if attempt.stop is not None:
            self._end_attempt(job, attempt, judged(job, attempt.stop, None), e.at_ms)
            return
        self._vacate(job, attempt)
        job.active = None
        self._move(job, WAITING)
        if e.alone:
            job.backoff_until_ms = self.short_alone[job.id].until_ms
        if e.spent:
            outcome = Outcome(FAILED, Cause.SHORTAGE, detail=e.what)
            self.change.ended.append(Ended(job, attempt, outcome, e.at_ms, False))
        else:
            job.attempt -= 1
            self.change.put_back.append((job.id, e.attempt))
        self._settle(job)

    def _attempt_not_started(self, e: ev.AttemptNotStarted) -> None:
        job, attempt = self._current(e)
        if self.short is not None:
            self.short.says_nothing(job.id, self.now_ms)
        outcome = Outcome(FAILED, e.cause, detail=e.why)
        if attempt.stop is not None and attempt.stop.cause is not Cause.TIME_LIMIT:
            outcome = judged(job, attempt.stop, None)
        elif e.cause is Cause.TERMINAL_GONE:
            outcome = Outcome(CANCELLED, e.cause, detail=e.why)
        self._end_attempt(job, attempt, outcome, e.at_ms)

    def _attempt_exited(self, e: ev.AttemptExited) -> None:
        job, attempt = self._current(e)
        outcome = judged(job, attempt.stop, e.exit)
        if outcome.state is FAILED and outcome.cause is Cause.EXIT:
            if e.gpu_lost:
                outcome = replace(outcome, cause=Cause.GPU_LOST)
            elif e.mps_fault:
                outcome = replace(outcome, cause=Cause.MPS_FAULT)
            elif e.out_of_memory:
                outcome = replace(outcome, cause=Cause.OUT_OF_MEMORY)
        self._end_attempt(job, attempt, outcome, e.at_ms)

    def _attempt_cut_short(self, e: ev.AttemptCutShort) -> None:
        job, attempt = self._current(e)
        if attempt.stop is not None:
            outcome = judged(job, attempt.stop, e.exit)
        else:
            state = CANCELLED if e.cause is Cause.CANCELLED else FAILED
            outcome = Outcome(state, e.cause, e.exit, e.why)
        self._end_attempt(job, attempt, outcome, e.at_ms)

    def _attempt_evicted(self, e: ev.AttemptEvicted) -> None:
        job, attempt = self._current(e)
        if attempt.stop is not None:
            self._end_attempt(job, attempt, judged(job, attempt.stop, None), e.at_ms)
            return
        self._vacate(job, attempt)
        job.active = None
        outcome = Outcome(FAILED, e.cause, detail=e.why)
        # It is not the job's fault, so it does not count against its retries.
        self._queue_again(job, attempt, outcome, e.at_ms, job.attempt - job.failures)

    def _attempt_vanished(self, e: ev.AttemptVanished) -> None:
        job, attempt = self._current(e)
        outcome = Outcome(LOST, Cause.NO_TRACE, detail=e.why)
        if attempt.stop is not None:
            # It was being stopped and it is gone: that is what was asked for.
            outcome = judged(job, attempt.stop, None)
        self._end_attempt(job, attempt, outcome, e.at_ms)

    def _terminal_came(self, e: ev.TerminalCame) -> None:
        job = self._concerned(e)
        if not job.terms.attached:
            raise self._illegal(job.id, "it runs in no terminal")
        self.terminals[job.id] = None
        self.unattended.pop(job.id, None)
        self._settle(job)

    def _terminal_left(self, e: ev.TerminalLeft) -> None:
        self.terminals.pop(e.job_id, None)
        job = self.jobs.get(e.job_id)
        if job is not None:
            self.ready.discard(job)
            self._settle(job)

    def _stop_requested(self, e: ev.StopRequested) -> None:
        job, attempt = self._current(e)
        if attempt.stop is not None:
            # A user's wish counts for more than a time limit or a requirement: no retry follows.
            if e.cause is Cause.CANCELLED:
                attempt.stop.cause = e.cause
                self.change.touched[job.id] = None
            return
        self._move(job, STOPPING)
        attempt.stop = Stop(e.cause, e.at_ms)
        self.stopping[job.id] = None
        self.to_warn.pop(job.id, None)
        self._set_attempt_timers(job)
        self._settle_dependents(job)

    def _warning_due(self, e: ev.WarningDue) -> None:
        job, attempt = self._current(e)
        if attempt.stop is not None:
            return  # It is told to end anyway.
        attempt.warning = Warning.DUE
        self.to_warn[job.id] = None
        self.change.touched[job.id] = None

    def _warning_sent(self, e: ev.WarningSent) -> None:
        job, attempt = self._current(e)
        attempt.warning = Warning.SENT
        self.to_warn.pop(job.id, None)
        self.change.touched[job.id] = None

    def _queue_paused(self, e: ev.QueuePaused) -> None:
        self._set_paused(e.group, True)

    def _queue_resumed(self, e: ev.QueueResumed) -> None:
        self._set_paused(e.group, False)

    def _set_paused(self, group: str | None, paused: bool) -> None:
        if group is None:
            self.paused = paused
            self.change.settings = True
        else:
            self.group_of(group).paused = paused
            self.change.groups.add(group)
            self.ready.unpark(group)

    def _group_limited(self, e: ev.GroupLimited) -> None:
        self.group_of(e.group).max_running = e.max_running
        self.change.groups.add(e.group)
        self.ready.unpark(e.group)

    def _gpu_added(self, e: ev.GpuAdded) -> None:
        gpu = self.gpus.get(e.gpu)
        was_shown_as = gpu.shown_as if gpu is not None else None
        if gpu is None:
            gpu = Gpu(e.gpu, e.memory_mib, e.declared)
        gpu.removing = e.hidden
        gpu.memory_mib = e.memory_mib
        gpu.declared = gpu.declared or e.declared
        gpu.label, gpu.maker = e.label, e.maker
        for job_id in gpu.held_by:
            job = self.jobs[job_id]
            assert job.active is not None
            gpu.held_by[job_id] = held_reservation(job.need, job.active, gpu)
        if gpu.shown_as != was_shown_as:
            self.gpus = with_in_order(self.gpus, gpu)
        self._gpus_changed()

    def _gpu_removed(self, e: ev.GpuRemoved) -> None:
        gpu = self.gpus[e.gpu]
        if e.gone:
            gpu.maker = ""
        if gpu.held_by or gpu.maker:
            # One that a driver shows stays known as taken away, or it would come back by itself.
            gpu.removing = True
        else:
            del self.gpus[e.gpu]
        self._gpus_changed()

    def _gpu_drained(self, e: ev.GpuDrained) -> None:
        self.gpus[e.gpu].drained = True
        self._gpus_changed()

    def _gpu_resumed(self, e: ev.GpuResumed) -> None:
        self.gpus[e.gpu].drained = False
        self._gpus_changed()

    def _gpus_changed(self) -> None:
        self.change.gpus = True
        self._learned()

    def _gpus_measured(self, e: ev.GpusMeasured) -> None:
        changed = False
        for gpu_id, reading in e.readings.items():
            gpu = self.gpus.get(gpu_id)
            if gpu is not None:
                before, gpu.reading = gpu.usable, reading
                changed = changed or before != gpu.usable
        if changed:
            self._learned()

    def _memory_seen(self, e: ev.MemorySeen) -> None:
        job, attempt = self._current(e)
        if e.grew or attempt.peak_at_ms is None:
            attempt.peak_at_ms = e.at_ms
        attempt.peak_mib = max(e.peak_mib, attempt.peak_mib or 0)
        self._hold_anew(job, attempt)
        if e.settled != attempt.settled:
            attempt.settled = e.settled
            self.change.touched[e.job_id] = None

    def _hold_anew(self, job: Job, attempt: Attempt) -> None:
        for gpu_id in attempt.gpus:
            gpu = self.gpus[gpu_id]
            gpu.held_by[job.id] = held_reservation(job.need, attempt, gpu)

    def _reservation_changed(self, e: ev.ReservationChanged) -> None:
        job, attempt = self._current(e)
        attempt.memory = e.memory
        self._hold_anew(job, attempt)
        self.change.touched[job.id] = None

    def _profile_learned(self, e: ev.ProfileLearned) -> None:
        self._learn(e.profile)

    def _profiles_forgotten(self, e: ev.ProfilesForgotten) -> None:
        for kind in e.kinds:
            if self.profiles.pop(kind, None) is not None:
                self.change.profiles.add(kind)
        self._learned()

    def _cpus_counted(self, e: ev.CpusCounted) -> None:
        self.ready.unpark(None)
        self.cpus = e.cpus
        self.change.settings = True

    def _cluster_limited(self, e: ev.ClusterLimited) -> None:
        self.at_cluster_most = e.most
        self.change.settings = True

    def _clock_shifted(self, e: ev.ClockShifted) -> None:
        self.now_ms = e.at_ms
        for job_id in self.active:
            attempt = self.jobs[job_id].active
            assert attempt is not None
            attempt.placed_at_ms += e.by_ms
            if attempt.started_at_ms is not None:
                attempt.started_at_ms += e.by_ms
            if attempt.stop is not None:
                attempt.stop.at_ms += e.by_ms
            if attempt.peak_at_ms is not None:
                attempt.peak_at_ms += e.by_ms
            self.change.touched[job_id] = None
        for short in (self.short, *self.short_alone.values()):
            if short is not None:
                short.shift(e.by_ms)
        for job in self.jobs.seen():
            if job.backoff_until_ms is not None:
                job.backoff_until_ms += e.by_ms
                self.change.touched[job.id] = None
        self._rebuild_timers()

    def _rebuild_timers(self) -> None:
        self._timers.clear()
        for job in self.jobs.seen():
            if job.active is not None:
                self._set_attempt_timers(job)
            else:
                # A moment of --at may lie ahead again, so those in line are looked at too.
                self.ready.discard(job)
                self._settle(job)

    def _time_passed(self, e: ev.TimePassed) -> None:
        """The time itself was taken by `apply`; what is due is asked for with `take_due`."""


def _each_of(crowd: Crowd) -> list[Job]:
    """Those of a crowd as jobs of their own."""
    return [Job(i, crowd.need, crowd.terms, crowd.priority, crowd.group) for i in crowd.ids]


_APPLY: dict[type[Any], Callable[[State, Any], None]] = {
    ev.JobSubmitted: State._job_submitted,
    ev.JobsSubmitted: State._jobs_submitted,
    ev.SubmissionTaken: State._submission_taken,
    ev.JobRetried: State._job_retried,
    ev.JobHeld: State._job_held,
    ev.JobReleased: State._job_released,
    ev.JobEdited: State._job_edited,
    ev.JobCancelled: State._job_cancelled,
    ev.JobSkipped: State._job_skipped,
    ev.JobsRemoved: State._jobs_removed,
    ev.AttemptPlaced: State._attempt_placed,
    ev.ReliefPlanned: State._relief_planned,
    ev.AttemptAccepted: State._attempt_accepted,
    ev.AttemptStarted: State._attempt_started,
    ev.AttemptNotStarted: State._attempt_not_started,
    ev.AttemptPutBack: State._attempt_put_back,
    ev.AttemptExited: State._attempt_exited,
    ev.AttemptCutShort: State._attempt_cut_short,
    ev.AttemptEvicted: State._attempt_evicted,
    ev.AttemptVanished: State._attempt_vanished,
    ev.TerminalCame: State._terminal_came,
    ev.TerminalLeft: State._terminal_left,
    ev.StopRequested: State._stop_requested,
    ev.WarningDue: State._warning_due,
    ev.WarningSent: State._warning_sent,
    ev.QueuePaused: State._queue_paused,
    ev.QueueResumed: State._queue_resumed,
    ev.GroupLimited: State._group_limited,
    ev.GpuAdded: State._gpu_added,
    ev.GpuRemoved: State._gpu_removed,
    ev.GpuDrained: State._gpu_drained,
    ev.GpuResumed: State._gpu_resumed,
    ev.GpusMeasured: State._gpus_measured,
    ev.MemorySeen: State._memory_seen,
    ev.ReservationChanged: State._reservation_changed,
    ev.ProfileLearned: State._profile_learned,
    ev.ProfilesForgotten: State._profiles_forgotten,
    ev.CpusCounted: State._cpus_counted,
    ev.ClusterLimited: State._cluster_limited,
    ev.ClockShifted: State._clock_shifted,
    ev.TimePassed: State._time_passed,
}
