"""A store in memory, for simulations: it keeps copies, so that only what is committed survives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stoker.core.change import Change
from stoker.core.gpu import Gpu
from stoker.core.model import Group, Job, Launch, Need, Outcome, Profile, Terms, copied
from stoker.core.order import Policy, Usage
from stoker.core.ready import Cohort
from stoker.core.run_times import Runs
from stoker.core.state import State
from stoker.ports import BrokenRecord


class MemoryStore:
    """Keeps to the same contract as the one on disk."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.launches: dict[int, Launch] = {}
        self.outcomes: dict[int, Outcome] = {}  # of final jobs
        self.attempts: dict[tuple[int, int], Outcome] = {}  # of ended attempts
        self._gpus: list[Gpu] = []
        self._groups: dict[str, Group] = {}
        self._profiles: dict[str, Profile] = {}
        self._next_job_id = 1
        self._paused = False
        self._cpus = 1
        self._at_cluster_most = 1000
        self._standbys: tuple[int, ...] = ()
        self._policy = Policy.FIFO
        self._run_times: dict[tuple[str, int], Runs] = {}
        self._usage: dict[str, Usage] = {}
        self._arrivals: list[tuple[int, int]] = []

    def load(self, now_ms: int) -> State:
        """See ports.Store."""
        jobs, cohorts = _in_cohorts([self.jobs[job_id] for job_id in sorted(self.jobs)])
        return State.restored(
            [copied(job) for job in jobs],
            [replace(gpu, held_by={}, reading=None) for gpu in self._gpus],
            [replace(group, running=0) for group in self._groups.values()],
            self._profiles.values(),
            cohorts,
            now_ms=now_ms,
            next_job_id=self._next_job_id,
            paused=self._paused,
            cpus=self._cpus,
            at_cluster_most=self._at_cluster_most,
            standbys=self._standbys,
            policy=self._policy,
            run_times=[(*key, runs) for key, runs in self._run_times.items()],
            usage=self._usage,
            arrivals=self._arrivals,
        )

    def commit(
        self, state: State, change: Change, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """See ports.Store."""
        if meanwhile is not None:
            meanwhile()
        launches = {event.job_id: event.launch or Launch() for event in change.submitted}
        for many in change.submitted_together:
            for job_id, own, kind in zip(many.ids, many.each, many.kinds, strict=True):
                launches[job_id] = many.launch.with_own(own, kind)
        self.launches |= launches
        for job_id in launches:
            job = state.jobs.get(job_id)
            if job is not None:
                self.jobs[job.id] = copied(job)
        for edit in change.edited:
            if edit.launch is not None:
                self.launches[edit.job_id] = edit.launch
        for key in change.put_back:
            self.attempts.pop(key, None)
        for ended in change.ended:
            if ended.attempt is not None:
                self.attempts[ended.job.id, ended.attempt.number] = ended.outcome
            if ended.job_is_final:
                self.jobs.pop(ended.job.id, None)
                self.outcomes[ended.job.id] = ended.outcome
        for job_id in (*change.touched, *change.started):
            if job_id in state.jobs:
                self.jobs[job_id] = copied(state.jobs[job_id])
                self.outcomes.pop(job_id, None)
        for job_id in change.removed:
            self.outcomes.pop(job_id, None)
            self.launches.pop(job_id, None)
        # Like a store on disk, it takes over only what is said to have changed.
        if change.gpus:
            self._gpus = [replace(gpu, held_by={}, reading=None) for gpu in state.gpus.values()]
        for name in sorted(change.groups):
            self._groups[name] = replace(state.groups[name])
        for kind in change.profiles:
            if kind in state.profiles:
                self._profiles[kind] = state.profiles[kind]
            else:
                self._profiles.pop(kind, None)
        order = state.order
        for kind, gpus in change.run_times:
            self._run_times[kind, gpus] = order.run_times.of(kind, gpus)
        for name in change.usage:
            self._usage[name] = order.usage[name]
        self._arrivals += change.arrivals
        if change.policy:
            self._policy = order.policy
        if change.settings:
            self._paused, self._cpus = state.paused, state.cpus
            self._at_cluster_most = state.at_cluster_most
        if change.standbys:
            self._standbys = state.takeovers.standbys
        self._next_job_id = state.next_job_id

    def make_room(self) -> bool:
        """See ports.Store: there is always room."""
        return False

    def launch(self, job_id: int) -> Launch:
        """See ports.Store."""
        if job_id not in self.launches:
            raise BrokenRecord(f"job {job_id} is not in the store")
        return self.launches[job_id]


def _in_cohorts(jobs: list[Job]) -> tuple[list[Job], list[Cohort]]:
    """The unusual jobs, and those in cohorts to which nothing has ever happened."""
    others = []
    alike: dict[tuple[Need, Terms, int, str | None], list[int]] = {}
    for job in jobs:
        shared = (job.need, job.terms, job.priority, job.group)
        if job == Job(job.id, *shared):
            alike.setdefault(shared, []).append(job.id)
        else:
            others.append(job)
    return others, [Cohort(*shared, ids) for shared, ids in alike.items()]
