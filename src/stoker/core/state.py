"""The state, and the one door through which it changes.

`State.apply(event)` is the only mutator of jobs, attempts, GPUs and groups. What an event may do to
its job is said by the table in `core.moves`; all else is a bug, and raises before the commit.
How an event changes the state is in `job_events`, `attempt_events` and `machine_events`.
The indexes (ready jobs, timers, dependents, what is to be started or stopped) are derived from
the jobs, and rebuilt from them by `State.restored`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stoker.core import attempt_events, job_events, machine_events, suspending
from stoker.core import events as ev
from stoker.core.change import Change
from stoker.core.dependencies import Dependencies
from stoker.core.fit import natural
from stoker.core.gpu import Gpu
from stoker.core.indexes import each_of, index, line_up
from stoker.core.jobs import Jobs
from stoker.core.laws import must_agree
from stoker.core.model import FINAL, WAITING, Group, Job, Need, Profile, Takeovers
from stoker.core.moves import MOST_REMEMBERED
from stoker.core.needs import learned_need
from stoker.core.order import Order, Policy, Usage
from stoker.core.ready import Cohort, ReadyQueue
from stoker.core.shortage import LowDisk, Shortage
from stoker.core.timers import Timers

# Of one place: an attempt and those that take over from it, one after the other, before a turn.
MOST_ENDS_IN_A_TURN = 4

HANDLERS = job_events.HANDLERS | attempt_events.HANDLERS | machine_events.HANDLERS
HANDLERS |= suspending.HANDLERS


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
        self.takeovers = Takeovers()
        self.short: Shortage | None = None  # what the machine has not enough of to start anything
        self.short_alone: dict[int, Shortage] = {}  # what only these jobs' own files lack
        self.low_disk: LowDisk | None = None  # if it `stops`, nothing starts
        self.jobs = Jobs()
        self.gpus: dict[str, Gpu] = {}
        self.groups: dict[str, Group] = {}
        self.profiles: dict[str, Profile] = {}
        self.order = Order(lambda: self.now_ms)
        self.ready = ReadyQueue(self.jobs.get, self.order)
        self.active: dict[int, None] = {}
        self.to_start: dict[int, None] = {}
        self.terminals: dict[int, None] = {}  # attached jobs whose clients are there; in no record
        self.unattended: dict[int, None] = {}  # attached jobs that wait without their clients
        self.to_warn: dict[int, None] = {}
        self.stopping: dict[int, None] = {}
        self.suspending: dict[int, None] = {}  # are to be suspended, or to go on again
        self.past_slice: dict[int, None] = {}  # run, and are to make room for those that wait
        self.offered: dict[int, None] = {}  # run, and have offered to give way
        self.keeping: dict[int, None] = {}  # wait, and GPUs on which others give way are theirs
        self.last_place = 0  # that was given to one that was put back
        self.change = Change()
        # The latest events that were about a job that was there. Submissions are not among them:
        # they may be very large, and say nothing that the job does not.
        self.story: deque[Any] = deque(maxlen=MOST_REMEMBERED)
        self.dependencies = Dependencies(self.jobs)
        self.timers = Timers(self.jobs, self._waits_for_time)
        self.learned_needs: dict[tuple[Need, int | None], Need] = {}

    @classmethod
    def restored(
        cls,
        jobs: Iterable[Job],
        gpus: Iterable[Gpu],
        groups: Iterable[Group],
        profiles: Iterable[Profile] = (),
        cohorts: Sequence[Cohort] = (),
        *,
        now_ms: int,
        next_job_id: int,
        paused: bool,
        cpus: int,
        at_cluster_most: int,
        standbys: Iterable[int] = (),
        policy: str = Policy.FIFO,
        run_times: Iterable[tuple[str, int, Sequence[int]]] = (),
        usage: Mapping[str, Usage] | None = None,
        arrivals: Iterable[tuple[int, int]] = (),
    ) -> State:
        """The state as the store has it, with every index built anew.

        A job is one of the `jobs`, or one of a cohort.
        """
        state = cls(now_ms)
        state.next_job_id, state.paused, state.cpus = next_job_id, paused, cpus
        state.at_cluster_most = at_cluster_most
        state.takeovers = Takeovers(standbys=tuple(standbys))
        state.gpus = {g.id: g for g in sorted(gpus, key=lambda g: natural(g.shown_as))}
        state.groups = {g.name: g for g in groups}
        state.profiles = {p.kind: p for p in profiles}
        state.order.restore(policy, run_times, usage or {}, arrivals)
        others = list(jobs)
        # A job that can't start before its client has come stands in no line until then.
        others += [job for cohort in cohorts if cohort.terms.attached for job in each_of(cohort)]
        cohorts = [cohort for cohort in cohorts if not cohort.terms.attached]
        state.jobs.let_in(others, cohorts)
        for cohort in cohorts:
            state.ready.add_cohort(cohort)
            if cohort.group is not None:
                state.group_of(cohort.group)
        for job in others:
            must_agree(job.state not in FINAL, "job", job.id, "is final and stays in the store")
            index(state, job)
            if job.place is not None and job.place > state.last_place:
                state.last_place = job.place
        return state

    # ------------------------------------------------------------------ the door

    def apply(self, event: ev.Event) -> None:
        """Let one fact come true."""
        if event.at_ms > self.now_ms:
            self.now_ms = event.at_ms
        HANDLERS[type(event)](self, event)

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
        return self.dependencies.is_required(job_id, MOST_ENDS_IN_A_TURN * len(self.active))

    def next_timer_ms(self) -> int | None:
        """When something may become due without any event."""
        first_ms = self.timers.next_ms()
        if self.short is not None and self.short.holds(self.now_ms):
            until_ms = self.short.until_ms
            return until_ms if first_ms is None else min(first_ms, until_ms)
        return first_ms

    def _waits_for_time(self, job: Job) -> bool:
        """True if nothing else is missing for it to stand in line."""
        waits = job.state is WAITING and not self.ready.has(job)
        return waits and not self.dependencies.awaits(job) and not self.lacks_terminal(job)

    def take_due(self) -> list[ev.Event]:
        """What has become due by now, as events that are still to be applied."""
        ready, past_slice, due = self.timers.take_due(self.now_ms)
        for job in ready:
            if job.gave_way is not None:
                self.ready.discard(job)  # It may go before all others now.
            line_up(self, job)
        for job in past_slice:
            self.past_slice[job.id] = None
        return due

    def take_doomed(self) -> list[ev.Event]:
        """The jobs whose requirement can no longer come true, as events still to be applied."""
        return self.dependencies.take_doomed(self.now_ms)

    def group_of(self, name: str) -> Group:
        """The group of that name, made on first mention."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name)
        return group

    def ahead_of(self, jobs: Iterable[Job]) -> dict[int, int]:
        """How many waiting jobs come before each of these, by the policy."""
        return self.jobs.ahead_of(jobs, self.order.place)

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
        known = self.learned_needs.get(key)
        if known is None:
            known = self.learned_needs[key] = learned_need(
                need, job.floor_mib, self.gpus.values(), self.profiles
            )
        return known

    def use_percent(self, need: Need) -> int | None:
        """How much of a GPU jobs of its kind use; None if that is not known."""
        profile = self.profiles.get(need.kind) if need.kind is not None else None
        return None if profile is None else profile.use_percent

    def scouts(self, need: Need) -> list[int]:
        """The running jobs of the need's kind, if nothing is known of it yet."""
        if need.kind in self.profiles:
            return []
        return [i for i in self.active if self.jobs[i].need.kind == need.kind]
