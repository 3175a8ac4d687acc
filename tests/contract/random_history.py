"""Random but legal histories of a state: hypothesis draws numbers, this makes events of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from stoker.api.messages import JobOwn
from stoker.core import events as ev
from stoker.core.change import Change
from stoker.core.check import check
from stoker.core.model import (
    QUEUED,
    Cause,
    Exit,
    Job,
    JobState,
    Launch,
    Need,
    Requirement,
    Terms,
    Warning,
)
from stoker.core.plan import Scan
from stoker.core.state import State

NEEDS = (
    Need(),
    Need(0, cpus=1),
    Need(2),
    Need(1, share_milli=500),
    Need(1, mem_mib=8192),
    Need(1, on=("0",)),
    Need(1, exclusive=True, prefer=("2", "1")),
    Need(1, mem_mib=1000, max_per_gpu=2),
)
TERMS = (
    Terms(),
    Terms(retries=2),
    Terms(time_limit_ms=5_000, grace_ms=700, signal=10, signal_before_ms=2_000),
    Terms(attached=True),
    Terms(retries=1, executor="slurm"),
)
GROUPS = (None, "sweep", "Größe, \U0001f525")
OWN = (
    JobOwn(),
    JobOwn(argv=("train", "--lr", '"0.1"'), name="one of many"),
    JobOwn(shell="echo 'Größe' \\\n| cat", point="p:1", params={"lr": 0.1, "text": "\u2028"}),
    JobOwn(out="/tmp/its own", params={}),
    JobOwn(argv=("true",), err="/dev/null", point="p:2"),
)


@dataclass
class History:
    """A state to which numbers become events; what changed since the last take is in `change`."""

    state: State = field(default_factory=lambda: State(now_ms=1_700_000_000_000))
    retriable: dict[int, Job] = field(default_factory=dict)
    used_ids: set[int] = field(default_factory=set)

    def step(self, numbers: Sequence[int]) -> Change:
        """Let something happen; what is to be committed."""
        which, a, b = numbers
        self._OPERATIONS[which % len(self._OPERATIONS)](self, a, b)
        for due in self.state.take_due():
            self.state.apply(due)
        while skips := self.state.take_doomed():
            for skip in skips:
                self.state.apply(skip)
        check(self.state)
        change = self.state.take_change()
        for ended in change.ended:
            if ended.job_is_final:
                self.retriable[ended.job.id] = ended.job
        return change

    # ------------------------------------------------------------------ what may happen

    def _submit(self, a: int, b: int) -> None:
        state = self.state
        job_id = state.next_job_id + (a % 7 == 3)
        assert job_id not in self.used_ids, f"the id {job_id} was given before"
        self.used_ids.add(job_id)
        others = list(state.jobs)
        requires: tuple[Requirement, ...] = ()
        if others and a % 3 == 0:
            requires = (Requirement(others[b % len(others)], must_succeed=bool(a % 2)),)
        elif others and a % 3 == 1:
            first = others[b % len(others)]
            requires = (Requirement(first, must_succeed=False, last_id=max(first, max(others))),)
        state.apply(
            ev.JobSubmitted(
                state.now_ms,
                job_id,
                NEEDS[a % len(NEEDS)],
                TERMS[b % len(TERMS)],
                priority=a % 5 - 2,
                group=GROUPS[b % len(GROUPS)],
                not_before_ms=state.now_ms + b * 100 if b % 4 == 0 else None,
                requires=requires,
                held=b % 5 == 0,
                launch=Launch(
                    ("echo", str(a)),
                    env={"A": str(b % 3)},
                    name=f"job {a}",
                    cluster_options=("--partition=long",) if a % 4 == 0 else (),
                ),
            )
        )
        if a % 2:
            state.apply(ev.SubmissionTaken(state.now_ms, f"token {job_id}", (job_id,)))

    def _submit_many(self, a: int, b: int) -> None:
        state = self.state
        count = 2 + a % 3
        ids = range(state.next_job_id, state.next_job_id + count)
        assert not self.used_ids.intersection(ids), f"ids of {ids} were given before"
        self.used_ids.update(ids)
        state.apply(
            ev.JobsSubmitted(
                state.now_ms,
                ids[0],
                NEEDS[a % len(NEEDS)],
                TERMS[b % len(TERMS)],
                GROUPS[b % len(GROUPS)],
                [(a + b * place) % 5 - 2 for place in range(count)],
                Launch(("echo", str(a)), env={"A": str(b % 3)}),
                [OWN[(a + b + place) % len(OWN)] for place in range(count)],
                [f"kind {place % 2}" for place in range(count)],
            )
        )

    def _one(self, a: int, fits: Callable[[Job], bool]) -> Job | None:
        found = [job for job in self.state.jobs.values() if fits(job)]
        return found[a % len(found)] if found else None

    def _hold(self, a: int, b: int) -> None:
        job = self._one(a, lambda job: job.state is JobState.WAITING)
        if job is not None:
            self.state.apply(ev.JobHeld(self.state.now_ms, job.id))

    def _release(self, a: int, b: int) -> None:
        job = self._one(a, lambda job: job.state is JobState.HELD)
        if job is not None:
            self.state.apply(ev.JobReleased(self.state.now_ms, job.id))

    def _edit(self, a: int, b: int) -> None:
        job = self._one(a, lambda job: job.state in QUEUED)
        if job is not None:
            need, group = NEEDS[b % len(NEEDS)], GROUPS[a % len(GROUPS)]
            launch = Launch(("edited", str(b)), cwd="/tmp", name=None)
            moment = self.state.now_ms + 50 if a % 2 else None
            terms = TERMS[a % len(TERMS)]
            self.state.apply(
                ev.JobEdited(self.state.now_ms, job.id, need, terms, b, group, moment, launch)
            )

    def _cancel(self, a: int, b: int) -> None:
        job = self._one(a, lambda job: True)
        if job is None:
            return
        if job.active is None:
            self.state.apply(ev.JobCancelled(self.state.now_ms, job.id))
        else:
            number = job.active.number
            cause = Cause.STOPPED_EARLY if job.id % 2 else Cause.CANCELLED
            why = "at step 9: loss 0.81 (asha)" if job.id % 2 else ""
            event = ev.StopRequested(self.state.now_ms, job.id, number, cause, why)
            self.state.apply(event)

    def _plan(self, a: int, b: int) -> None:
        Scan(self.state).carry_out(self.state.apply)

    def _start(self, a: int, b: int) -> None:
        job = self._one(a, lambda job: job.id in self.state.to_start)
        if job is not None:
            pid = None if b % 3 == 0 else b + 2
            self.state.apply(ev.AttemptStarted(self.state.now_ms, job.id, job.attempt, pid))

    def _cluster(self, a: int, b: int) -> None:
        job = self._one(a, lambda job: job.state is JobState.SUBMITTED)
        if job is None:
            self.state.apply(ev.ClusterLimited(self.state.now_ms, a % 5))
            return
        now, key = self.state.now_ms, (job.id, job.attempt)
        happenings: tuple[ev.Event, ...] = (
            ev.AttemptAccepted(now, *key, f"{b}_{a}"),
            ev.AttemptStarted(now, *key, None, f"{b}_{a} n1"),
            ev.AttemptEvicted(now, *key, Cause.REQUEUED, "the cluster lost it"),
            ev.AttemptCutShort(now, *key, Cause.CANCELLED, None, "by scancel"),
            ev.AttemptNotStarted(now, *key, "no such partition"),
        )
        self.state.apply(happenings[b % len(happenings)])

    def _end(self, a: int, b: int) -> None:
        job = self._one(a, lambda job: job.state in (JobState.RUNNING, JobState.STOPPING))
        if job is None:
            return
        now, key = self.state.now_ms, (job.id, job.attempt)
        endings: tuple[ev.Event, ...] = (
            ev.AttemptExited(now, *key, Exit(code=0)),
            ev.AttemptExited(now, *key, Exit(code=b % 256)),
            ev.AttemptExited(now, *key, Exit(signal=9)),
            ev.AttemptVanished(now, *key, "a power cut"),
            ev.AttemptNotStarted(now, *key, "no such command"),
            ev.AttemptPutBack(now, *key, "no more processes", False, bool(a % 2)),
            ev.AttemptPutBack(now, *key, "no space left", True, bool(a % 2)),
            ev.AttemptNotStarted(now, *key, "gone", Cause.TERMINAL_GONE),
        )
        self.state.apply(endings[b % len(endings)])

    def _warned(self, a: int, b: int) -> None:
        job = self._one(a, lambda job: job.active is not None and job.active.warning is Warning.DUE)
        if job is not None:
            self.state.apply(ev.WarningSent(self.state.now_ms, job.id, job.attempt))

    def _retry(self, a: int, b: int) -> None:
        if not self.retriable:
            return
        job = self.retriable.pop(sorted(self.retriable)[a % len(self.retriable)])
        self.state.apply(
            ev.JobRetried(
                self.state.now_ms,
                job.id,
                job.need,
                job.terms,
                job.priority,
                job.group,
                (),
                job.attempt,
                job.resumes,
            )
        )

    def _remove(self, a: int, b: int) -> None:
        ids = sorted(self.retriable)[: a % 3]
        for job_id in ids:
            del self.retriable[job_id]
        self.state.apply(ev.JobsRemoved(self.state.now_ms, tuple(ids)))

    def _remove_all(self, a: int, b: int) -> None:
        ids = tuple(sorted(self.retriable))
        self.retriable.clear()
        self.state.apply(ev.JobsRemoved(self.state.now_ms, ids))

    def _queue(self, a: int, b: int) -> None:
        group = GROUPS[a % len(GROUPS)]
        event = ev.QueuePaused if b % 2 else ev.QueueResumed
        self.state.apply(event(self.state.now_ms, group))

    def _limit(self, a: int, b: int) -> None:
        group = GROUPS[1 + a % 2]
        assert group is not None
        most = None if b % 3 == 0 else b % 3
        self.state.apply(ev.GroupLimited(self.state.now_ms, group, most))

    def _gpu(self, a: int, b: int) -> None:
        now, gpu = self.state.now_ms, str(a % 4)
        if b % 4 == 0 or gpu not in self.state.gpus:
            memory = (None, 24576, 16384)[b % 3]
            in_use = gpu in self.state.gpus and self.state.gpus[gpu].held_by
            if not in_use:
                self.state.apply(ev.GpuAdded(now, gpu, memory, declared=bool(a % 2)))
        else:
            kinds = (ev.GpuRemoved, ev.GpuDrained, ev.GpuResumed)
            self.state.apply(kinds[b % 3](now, gpu))

    def _count_cpus(self, a: int, b: int) -> None:
        self.state.apply(ev.CpusCounted(self.state.now_ms, a % 9))

    def _time(self, a: int, b: int) -> None:
        self.state.apply(ev.TimePassed(self.state.now_ms + a * 100))

    def _clock(self, a: int, b: int) -> None:
        by_ms = (a - 50) * 3_600_000
        self.state.apply(ev.ClockShifted(self.state.now_ms + by_ms, by_ms))

    _OPERATIONS = (
        _submit, _submit, _submit, _plan, _plan, _start, _start, _end, _end, _time, _gpu, _gpu,
        _hold, _release, _edit, _cancel, _warned, _retry, _remove, _remove_all, _queue, _limit,
        _count_cpus, _clock, _cluster, _cluster, _submit_many,
    )  # fmt: skip


HISTORIES = st.lists(
    st.tuples(st.integers(0, 26), st.integers(0, 99), st.integers(0, 99)), max_size=60
)
