"""Which jobs wait for which others: one by one, or behind a barrier for a whole range.

Some wait for processes that are not ours, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stoker.core import events as ev
from stoker.core.barriers import Barriers
from stoker.core.jobs import Jobs
from stoker.core.model import SUCCEEDED, Cause, Job, JobState, Requirement


class Dependencies:
    """Built from what the jobs that are not final still require; in no store."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._dependents: dict[int, list[int]] = {}
        self.barriers = Barriers(jobs)
        self.processes: dict[str, dict[int, None]] = {}  # the jobs that wait for each
        # Jobs that can never start, the job that is to blame for each, and how that ended.
        self.doomed: list[tuple[int, int, JobState]] = []

    def add(self, job: Job) -> None:
        """Let a job be told when what it requires has ended."""
        for requirement in job.requires or ():
            if requirement.process is not None:
                self.processes.setdefault(requirement.process, {})[job.id] = None
            elif requirement.last_id is None:
                self._dependents.setdefault(requirement.job_id, []).append(job.id)
            else:
                self.barriers.put_behind(job.id, requirement)

    def of(self, job_id: int) -> Iterator[Job]:
        """The jobs that wait for this one by name."""
        for dependent_id in self._dependents.get(job_id, ()):
            dependent = self._jobs.get(dependent_id)
            if dependent is not None:
                yield dependent

    def skipped_without(self, job_ids: Iterable[int]) -> list[int]:
        """The jobs that are skipped if these do not succeed, and those that require them."""
        found = dict.fromkeys(job_ids)
        named = len(found)
        queue = list(found)
        while queue:
            required = queue.pop()
            ones = [job.id for job in self.of(required) if _must_succeed(job, required)]
            for requirement, barrier in self.barriers.kept_shut_by(required):
                if requirement.must_succeed:
                    ones += barrier.behind
            new = [one for one in ones if one not in found]
            found.update(dict.fromkeys(new))
            queue += new
        return sorted(list(found)[named:])

    def awaits(self, job: Job) -> bool:
        """True if the job has to stay here until another one has ended.

        Of its own jobs a cluster can be told that one is to wait for another.
        """
        return any(not self._cluster_can_await(job, r) for r in job.requires or ())

    def _cluster_can_await(self, job: Job, requirement: Requirement) -> bool:
        if requirement.last_id is not None or requirement.process is not None:
            return False  # Too many to name to a cluster, or unknown there.
        other = self._jobs.get(requirement.job_id)
        if other is None or not job.terms.executor or job.terms.executor != other.terms.executor:
            return False
        attempt = other.active
        return attempt is not None and bool(attempt.place) and attempt.stop is None

    def is_required(self, job_id: int, others: int) -> bool:
        """True if some job waits for this one, or for the last of it and at most so many others."""
        if self.barriers.may_open(job_id, others):
            return True
        # The first one that still waits is enough; there may be very many.
        return any(
            requirement.job_id == job_id and requirement.last_id is None
            for dependent in self.of(job_id)
            for requirement in dependent.requires or ()
        )

    def ended(self, job: Job, ended_as: JobState) -> list[Job]:
        """Take in that a job is final; those that require something less now, or are doomed."""
        for requirement in job.requires or ():
            if requirement.process is not None:
                self._leave_process(job.id, requirement.process)
            else:
                self.barriers.leave(job.id, requirement)
        told = []
        if job.id in self._dependents:
            told = list(self.of(job.id))
            del self._dependents[job.id]
            for dependent in told:
                self._requirement_ended(dependent, job.id, ended_as)
        for requirement, barrier in self.barriers.ended(job.id):
            if requirement.must_succeed and ended_as is not SUCCEEDED:
                self.doomed += [(behind, job.id, ended_as) for behind in barrier.behind]
                barrier.behind.clear()  # They are skipped in this very turn.
            if barrier.missing:
                continue
            for job_id in barrier.behind:
                behind = self._jobs[job_id]
                left = [r for r in behind.requires or () if r != requirement]
                behind.requires = tuple(left) or None
                told.append(behind)
        return told

    def process_ended(self, process: str) -> list[Job]:
        """Take in that a process has ended; the jobs that require something less now."""
        told = [self._jobs[job_id] for job_id in self.processes.pop(process, ())]
        for job in told:
            job.requires = tuple(r for r in job.requires or () if r.process != process) or None
        return told

    def _leave_process(self, job_id: int, process: str) -> None:
        waiting = self.processes[process]
        del waiting[job_id]
        if not waiting:
            del self.processes[process]

    def _requirement_ended(self, job: Job, required_id: int, ended_as: JobState) -> None:
        left: list[Requirement] = []
        for requirement in job.requires or ():
            if requirement.job_id != required_id or requirement.last_id is not None:
                left.append(requirement)
            elif requirement.must_succeed and ended_as is not SUCCEEDED:
                left.append(requirement)
                self.doomed.append((job.id, required_id, ended_as))
        job.requires = tuple(left) or None

    def take_doomed(self, now_ms: int) -> list[ev.Event]:
        """The jobs whose requirement can no longer come true, as events still to be applied."""
        if not self.doomed:
            return []
        doomed, self.doomed = self.doomed, []
        skips: list[ev.Event] = []
        seen: set[int] = set()
        for job_id, requirement, ended_as in doomed:
            job = self._jobs.get(job_id)
            if job is None or job_id in seen:
                continue
            seen.add(job_id)
            if job.active is None:
                skips.append(ev.JobSkipped(now_ms, job_id, requirement, ended_as))
            else:
                # A cluster has it already, and was told to let it wait for the other one.
                number = job.active.number
                skips.append(ev.StopRequested(now_ms, job_id, number, Cause.REQUIREMENT))
        return skips


def _must_succeed(job: Job, required: int) -> bool:
    return any(r.job_id == required and r.must_succeed for r in job.requires or () if not r.last_id)
