"""A state machine that drives the core with whatever may happen, and knows what must hold.

It keeps a small model of its own (which attempts were given out, what each job still requires,
which GPUs a stopped job has), so that the properties are not judged by the code under test alone.
After each rule the change is committed to a store, so that memory and record can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from property.core_strategies import (
    GPU_IDS,
    SIZES_MIB,
    Wanted,
    groups,
    needs,
    picks,
    priorities,
    processes,
    some_groups,
    terms,
    wanted,
)
from stoker.api.messages import JobOwn
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.check import check
from stoker.core.fit import could_ever_fit, fits_beside, reservation
from stoker.core.forecast import expected_start
from stoker.core.giving_way import giving_way
from stoker.core.gpu import Gpu
from stoker.core.model import (
    ACTIVE,
    FINAL,
    PUTS_BACK,
    WHOLE_SHARE_MILLI,
    Cause,
    Exit,
    Group,
    Job,
    JobState,
    Launch,
    Need,
    Requirement,
    Suspension,
    Terms,
    Warning,
)
from stoker.core.order import Policy
from stoker.core.plan import Scan
from stoker.core.reasons import IsNext, QueueIsPaused, as_data, words
from stoker.core.slices import slices_over
from stoker.core.state import State
from stoker.core.timers import deadline_ms, kill_ms, slice_over_ms
from stoker.core.waiting import reason_for
from stoker.sim.fingerprint import of_state
from stoker.store.memory import MemoryStore
from unit.core_scene import with_terminals


class Interrupted(Exception):
    """What is thrown into a question."""


@dataclass
class Known:
    """What the machine itself knows of a job."""

    unmet: dict[int, bool] = field(default_factory=dict)  # required job: must it succeed
    span: Requirement | None = None  # a range of jobs that it requires
    process: str | None = None  # one that is not ours, and that it requires to end
    doomed: bool = False
    stopped_on: tuple[str, ...] | None = None  # the GPUs that it had when it was told to stop


class CoreMachine(RuleBasedStateMachine):
    """The rules are what may happen; the invariants are the laws of the core."""

    def __init__(self) -> None:
        super().__init__()
        self.state = State(now_ms=1_700_000_000_000)
        self.store = MemoryStore()
        self.known: dict[int, Known] = {}
        self.given: dict[tuple[int, int], tuple[str, ...]] = {}  # every attempt there ever was
        self.last: dict[int, Job] = {}  # final jobs, as they were in the end
        self.gave_way: dict[int, list[int]] = {}  # when each was told to, for urgent jobs
        self.plans = True

    # ------------------------------------------------------------------ from event to record

    def happens(self, *events: ev.Event) -> None:
        """One turn: apply, let follow what follows, decide, commit."""
        for event in events:
            self.state.apply(event)
        for due in self.state.take_due():
            self.state.apply(due)
        while skips := self.state.take_doomed():
            for skip in skips:
                self.state.apply(skip)
        if self.plans:
            self.plan()
        change = self.state.take_change()
        self.store.commit(self.state, change)
        for ended in change.ended:
            if ended.attempt is not None:
                self.known[ended.job.id].stopped_on = None
            if ended.job_is_final:
                self._is_final(ended.job, ended.outcome.state)

    def _is_final(self, job: Job, ended_as: JobState) -> None:
        self.last[job.id] = job
        mine = self.known[job.id]
        if ended_as is not JobState.CANCELLED or not job.terms.executor:
            # A job that is a cluster's may be cancelled while it is being withdrawn from there.
            assert (ended_as is JobState.SKIPPED) == mine.doomed, f"job {job.id} is {ended_as}"
        mine.doomed = False
        for other in self.known.values():
            self._span_heard(other, job.id, ended_as)
            must = other.unmet.get(job.id)
            if must is None:
                continue
            if must and ended_as is not JobState.SUCCEEDED:
                other.doomed = True
            else:
                del other.unmet[job.id]
        mine.unmet.clear()
        mine.span = mine.process = None

    def _span_heard(self, other: Known, ended_id: int, ended_as: JobState) -> None:
        if other.span is None or ended_id not in other.span.ids:
            return
        if other.span.must_succeed and ended_as is not JobState.SUCCEEDED:
            other.doomed = True
        elif not any(i in self.state.jobs for i in other.span.ids):
            # Another one of them may have ended badly in the very same turn.
            ended = [self.store.outcomes[i] for i in other.span.ids if i in self.store.outcomes]
            bad = any(outcome.state is not JobState.SUCCEEDED for outcome in ended)
            other.doomed = other.doomed or (other.span.must_succeed and bad)
            other.span = other.span if other.doomed else None

    @property
    def now(self) -> int:
        return self.state.now_ms

    def pick(self, jobs: Sequence[Job], number: int) -> Job:
        return jobs[number % len(jobs)]

    def in_states(self, *states: JobState) -> list[Job]:
        return [job for job in self.state.jobs.values() if job.state in states]

    # ------------------------------------------------------------------ users

    @initialize(
        sizes=st.lists(st.sampled_from(SIZES_MIB), min_size=2, max_size=len(GPU_IDS)),
        jobs=st.lists(wanted, min_size=3, max_size=8),
    )
    def a_machine(self, sizes: list[int | None], jobs: list[Wanted]) -> None:
        self.happens(
            ev.CpusCounted(self.now, 4),
            *(
                ev.GpuAdded(self.now, gpu_id, size)
                for gpu_id, size in zip(GPU_IDS, sizes, strict=False)
            ),
        )
        for job in jobs:
            self.submit(job)

    @rule(asked=wanted)
    def submit(self, asked: Wanted) -> None:
        jobs = list(self.state.jobs.values())
        unmet = {self.pick(jobs, number).id: must for number, must in asked.after if jobs}
        job_id = self.state.next_job_id
        span = self._span(asked) if jobs else None
        process = asked.process
        self.known[job_id] = Known(dict(unmet), span, process)
        self.happens(
            ev.JobSubmitted(
                self.now,
                job_id,
                asked.need,
                asked.terms,
                asked.priority,
                asked.group,
                None if asked.after_ms is None else self.now + asked.after_ms,
                (
                    *(Requirement(required, must) for required, must in unmet.items()),
                    *(() if span is None else (span,)),
                    *(() if process is None else (Requirement(0, False, None, process),)),
                ),
                asked.held,
            )
        )

    @rule(policy=st.sampled_from(Policy))
    def set_policy(self, policy: Policy) -> None:
        self.happens(ev.PolicySet(self.now, policy))

    @rule(asked=wanted, some=st.lists(priorities, min_size=2, max_size=4))
    def submit_many(self, asked: Wanted, some: list[int]) -> None:
        submitted = ev.JobsSubmitted(
            self.now,
            self.state.next_job_id,
            asked.need,
            asked.terms,
            asked.group,
            some,
            Launch(("true",)),
            [JobOwn()] * len(some),
            ["true"] * len(some),
        )
        self.known |= {job_id: Known({}, None) for job_id in submitted.ids}
        self.happens(submitted)

    def _span(self, asked: Wanted) -> Requirement | None:
        """Some of the jobs, from one to another; in between there may be some that have ended."""
        if asked.span is None:
            return None
        number, length, must = asked.span
        jobs = sorted(self.state.jobs)
        first = jobs[number % len(jobs)]
        last = min(jobs[-1], first + length)
        failed = [
            i
            for i in range(first, last + 1)
            if i in self.store.outcomes and self.store.outcomes[i].state is not JobState.SUCCEEDED
        ]
        return Requirement(first, must and not failed, last)

    @precondition(lambda self: self.in_states(JobState.WAITING, JobState.HELD))
    @rule(number=picks)
    def hold_or_release(self, number: int) -> None:
        job = self.pick(self.in_states(JobState.WAITING, JobState.HELD), number)
        kind = ev.JobReleased if job.state is JobState.HELD else ev.JobHeld
        self.happens(kind(self.now, job.id))

    @precondition(lambda self: self.in_states(JobState.WAITING, JobState.HELD))
    @rule(number=picks, need=needs, terms=terms, priority=priorities, group=groups)
    def edit(self, number: int, need: Need, terms: Terms, priority: int, group: str | None) -> None:
        job = self.pick(self.in_states(JobState.WAITING, JobState.HELD), number)
        not_before_ms = (job.not_before_ms, None, self.now + 700)[number % 3]
        event = ev.JobEdited(self.now, job.id, need, terms, priority, group, not_before_ms)
        self.happens(event)

    @precondition(lambda self: self.state.jobs)
    @rule(number=picks)
    def cancel(self, number: int) -> None:
        job = self.pick(list(self.state.jobs.values()), number)
        if job.active is None:
            self.happens(ev.JobCancelled(self.now, job.id))
        else:
            self.known[job.id].stopped_on = job.active.gpus
            number = job.active.number
            self.happens(ev.StopRequested(self.now, job.id, number, Cause.CANCELLED))

    @precondition(lambda self: self.in_states(JobState.RUNNING))
    @rule(number=picks)
    def stop_early(self, number: int) -> None:
        job = self.pick(self.in_states(JobState.RUNNING), number)
        assert job.active is not None
        self.known[job.id].stopped_on = job.active.gpus
        early, attempt = Cause.STOPPED_EARLY, job.active.number
        self.happens(ev.StopRequested(self.now, job.id, attempt, early, "at step 1"))

    @precondition(lambda self: self.in_states(JobState.RUNNING))
    @rule(number=picks)
    def requeue(self, number: int) -> None:
        job = self.pick(self.in_states(JobState.RUNNING), number)
        assert job.active is not None
        self.known[job.id].stopped_on = job.active.gpus
        attempt = job.active.number
        self.happens(ev.StopRequested(self.now, job.id, attempt, Cause.REQUEUED))

    def _can_stand_still(self) -> list[Job]:
        running = self.in_states(JobState.RUNNING)
        return [job for job in running if not job.terms.executor and not job.terms.attached]

    @precondition(lambda self: self._can_stand_still())
    @rule(number=picks)
    def suspend_or_continue(self, number: int) -> None:
        job = self.pick(self._can_stand_still(), number)
        assert job.active is not None
        goes_on = job.active.suspended_at_ms is not None
        kind = ev.ContinueRequested if goes_on else ev.SuspendRequested
        self.happens(kind(self.now, job.id, job.attempt))

    @precondition(lambda self: self.state.suspending)
    @rule(number=picks, nth=st.sampled_from((0, 1)))
    def stands_still_or_goes_on(self, number: int, nth: int) -> None:
        job = self.pick([self.state.jobs[i] for i in self.state.suspending], number)
        assert job.active is not None
        began = job.active.suspension is Suspension.BEGINS
        kind = ev.AttemptSuspended if began else ev.AttemptContinued
        # One about an earlier suspension says nothing.
        self.happens(kind(self.now, job.id, job.attempt, job.active.suspensions - nth))
        assert (job.id in self.state.suspending) == bool(nth)

    @precondition(
        lambda self: any(job.terms.preemptible for job in self.in_states(JobState.RUNNING))
    )
    @rule(number=picks)
    def yields(self, number: int) -> None:
        offered = [job for job in self.in_states(JobState.RUNNING) if job.terms.preemptible]
        job = self.pick(offered, number)
        assert job.active is not None
        self.known[job.id].stopped_on = job.active.gpus
        self.happens(ev.StopRequested(self.now, job.id, job.active.number, Cause.GAVE_WAY))

    @precondition(lambda self: self.last)
    @rule(number=picks, forget=st.sampled_from((False, False, True)))
    def retry_or_remove(self, number: int, forget: bool) -> None:
        job = self.pick([job for _, job in sorted(self.last.items())], number)
        del self.last[job.id]
        if forget:
            self.happens(ev.JobsRemoved(self.now, (job.id,)))
            assert job.id not in self.store.outcomes
            return
        event = ev.JobRetried(
            self.now, job.id, job.need, job.terms, job.priority, job.group, (), job.attempt,
            job.resumes,
        )  # fmt: skip
        self.happens(event)

    @rule(what=st.sampled_from((ev.QueuePaused, ev.QueueResumed, ev.QueueResumed)), group=groups)
    def pause_or_resume(
        self, what: type[ev.QueuePaused | ev.QueueResumed], group: str | None
    ) -> None:
        self.happens(what(self.now, group))

    @rule(group=some_groups, most=st.sampled_from((None, 0, 1, 2)), cpus=st.sampled_from((2, 4, 8)))
    def set_limits(self, group: str, most: int | None, cpus: int) -> None:
        self.happens(ev.GroupLimited(self.now, group, most), ev.CpusCounted(self.now, cpus))

    # ------------------------------------------------------------------ GPUs

    @rule(gpu_id=st.sampled_from(GPU_IDS), size=st.sampled_from(SIZES_MIB))
    def add_gpu(self, gpu_id: str, size: int | None) -> None:
        known = self.state.gpus.get(gpu_id)
        if known is not None and not self._would_hold(gpu_id, size):
            return  # A GPU that shrinks under its jobs is a test of its own.
        self.happens(ev.GpuAdded(self.now, gpu_id, size))

    def _would_hold(self, gpu_id: str, size: int | None) -> bool:
        resized = Gpu(gpu_id, size)
        on_it = [self.state.jobs[job_id].need for job_id in self.state.gpus[gpu_id].held_by]
        if not all(could_ever_fit(need, resized) for need in on_it):
            return False
        held = [reservation(need, resized) for need in on_it]
        return all(fits_beside(one, held[:place], resized) for place, one in enumerate(held))

    @precondition(lambda self: self.state.gpus)
    @rule(number=picks, what=st.sampled_from((ev.GpuRemoved, ev.GpuDrained, ev.GpuResumed)))
    def change_gpu(
        self, number: int, what: type[ev.GpuRemoved | ev.GpuDrained | ev.GpuResumed]
    ) -> None:
        gpu_ids = list(self.state.gpus)
        self.happens(what(self.now, gpu_ids[number % len(gpu_ids)]))

    # ------------------------------------------------------------------ planning

    @rule()
    def drain_or_go_on(self) -> None:
        """The daemon drains, and nothing is planned; or it no longer does."""
        self.plans = not self.plans
        self.happens()

    def plan(self) -> None:
        usable = {gpu.id for gpu in self.state.gpus.values() if gpu.usable}
        paused_groups = {group.name for group in self.groups() if group.paused}

        def placed(placement: ev.AttemptPlaced) -> None:
            job = self.state.jobs[placement.job_id]
            key = (job.id, job.attempt + 1)
            assert not self.state.paused, "planning placed something while the queue is paused"
            assert job.group not in paused_groups, "planning placed something of a paused group"
            assert self._group_has_room(job), "more of a group run than may"
            assert set(placement.gpus) <= usable, "a drained GPU got something new"
            if job.terms.executor:
                assert not placement.gpus, "a cluster has its own GPUs"
                assert self.state.at_cluster < self.state.at_cluster_most
                for required in (self.state.jobs[r.job_id] for r in job.requires or ()):
                    assert required.active is not None and required.active.place
            else:
                assert len(set(placement.gpus)) == len(placement.gpus) == job.need.gpus
                assert not job.need.on or set(placement.gpus) <= set(job.need.on)
                assert not job.requires, "it was placed before what it requires has ended"
            assert key not in self.given, "an attempt was given out twice"
            assert not job.terms.attached or job.id in self.state.terminals, "its client is away"
            self.given[key] = placement.gpus
            assert placement.attempt == key[1]
            self._leaves_what_is_kept(job, placement.gpus)
            self.state.apply(placement)
            check(self.state)

        Scan(self.state).carry_out(placed)
        for stop in slices_over(self.state):
            self._ends_its_slice(stop)
        for decided in giving_way(self.state):
            if isinstance(decided, ev.StopRequested):
                self._gives_way(decided)
            self.state.apply(decided)
            check(self.state)
        assert not any(isinstance(one, ev.StopRequested) for one in giving_way(self.state))

    def _leaves_what_is_kept(self, job: Job, gpus: tuple[str, ...]) -> None:
        """What others leave for an urgent job is given to none that comes after it."""
        for keeper in self.in_states(JobState.WAITING):
            if job.rank < keeper.rank or keeper is job or not self.state.ready.has(keeper):
                continue
            for gpu in (self.state.gpus[i] for i in gpus if i in keeper.kept):
                held = [r for i, r in gpu.held_by.items() if i not in self.state.stopping]
                held.append(reservation(job.need, gpu))
                assert fits_beside(reservation(keeper.need, gpu), held, gpu), "it was kept"

    def _gives_way(self, stop: ev.StopRequested) -> None:
        job, hurry = self.state.jobs[stop.job_id], self.state.jobs[int(stop.detail)]
        assert job.terms.preemptible, "it did not offer to give way"
        assert hurry.terms.urgent and hurry.state is JobState.WAITING, "nothing urgent waits"
        assert not self.state.paused, "nothing could start in its place"
        assert job.active is not None
        earlier = self.gave_way.setdefault(job.id, [])
        of_late = [at_ms for at_ms in earlier if at_ms > self.now - 3_600_000]
        assert len(of_late) < job.terms.yields, "it gives way too often"
        earlier.append(self.now)
        self.known[job.id].stopped_on = job.active.gpus

    def _ends_its_slice(self, stop: ev.StopRequested) -> None:
        job = self.state.jobs[stop.job_id]
        over_ms = slice_over_ms(job)
        assert over_ms is not None and over_ms <= self.now, "its slice is not over"
        before = job.rank if job.terms.keep_place else (job.priority, self.state.next_job_id)
        waiting = [one for one in self.in_states(JobState.WAITING) if one.rank < before]
        assert waiting, "nothing waits that would come first"
        assert not self.state.paused, "nothing could start in its place"
        assert job.active is not None
        self.known[job.id].stopped_on = job.active.gpus
        self.state.apply(stop)
        check(self.state)

    def _group_has_room(self, job: Job) -> bool:
        most = None if job.group is None else self.state.groups[job.group].max_running
        running = [other for other in self.in_states(*ACTIVE) if other.group == job.group]
        return most is None or len(running) < most

    # ------------------------------------------------------------------ processes

    @rule(process=processes)
    def one_that_is_not_ours_ends(self, process: str) -> None:
        for known in self.known.values():
            if known.process == process:
                known.process = None
        self.happens(ev.ProcessEnded(self.now, process))

    def _placed(self) -> list[Job]:
        return [self.state.jobs[job_id] for job_id in self.state.to_start]

    @precondition(lambda self: self.state.jobs.attached())
    @rule(number=picks, all_come=st.booleans())
    def terminals_come_or_leave(self, number: int, all_come: bool) -> None:
        jobs = self.state.jobs.attached()
        away = [job for job in jobs if job.id not in self.state.terminals]
        if all_come and away:
            self.happens(*(ev.TerminalCame(self.now, job.id) for job in away))
            return
        job = self.pick(jobs, number)
        here = job.id in self.state.terminals
        self.happens((ev.TerminalLeft if here else ev.TerminalCame)(self.now, job.id))

    @precondition(lambda self: self.state.to_start)
    @rule(number=picks)
    def starts(self, number: int) -> None:
        job = self.pick(self._placed(), number)
        assert job.active is not None
        self.happens(ev.AttemptStarted(self.now, job.id, job.active.number, 4711))

    @precondition(lambda self: self.state.to_start)
    @rule(
        number=picks,
        cause=st.sampled_from((Cause.NOT_STARTED, Cause.NOT_STARTED, Cause.TERMINAL_GONE)),
    )
    def can_not_start(self, number: int, cause: Cause) -> None:
        job = self.pick(self._placed(), number)
        assert job.active is not None
        attempt = job.active.number
        self.happens(ev.AttemptNotStarted(self.now, job.id, attempt, "no such command", cause))

    @precondition(lambda self: self._placed_here())
    @rule(number=picks, alone=st.booleans(), spent=st.booleans())
    def the_machine_is_short(self, number: int, alone: bool, spent: bool) -> None:
        job = self.pick(self._placed_here(), number)
        assert job.active is not None
        attempt, failures = job.active.number, job.failures
        if job.active.stop is None and not spent:
            del self.given[job.id, attempt]  # It is as if it had not been placed.
        stopped = job.active.stop is not None
        self.happens(ev.AttemptPutBack(self.now, job.id, attempt, "no files", alone, spent))
        if not stopped:
            assert job.failures == failures and job.active is None
            assert job.attempt == (attempt if spent else attempt - 1)

    def _placed_here(self) -> list[Job]:
        return [job for job in self._placed() if not job.terms.executor]

    def _at_cluster(self) -> list[Job]:
        return [job for job in self.in_states(*ACTIVE) if job.terms.executor]

    @precondition(lambda self: self._at_cluster())
    @rule(number=picks, starts=st.booleans())
    def cluster_takes_or_starts(self, number: int, starts: bool) -> None:
        job = self.pick(self._at_cluster(), number)
        assert job.active is not None
        attempt = job.active.number
        if starts and job.active.started_at_ms is None:
            self.happens(ev.AttemptStarted(self.now, job.id, attempt, None, f"8{job.id} n1"))
        elif not job.active.place:
            self.happens(ev.AttemptAccepted(self.now, job.id, attempt, f"8{job.id}"))

    @precondition(lambda self: self._at_cluster())
    @rule(
        number=picks,
        cause=st.sampled_from((Cause.PREEMPTED, Cause.CANCELLED, Cause.NODE_MEMORY)),
    )
    def cluster_ends_it(self, number: int, cause: Cause) -> None:
        job = self.pick(self._at_cluster(), number)
        assert job.active is not None
        key = (job.id, job.active.number)
        if cause is Cause.PREEMPTED:
            self.happens(ev.AttemptEvicted(self.now, *key, cause, "others come first"))
        elif job.state is not JobState.SUBMITTED or cause is Cause.CANCELLED:
            self.happens(ev.AttemptCutShort(self.now, *key, cause, None))

    @rule(most=st.sampled_from((0, 1, 2, 1000)))
    def limit_cluster(self, most: int) -> None:
        self.happens(ev.ClusterLimited(self.now, most))

    @precondition(lambda self: self.in_states(JobState.RUNNING, JobState.STOPPING))
    @rule(
        number=picks,
        how=st.sampled_from((Exit(code=0), Exit(code=0), Exit(code=3), Exit(signal=9), None)),
        progressed=st.booleans(),
    )
    def ends(self, number: int, how: Exit | None, progressed: bool) -> None:
        job = self.pick(self.in_states(JobState.RUNNING, JobState.STOPPING), number)
        assert job.active is not None
        attempt, resumes, failures = job.active.number, job.resumes, job.failures
        if how is None:
            vanished = ev.AttemptVanished(self.now, job.id, attempt, "power cut", progressed)
            self.happens(vanished)
        else:
            self.happens(ev.AttemptExited(self.now, job.id, attempt, how, progressed=progressed))
        if job.resumes > resumes:
            assert how is None or not how.ok, "it has succeeded, and is put back"
            assert job.failures == failures and job.backoff_until_ms is None
            assert self.store.attempts[job.id, attempt].state is JobState.WAITING

    @precondition(lambda self: self.state.to_warn)
    @rule()
    def warning_is_sent(self) -> None:
        job = self.state.jobs[next(iter(self.state.to_warn))]
        assert job.active is not None
        self.happens(ev.WarningSent(self.now, job.id, job.active.number))

    # ------------------------------------------------------------------ time and crashes

    @rule(by_ms=st.sampled_from((1, 300, 1_000, 2_000, 60_000, 3_600_000)))
    def time_passes(self, by_ms: int) -> None:
        self.happens(ev.TimePassed(self.now + by_ms))

    @precondition(lambda self: self.state.next_timer_ms() is not None)
    @rule()
    def time_passes_until_the_next_timer(self) -> None:
        moment = self.state.next_timer_ms()
        assert moment is not None
        self.happens(ev.TimePassed(moment))
        for _ in range(3):
            after = self.state.next_timer_ms()
            if after is None or after > self.now:
                return
            self.happens()
        raise AssertionError("turn after turn is due at the same moment")

    @rule(by_ms=st.sampled_from((-3_600_000, -1, 1, 86_400_000)))
    def clock_is_set(self, by_ms: int) -> None:
        before = self._durations(), self._moments()
        for moments in self.gave_way.values():
            moments[:] = [at_ms + by_ms for at_ms in moments]
        self.state.apply(ev.ClockShifted(self.now + by_ms, by_ms))
        assert (self._durations(), self._moments()) == before
        self.happens()

    def _durations(self) -> dict[tuple[int, str], int]:
        """What is left of every duration."""
        left: dict[tuple[int, str], int] = {}
        for job in self.state.jobs.values():
            if job.backoff_until_ms is not None:
                left[job.id, "back-off"] = job.backoff_until_ms - self.now
            if job.active is not None:
                limit_ms = deadline_ms(job)
                if limit_ms is not None:
                    left[job.id, "limit"] = limit_ms - self.now
                if job.active.stop is not None:
                    left[job.id, "grace"] = kill_ms(job) - self.now
        return left

    def _moments(self) -> dict[int, int | None]:
        """Every moment on the wall clock."""
        return {job.id: job.not_before_ms for job in self.state.jobs.values()}

    @rule()
    def crash_and_restart(self) -> None:
        before = self.state
        self.state = self.store.load(self.now)
        assert not self.state.terminals
        with_terminals(self.state, before)
        assert of_state(self.state) == of_state(before)
        self.happens()  # A restart is followed by a turn.

    # ------------------------------------------------------------------ what must hold

    def groups(self) -> list[Group]:
        return list(self.state.groups.values())

    @invariant()
    def the_state_does_not_contradict_itself(self) -> None:
        check(self.state)

    @invariant()
    def the_record_says_what_memory_says(self) -> None:
        loaded = with_terminals(self.store.load(self.now), self.state)
        assert of_state(loaded) == of_state(self.state)

    @invariant()
    def no_gpu_is_over_capacity(self) -> None:
        for gpu in self.state.gpus.values():
            on_it = self._on(gpu)
            shares = sum(need.share_milli or 0 for need in on_it if not need.whole)
            assert shares <= WHOLE_SHARE_MILLI
            if gpu.memory_mib is not None:
                asked = sum(need.mem_mib or 0 for need in on_it if not need.whole)
                assert asked <= gpu.memory_mib
            limits = [need.max_per_gpu for need in on_it if need.max_per_gpu is not None]
            assert len(on_it) <= min(limits, default=len(on_it))

    @invariant()
    def a_whole_gpu_job_shares_with_nobody(self) -> None:
        for gpu in self.state.gpus.values():
            on_it = self._on(gpu)
            assert len(on_it) <= 1 or not any(need.whole for need in on_it)

    def _on(self, gpu: Gpu) -> list[Need]:
        return [
            job.need
            for job in self.in_states(*ACTIVE)
            if job.active is not None and gpu.id in job.active.gpus
        ]

    @invariant()
    def no_job_is_active_twice(self) -> None:
        for (job_id, number), gpus in self.given.items():
            if self.state.is_current(job_id, number):
                attempt = self.state.jobs[job_id].active
                assert attempt is not None and attempt.gpus == gpus
            else:
                assert not self._holds(job_id) or self._current(job_id) != number

    def _holds(self, job_id: int) -> bool:
        return any(job_id in gpu.held_by for gpu in self.state.gpus.values())

    def _current(self, job_id: int) -> int | None:
        job = self.state.jobs.get(job_id)
        return None if job is None or job.active is None else job.active.number

    @invariant()
    def a_job_that_is_told_to_stop_keeps_its_gpus_until_its_attempt_ends(self) -> None:
        for job_id, known in self.known.items():
            for gpu_id in known.stopped_on or ():
                assert job_id in self.state.gpus[gpu_id].held_by

    @invariant()
    def final_jobs_never_come_back_but_by_retry(self) -> None:
        for job_id in self.last:
            assert job_id not in self.state.jobs
            assert self.store.outcomes[job_id].state in FINAL
            assert not self._holds(job_id)

    @invariant()
    def no_job_is_lost(self) -> None:
        assert set(self.state.jobs) == set(self.store.jobs)
        assert set(self.store.outcomes) == set(self.last)

    @invariant()
    def a_job_waits_for_exactly_what_it_requires(self) -> None:
        for job in self.state.jobs.values():
            known = self.known[job.id]
            withdrawn = job.terms.executor and job.state is JobState.STOPPING
            assert not known.doomed or withdrawn, f"job {job.id} can never start, is not skipped"
            awaited = [r.process for r in job.requires or () if r.process is not None]
            assert awaited == ([] if known.process is None else [known.process])
            single = [r for r in job.requires or () if r.last_id is None and r.process is None]
            assert {r.job_id: r.must_succeed for r in single} == known.unmet
            spans = [r for r in job.requires or () if r.last_id is not None]
            assert spans == ([] if known.span is None else [known.span]), f"{job} {known}"
            if job.state in ACTIVE and not job.terms.executor:
                assert not known.unmet and not known.span and not known.process

    def _as_it_is(self) -> tuple[object, ...]:
        """All that a decision may depend on, and every line and heap to the last entry."""
        ready = self.state.ready
        classes = [
            (cls.number, list(cls.heap), cls.count, cls.in_line_as, cls.parked)
            for cls in ready.classes()
        ]
        cohorts = [
            [(cohort.place, list(cohort.ids)) for cohort in cls.cohorts.values()]
            for cls in ready.classes()
        ]
        lines = [
            (line.on, line.classes, [(order, number) for order, number, _ in line.heap])
            for line in (*ready.gpu_lines(), ready.cpu_line, ready._cluster_line)
        ]
        parked = {group: [cls.number for cls in some] for group, some in ready._parked.items()}
        state = self.state
        others = (list(state.terminals), list(state.unattended), list(state.short_alone))
        return (of_state(state), classes, cohorts, lines, parked, others, ready.count, state.short)

    @precondition(lambda self: self.in_states(JobState.WAITING))
    @rule(
        number=picks,
        where=st.sampled_from(("hold_back", "place", "could_start", "group_blocks", "hold_allows")),
        calls=st.integers(0, 3),
    )
    def ask_in_vain(self, number: int, where: str, calls: int) -> None:
        """A question that fails somewhere on its way changes nothing either."""
        job = self.pick(self.in_states(JobState.WAITING), number)
        before, really, left = self._as_it_is(), getattr(Scan, where), [calls]

        def fails(*args: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Interrupted
            return really(*args)

        setattr(Scan, where, fails)
        try:
            reason_for(self.state, job)
        except Interrupted:
            pass
        finally:
            setattr(Scan, where, really)
        assert self._as_it_is() == before

    @invariant()
    def asking_changes_nothing(self) -> None:
        queued = self.in_states(JobState.WAITING, JobState.HELD)
        before = self._as_it_is()
        for job in queued:
            reason_for(self.state, job)
        for job in queued[:2]:
            expected_start(self.state, job.id, lambda job_id: (1_000 * job_id,))
        assert self._as_it_is() == before

    @invariant()
    def every_queued_job_has_a_reason(self) -> None:
        for job in self.in_states(JobState.WAITING, JobState.HELD):
            reason = reason_for(self.state, job)
            assert words(reason, self.now)
            assert as_data(reason)["kind"] == type(reason).__name__
            if self.state.paused and self.state.ready.has(job):
                assert not isinstance(reason, IsNext)
            if isinstance(reason, QueueIsPaused) and reason.group is None:
                assert self.state.paused

    @invariant()
    def a_job_that_is_said_to_be_next_would_be_started(self) -> None:
        if not self.plans:
            return
        for job in self.in_states(JobState.WAITING):
            if isinstance(reason_for(self.state, job), IsNext):
                started = [placement.job_id for placement in self._would_start()]
                assert job.id in started, f"job {job.id} is next, and would not be started"

    def _would_start(self) -> list[ev.AttemptPlaced]:
        """What the next turn would start, were nothing else to happen."""
        state = with_terminals(self.store.load(self.now), self.state)
        return Scan(state).carry_out(state.apply)

    @invariant()
    def nothing_that_is_due_is_left_undone(self) -> None:
        for job in self.in_states(JobState.RUNNING):
            limit_ms = deadline_ms(job)
            assert limit_ms is None or limit_ms > self.now

    @invariant()
    def what_is_to_be_done_outside_follows_from_the_state(self) -> None:
        expected: list[cmd.Command] = []
        for job in self.state.jobs.values():
            attempt = job.active
            if attempt is None:
                continue
            stands = attempt.suspended_at_ms is not None
            suspends = cmd.Suspend(job.id, attempt.number, attempt.suspensions)
            goes = cmd.Continue(job.id, attempt.number, attempt.suspensions)
            if attempt.suspension in (Suspension.BEGINS, Suspension.ENDS):
                expected.append(suspends if stands else goes)
            if attempt.stop is not None:
                terms, asked_ms = job.terms, attempt.stop.at_ms
                begun = attempt.started_at_ms is not None
                goes_on = attempt.stop.cause in PUTS_BACK and begun
                if goes_on and terms.signal is not None and not terms.executor:
                    asked_ms += terms.signal_before_ms
                    if attempt.warning is Warning.DUE:
                        expected.append(cmd.Warn(job.id, attempt.number, terms.signal))
                if self.now >= asked_ms:
                    force = self.now >= asked_ms + terms.grace_ms
                    order = cmd.Terminate(job.id, attempt.number, force, terms.executor)
                    expected.append(order)
                continue
            if job.terms.executor:
                if attempt.started_at_ms is None and not attempt.place:
                    expected.append(self._hand_over(job))
            elif attempt.started_at_ms is None:
                kind = cmd.StartAttached if job.terms.attached else cmd.Start
                start = (job.id, attempt.number, attempt.gpus, job.terms.grace_ms)
                resumes = job.resumes if job.resumes or job.terms.goes_on else None
                expected.append(kind(*start, group=job.group, resumes=resumes))
            if attempt.warning is Warning.DUE and not stands:
                assert job.terms.signal is not None
                expected.append(cmd.Warn(job.id, attempt.number, job.terms.signal))
        orders = cmd.commands_for(self.state)
        assert len(orders) == len(expected)
        assert set(orders) == set(expected)

    def _hand_over(self, job: Job) -> cmd.HandOver:
        after = tuple(
            cmd.Awaited(r.job_id, self.state.jobs[r.job_id].attempt, r.must_succeed)
            for r in job.requires or ()
        )
        return cmd.HandOver(
            job.id,
            job.attempt,
            "slurm",
            job.need,
            job.terms,
            job.priority,
            job.not_before_ms,
            after,
            job.group,
            job.resumes or None,
        )
