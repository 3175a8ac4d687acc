"""Who is next: priority, then submission, whatever was edited, held or taken in between."""

from __future__ import annotations

import pytest

from stoker.core import ready
from stoker.core.model import Job, Need, Terms
from stoker.core.order import Order
from stoker.core.ready import Cohort, JobClass, ReadyQueue, by_priority
from unit.core_scene import Scene, cpu_only, whole


class Line:
    """A ready queue with jobs made by hand."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.ready = ReadyQueue(self.jobs.get, Order(lambda: 0))

    def add(self, job_id: int, need: Need | None = None, priority: int = 0) -> Job:
        job = Job(job_id, Need() if need is None else need, Terms(), priority)
        self.jobs[job_id] = job
        self.ready.add(job)
        return job

    def remove(self, job_id: int) -> None:
        self.ready.discard(self.jobs.pop(job_id))

    def in_order(self, *, gpu: bool = True) -> list[int]:
        """The jobs as planning would meet them; the queue is as before afterwards."""
        met: list[Job] = []
        (gpu_line,) = self.ready.gpu_lines()
        line = gpu_line if gpu else self.ready.cpu_line
        while (cls := self.ready.pop_class(line)) is not None:
            head = self.head(cls)
            met.append(head)
            self.ready.discard(head)
            self.ready.put_back(cls)
        for job in met:
            self.ready.add(job)
        return [job.id for job in met]

    def head(self, cls: JobClass) -> Job:
        head = self.ready.head(cls)
        assert head is not None
        return head


def one_of(cohort: Cohort, job_id: int) -> Job:
    job = Job(job_id, cohort.need, cohort.terms, cohort.priority, cohort.group)
    job.in_class = cohort.in_class
    return job


class LineOfNew(Line):
    """The same with jobs that came one by one, each newer than those before it."""

    def add(self, job_id: int, need: Need | None = None, priority: int = 0) -> Job:
        need = Need() if need is None else need
        self.joined = self.ready.add_new(job_id, need, Terms(), priority, None)
        self.jobs[job_id] = one_of(self.joined, job_id)
        return self.jobs[job_id]


def test_jobs_of_one_priority_go_in_the_order_of_their_submission() -> None:
    line = Line()
    for job_id in (3, 1, 2):
        line.add(job_id)
    assert line.in_order() == [1, 2, 3]


def test_a_lower_priority_number_goes_first_whenever_it_was_submitted() -> None:
    line = Line()
    line.add(1, priority=0)
    line.add(2, priority=-1)
    line.add(3, priority=5)
    line.add(4, priority=-1)
    assert line.in_order() == [2, 4, 1, 3]


def test_jobs_that_come_together_stand_among_those_that_were_there() -> None:
    line = Line()
    line.add(1, priority=1)
    line.add(2, priority=-1)
    priorities = (1, -2, 0, -2, 1)
    for priority, ids in by_priority(range(3, 8), priorities).items():
        cohort = Cohort(Need(), Terms(), priority, None, ids)
        line.ready.add_cohort(cohort)
        for job_id in ids:
            line.jobs[job_id] = one_of(cohort, job_id)
    assert line.in_order() == [4, 6, 2, 5, 1, 3, 7]
    assert line.ready.count == 7


def test_jobs_of_different_needs_are_merged_into_one_order() -> None:
    line = Line()
    for job_id in range(1, 9):
        line.add(job_id, whole(1 + job_id % 3), priority=job_id % 2)
    assert line.in_order() == [2, 4, 6, 8, 1, 3, 5, 7]


def test_jobs_without_gpus_stand_in_a_line_of_their_own() -> None:
    line = Line()
    line.add(1, whole())
    line.add(2, cpu_only())
    assert line.in_order(gpu=True) == [1]
    assert line.in_order(gpu=False) == [2]


def test_a_job_that_was_taken_out_of_line_is_not_met() -> None:
    line = Line()
    for job_id in (1, 2, 3):
        line.add(job_id)
    line.remove(1)
    line.remove(3)
    assert line.in_order() == [2]
    assert line.ready.count == 1


def test_a_class_whose_last_job_left_costs_nothing_any_more() -> None:
    line = Line()
    line.add(1, whole(2))
    line.add(2, whole(1))
    line.remove(1)
    assert [cls.need.gpus for cls in line.ready.classes()] == [1]
    assert line.in_order() == [2]


def test_a_class_can_come_back_after_it_was_dropped() -> None:
    line = Line()
    line.add(1)
    line.remove(1)
    line.add(2)
    assert line.in_order() == [2]


def test_adding_a_job_twice_is_the_same_as_once() -> None:
    line = Line()
    job = line.add(1)
    line.ready.add(job)
    assert line.ready.count == 1
    assert line.in_order() == [1]


def test_taking_out_a_job_that_does_not_stand_in_line_does_nothing() -> None:
    line = Line()
    line.add(1)
    line.ready.discard(Job(2, Need(), Terms()))
    line.ready.discard(Job(3, whole(3), Terms()))
    assert line.ready.count == 1


def test_a_job_with_a_new_priority_moves_and_its_old_place_is_forgotten() -> None:
    line = Line()
    for job_id in (1, 2, 3):
        line.add(job_id)
    for priority in (5, 0, 7):  # Its old places are still in the heap, and must not count.
        line.ready.discard(line.jobs[1])
        line.jobs[1].priority = priority
        line.ready.add(line.jobs[1])
    assert line.in_order() == [2, 3, 1]
    line.ready.discard(line.jobs[3])
    line.jobs[3].priority = -1
    line.ready.add(line.jobs[3])
    assert line.in_order() == [3, 2, 1]


def test_a_class_moves_back_in_line_when_its_head_leaves() -> None:
    line = Line()
    line.add(1, whole(1))
    line.add(2, whole(2))
    line.add(3, whole(1))
    line.remove(1)
    assert line.in_order() == [2, 3]


def test_a_class_moves_forward_in_line_for_an_urgent_job() -> None:
    line = Line()
    line.add(1, whole(1))
    line.add(2, whole(2))
    line.add(3, whole(2), priority=-1)
    assert line.in_order() == [3, 1, 2]


def test_a_class_that_was_looked_at_and_put_back_stands_where_it_stood() -> None:
    line = Line()
    line.add(1, whole(1))
    line.add(2, whole(2))
    (gpu_line,) = line.ready.gpu_lines()
    popped = line.ready.pop_class(gpu_line)
    assert popped is not None and line.head(popped).id == 1
    line.ready.put_back(popped)
    line.ready.put_back(popped)
    assert line.in_order() == [1, 2]


def test_jobs_that_differ_in_time_limit_or_group_are_of_different_classes() -> None:
    scene = Scene(1)
    scene.running()
    for limit_s in (None, 10, 20):
        scene.submit(limit_s=limit_s)
        scene.submit(limit_s=limit_s, group="a")
        scene.submit(limit_s=limit_s, priority=4)
    assert len(scene.state.ready.classes()) == 6
    assert scene.state.ready.count == 9


def test_the_class_of_a_job_is_known_only_while_it_stands_in_line() -> None:
    scene = Scene(1)
    running = scene.running()
    waiting = scene.submit()
    cls = scene.job(waiting).in_class
    assert cls is not None and cls.need == whole()
    assert scene.job(running).in_class is None
    assert Job(9, whole(7), Terms()).in_class is None


def test_an_edited_priority_decides_who_starts() -> None:
    scene = Scene(1)
    scene.running()
    first, second = scene.submit(), scene.submit()
    scene.edit(first, priority=3)
    scene.exited(1)
    assert list(scene.plan()) == [second]


def test_a_retried_job_keeps_its_place_by_its_id() -> None:
    scene = Scene(1)
    failing = scene.submit(retries=1)
    scene.plan()
    scene.started(failing)
    later = scene.submit()
    scene.exited(failing, code=1)
    scene.pass_s(60)
    assert list(scene.plan()) == [failing]
    scene.started(failing)
    scene.exited(failing)
    assert list(scene.plan()) == [later]


def test_new_jobs_join_those_like_them_and_stand_in_line_as_if_they_had_not() -> None:
    line, apart = LineOfNew(), Line()
    cohorts = set()
    for job_id in range(1, 41):
        for each in (line, apart):
            each.add(job_id, whole(1 + job_id % 2), priority=job_id % 3)
        cohorts.add(line.joined)
    assert len(cohorts) == 6 and sum(len(cohort.ids) for cohort in cohorts) == 40
    assert line.ready.count == 40
    assert line.in_order() == apart.in_order()


def test_who_comes_after_the_last_of_a_cohort_has_left_is_met_all_the_same() -> None:
    line = LineOfNew()
    line.add(1)
    line.add(2, priority=1)
    first = line.joined
    line.remove(2)
    assert line.in_order() == [1]
    line.add(3, priority=1)
    assert line.in_order() == [1, 3]
    (cls,) = line.ready.classes()
    line.remove(1)
    line.remove(3)
    assert not (cls.heap or cls.cohorts or cls.growing), "no cohort is held by a class that is gone"
    line.add(4, priority=1)
    assert line.joined is not first, "the ids of those who are gone are not kept for ever"
    assert line.in_order() == [4] and line.ready.count == 1


def test_a_cohort_that_others_join_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_MOST_WHO_JOIN", 3)
    line = LineOfNew()
    lengths = []
    for job_id in range(1, 9):
        line.add(job_id)
        lengths.append(len(line.joined.ids))
    assert lengths == [1, 2, 3, 1, 2, 3, 1, 2]
    assert line.in_order() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_priorities_that_nobody_has_any_more_cost_nothing() -> None:
    line = LineOfNew()
    stays = line.add(1, priority=1_000)
    for job_id in range(2, 100):
        line.add(job_id, priority=job_id)
        line.remove(job_id)
    (cls,) = line.ready.classes()
    assert line.head(cls) is stays
    assert len(cls.heap) == len(cls.cohorts) == len(cls.growing) == 1
