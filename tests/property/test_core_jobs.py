"""Whatever comes, is asked for and leaves: the jobs are those that a plain dict would have."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stoker.core.jobs import Jobs
from stoker.core.model import Job, JobState, Need, Terms
from stoker.core.order import Order
from stoker.core.ready import Cohort, JobClass, Line

NEED, HERE, ATTACHED = Need(), Terms(), Terms(attached=True)
# Next to each other, with holes, and so far apart that much is empty in between.
GAPS = st.lists(st.sampled_from([1, 1, 1, 1, 2, 3, 90, 4_096, 70_000]), min_size=1, max_size=12)
PRIORITIES = st.integers(-1, 1)


class JobsAsADict(RuleBasedStateMachine):
    """Does the same to jobs and to a dict, which has each as it ought to be."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs = Jobs()
        self.model: dict[int, Job] = {}
        self.met: dict[int, Job] = {}  # the very objects that were handed out
        self.next_id = 1
        self.cls = JobClass(NEED, None, None, None, "", "", number=1, line=Line())
        self.grows: Cohort | None = None

    def new_ids(self, gaps: list[int]) -> list[int]:
        ids = []
        for gap in gaps:
            self.next_id += gap
            ids.append(self.next_id)
        return ids

    def cohort(self, ids: list[int], priority: int, attached: bool) -> Cohort:
        terms = ATTACHED if attached else HERE
        cohort = Cohort(NEED, terms, priority, None, array("q", ids), in_class=self.cls)
        for job_id in ids:
            self.model[job_id] = self.one_of(cohort, job_id)
        return cohort

    def one_of(self, cohort: Cohort, job_id: int) -> Job:
        job = Job(job_id, cohort.need, cohort.terms, cohort.priority)
        job.in_class = self.cls
        return job

    def some_id(self, data: st.DataObject) -> int:
        """Of one that is there, or (now and then) of one that is not."""
        ends = [*self.model][:5] + [*self.model][-5:]
        others = [self.next_id, self.next_id + 1, 0]
        return data.draw(
            st.one_of(st.sampled_from([*self.model, *others]), st.sampled_from([*ends, *others]))
        )

    @rule(gaps=GAPS, priority=PRIORITIES, attached=st.booleans())
    def come_together(self, gaps: list[int], priority: int, attached: bool) -> None:
        self.jobs.add_cohort(self.cohort(self.new_ids(gaps), priority, attached))

    @rule(count=st.sampled_from([1, 2, 5, 4_096, 9_000]), priority=PRIORITIES)
    def come_in_a_row(self, count: int, priority: int) -> None:
        ids = range(self.next_id + 1, self.next_id + 1 + count)
        self.next_id += count
        cohort = self.cohort(list(ids), priority, False)
        cohort.ids = ids
        self.jobs.add_cohort(cohort)

    @rule(gap=st.sampled_from([1, 2, 5_000]), anew=st.booleans())
    def join(self, gap: int, anew: bool) -> None:
        (job_id,) = self.new_ids([gap])
        if self.grows is None or anew:
            self.grows = self.cohort([job_id], 0, False)
        else:
            assert isinstance(self.grows.ids, array)
            self.grows.ids.append(job_id)
            self.model[job_id] = self.one_of(self.grows, job_id)
        self.jobs.add_to(self.grows, job_id)

    @rule(gap=st.sampled_from([1, 5_000]))
    def come_as_itself(self, gap: int) -> None:
        (job_id,) = self.new_ids([gap])
        self.jobs[job_id] = self.model[job_id] = self.met[job_id] = Job(job_id, NEED, HERE)

    @rule(data=st.data())
    def be_held(self, data: st.DataObject) -> None:
        job_id = self.some_id(data)
        if job_id in self.model:
            self.met[job_id] = self.jobs[job_id]
            self.met[job_id].state = self.model[job_id].state = JobState.HELD

    @rule(data=st.data())
    def be_put_in_the_place_of_another(self, data: st.DataObject) -> None:
        job_id = min(self.some_id(data), self.next_id)
        self.jobs[job_id] = self.model[job_id] = self.met[job_id] = Job(job_id, NEED, HERE, 7)

    @rule(data=st.data())
    def be_asked_for(self, data: st.DataObject) -> None:
        job_id = self.some_id(data)
        found = self.jobs.get(job_id)
        assert found == self.model.get(job_id)
        if found is None:
            with pytest.raises(KeyError):
                self.jobs[job_id]
            assert self.jobs.get(job_id, "nobody") == "nobody"
            return
        assert found is self.met.setdefault(job_id, found) is self.jobs[job_id]
        assert found.in_class is self.model[job_id].in_class

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        job_id = self.some_id(data)
        if job_id in self.model:
            del self.jobs[job_id], self.model[job_id]
            self.met.pop(job_id, None)
        else:
            with pytest.raises(KeyError):
                del self.jobs[job_id]

    @rule(data=st.data())
    def ask_who_is_ahead(self, data: st.DataObject) -> None:
        ids = {self.some_id(data) for _ in range(data.draw(st.integers(1, 5)))}
        jobs = [self.model[job_id] for job_id in ids if job_id in self.model]
        in_line = [o for o in self.model.values() if o.state is JobState.WAITING]
        assert self.jobs.ahead_of(jobs, Order(lambda: 0).place) == {
            job.id: sum(other.rank < job.rank for other in in_line) for job in jobs
        }

    @rule()
    def ask_for_those_in_terminals(self) -> None:
        found = self.jobs.attached()
        assert found == [self.model[i] for i in sorted(self.model) if self.model[i].terms.attached]
        self.met |= {job.id: job for job in found}

    @precondition(lambda self: len(self.model) < 100)
    @rule()
    def be_asked_for_all_at_once(self) -> None:
        self.met |= dict(self.jobs)
        assert dict(self.jobs) == self.model

    @rule()
    def be_forgotten(self) -> None:
        if len(self.model) > 20_000:
            self.jobs.clear()
            self.model.clear()
            self.met.clear()
            self.grows = None

    @rule()
    def be_let_in_anew(self) -> None:
        """As after a restart, with those that were asked for as themselves."""
        cohorts: dict[tuple[int, Terms], list[int]] = {}
        for job_id in sorted(self.model):
            if job_id not in self.met:
                job = self.model[job_id]
                cohorts.setdefault((job.priority, job.terms), []).append(job_id)
        self.jobs = Jobs()
        self.jobs.let_in(
            list(self.met.values()),
            [
                self.cohort(ids, priority, terms.attached)
                for (priority, terms), ids in cohorts.items()
            ],
        )
        self.grows = None

    @invariant()
    def they_are_the_same(self) -> None:
        assert len(self.jobs) == len(self.model) and bool(self.jobs) == bool(self.model)
        assert list(self.jobs) == sorted(self.model)
        assert self.jobs.seen() == [self.met[job_id] for job_id in sorted(self.met)]
        assert all(job_id in self.jobs for job_id in [*self.model][:50])
        assert 0 not in self.jobs or 0 in self.model
        assert self.next_id + 1 not in self.jobs

    @invariant()
    def the_past_costs_nothing(self) -> None:
        unseen = self.model.keys() - self.met.keys()
        assert self.jobs._blocks.keys() == {job_id >> 12 for job_id in unseen}
        assert sum(cohort.unseen for cohort in self.jobs._cohorts) == len(unseen)


JobsAsADict.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestJobsAsADict = JobsAsADict.TestCase
