"""Who is next: the jobs that could start now, indexed so that planning never looks at all of them.

Jobs with the same need, group, executor and about the same longest time form a class: if its first
job can't start, none of it can. So planning costs what the number of classes costs, however many
jobs wait in each. Longest times are told apart in steps of at most a quarter: were each a class of
its own, a thousand jobs with limits of their own would be a thousand classes.
Classes of jobs that name GPUs stand in a line of their own, one for each set of GPUs, so that those
of one line hide none of another; so do jobs that the policy tells apart, see core.order.
A class that can't start whatever else ends (its group is paused or full, no GPUs are enough) is
parked until that has changed, so that it costs nothing and hides none behind it.
Heaps are pruned lazily: an entry is only a hint, `Job` says whether it still holds.

Planning takes classes out of their lines and puts them back. A question must change nothing, so it
goes through `in_line` and `jobs_of`, which go down the heaps from their tops and leave them alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeVar

from stoker.core.model import Job, Need, Rank, Terms, precedence
from stoker.core.order import Order, Policy

K = TypeVar("K", bound=Hashable)
ClassKey = tuple[Need, str | None, int | None, int | None, str, str]

_MOST_WHO_JOIN = 10_000  # one by one, in a cohort
# Sets of named GPUs, and what the policy tells apart, beyond these share the first line.
_MOST_LINES = 256
_STEPS_OF_AN_OCTAVE = 4  # of longest times


def longest_step_ms(longest_ms: int | None) -> int | None:
    """The longest time of the class, for a job with this one: rounded up, by a quarter at most."""
    if longest_ms is None or longest_ms <= _STEPS_OF_AN_OCTAVE:
        return longest_ms
    step = 1 << max(0, (longest_ms - 1).bit_length() - _STEPS_OF_AN_OCTAVE.bit_length())
    return -(-longest_ms // step) * step


@dataclass(slots=True, eq=False)
class Cohort:
    """Jobs that wait and to which nothing has ever happened, and all that they have in common.

    Those that have left it since are still among its `ids`.
    """

    need: Need
    terms: Terms
    priority: int
    group: str | None
    ids: Sequence[int]  # in order, and at least one
    place: int = 0  # among them, of the first that has not left the heap of its class
    in_class: JobClass | None = None
    unseen: int = 0  # how many of them were not asked for yet: see core.jobs

    @property
    def precedence(self) -> int:
        """What their ranks begin with."""
        return precedence(self.priority, self.terms)


def by_priority(ids: Sequence[int], priorities: Sequence[K]) -> dict[K, Sequence[int]]:
    """Which of these jobs have which priority (or more that tells them apart), in order."""
    if len(set(priorities)) == 1:
        return {priorities[0]: ids}
    found: dict[K, list[int]] = {}
    for job_id, priority in zip(ids, priorities, strict=True):
        found.setdefault(priority, []).append(job_id)
    # In an array an id takes 8 bytes, in a list five times that.
    return {priority: array("q", some) for priority, some in found.items()}


@dataclass(slots=True, eq=False)
class Line:
    """Classes one behind the other, by the ranks of their heads."""

    on: tuple[str, ...] = ()  # the GPUs that all of its jobs name; none: it has all other jobs
    apart: str = ""  # what the policy tells its jobs by: see core.order
    heap: list[tuple[Rank, int, JobClass]] = field(default_factory=list)
    classes: int = 0  # that belong to it, whether they stand in it now or not


@dataclass(slots=True, eq=False)
class JobClass:
    """Jobs that planning can't tell apart but for their rank.

    Of a cohort only one stands in the heap, the first that has not left it. By the id of that one
    `cohorts` has the cohort: when it leaves the heap, the next takes its place.
    """

    need: Need
    group: str | None
    longest_ms: int | None  # of all of them, rounded up: see `longest_step_ms`
    floor_mib: int | None
    executor: str
    run_kind: str  # empty unless the policy tells them apart by it
    number: int  # breaks ties in heaps, so that classes are never compared
    line: Line
    heap: list[Rank] = field(default_factory=list)
    cohorts: dict[int, Cohort] = field(default_factory=dict)
    growing: dict[tuple[int, Terms], Cohort] = field(default_factory=dict)  # see `add_new`
    first: Job | None = None  # the head that was found last
    count: int = 0  # of the jobs in it; each of them knows that it is
    in_line_as: Rank | None = None  # the rank with which it stands in its line
    parked: bool = False  # it stands in no line until what it waits for has changed
    terms: Terms | None = None  # of the job that came last; those of others may differ


class ReadyQueue:
    """All jobs that are only waiting for room, first things first."""

    def __init__(self, find: Callable[[int], Job | None], order: Order) -> None:
        self._find = find
        self._order = order
        self._classes: dict[ClassKey, JobClass] = {}
        self._made = 0
        self._last: JobClass | None = None  # that of the job that came last
        self._gpu_lines: dict[tuple[tuple[str, ...], str], Line] = {((), ""): Line()}
        self._cpu_line = Line()
        self._cluster_line = Line()
        self._parked: dict[str | None, list[JobClass]] = {}
        self.count = 0
        self.urgent = 0  # so many of them are
        self.learning = 0  # classes whose memory is left to what is learned of their kind

    def add(self, job: Job) -> None:
        """Put a job in line."""
        if job.in_class is not None:
            return
        cls = self._class_with(job.need, job.terms, job.group, job.floor_mib)
        job.in_class = cls
        cls.count += 1
        self.count += 1
        self.urgent += job.terms.urgent
        rank = job.rank
        heappush(cls.heap, rank)
        if not cls.parked and (cls.in_line_as is None or rank < cls.in_line_as):
            self._line_up(cls, rank)

    def add_cohort(self, cohort: Cohort) -> None:
        """Put jobs in line that never stood in one."""
        self._add_cohort(cohort, self._class_with(cohort.need, cohort.terms, cohort.group, None))

    def add_new(
        self, job_id: int, need: Need, terms: Terms, priority: int, group: str | None
    ) -> Cohort:
        """Put a job in line that is newer than all others, and was never asked for.

        It joins those who came before it and are like it, however many others came in between.
        """
        cls = self._class_with(need, terms, group, None)
        cohort = cls.growing.get((priority, terms))
        if cohort is None or len(cohort.ids) == _MOST_WHO_JOIN:
            # The ids of a cohort stay until the last of it has left, so it does not grow for ever.
            cohort = Cohort(need, terms, priority, group, array("q", (job_id,)))
            cls.growing[priority, terms] = cohort
            self._add_cohort(cohort, cls)
        else:
            assert isinstance(cohort.ids, array)
            cohort.ids.append(job_id)
            cls.count += 1
            self.count += 1
            self.urgent += terms.urgent
        return cohort

    def _add_cohort(self, cohort: Cohort, cls: JobClass) -> None:
        cohort.in_class = cls
        cls.count += len(cohort.ids)
        self.count += len(cohort.ids)
        if cohort.terms.urgent:
            self.urgent += len(cohort.ids)
        _put_in_heap(cls, cohort)
        first = (cohort.precedence, cohort.ids[0])
        if not cls.parked and (cls.in_line_as is None or first < cls.in_line_as):
            self._line_up(cls, first)

    def _class_with(
        self, need: Need, terms: Terms, group: str | None, floor_mib: int | None
    ) -> JobClass:
        # Jobs that come together are mostly alike, and share what they have in common.
        last = self._last
        if (
            last is not None
            and last.count
            and last.need is need
            and last.group == group
            and last.terms is terms
            and last.floor_mib == floor_mib
        ):
            return last
        kind = terms.run_kind if self._order.policy is Policy.SHORTEST and need.gpus else ""
        key = (need, group, longest_step_ms(terms.longest_ms), floor_mib, terms.executor, kind)
        cls = self._classes.get(key)
        if cls is None:
            self._made += 1
            line = self._line_for(need, terms, group)
            line.classes += 1
            self.learning += need.learns
            cls = self._classes[key] = JobClass(*key, number=self._made, line=line)
        # Equal to what it had, and known again as the same object by the next of its submission.
        cls.need, cls.terms = need, terms
        self._last = cls
        return cls

    def discard(self, job: Job) -> None:
        """Take a job out of line, if it stands there. Call it before its need or rank changes."""
        cls = job.in_class
        if cls is None:
            return
        job.in_class = None
        cls.count -= 1
        self.count -= 1
        self.urgent -= job.terms.urgent
        if not cls.count:
            # The class is dropped, so that needs which no job has any more cost nothing; its
            # entry in the line is seen to be stale by its missing heap.
            key = (cls.need, cls.group, cls.longest_ms, cls.floor_mib, cls.executor, cls.run_kind)
            del self._classes[key]
            line = cls.line
            line.classes -= 1
            self.learning -= cls.need.learns
            if (line.on or line.apart) and not line.classes:
                del self._gpu_lines[line.on, line.apart]
            cls.heap.clear()
            cls.cohorts.clear()
            cls.growing.clear()
            cls.first = None

    def has(self, job: Job) -> bool:
        """True if the job stands in line."""
        return job.in_class is not None

    def head(self, cls: JobClass) -> Job | None:
        """The first job of a class."""
        while cls.heap:
            rank = cls.heap[0]
            job_id = rank[-1]
            job = cls.first
            if job is None or job.id != job_id or job.in_class is not cls:
                job = cls.first = self._find(job_id)
            if job is not None and job.in_class is cls and _stands_as(job, rank):
                return job
            heappop(cls.heap)
            if job_id in cls.cohorts and len(rank) == 2:
                _next_of_cohort(cls, cls.cohorts.pop(job_id))
        return None

    def key(self, cls: JobClass, rank: Rank) -> Rank:
        """The place in line, by the policy, of a job of this class that has this rank."""
        assert cls.terms is not None
        return self._order.place(rank, cls.need, cls.terms, cls.group)

    def key_of(self, job: Job) -> Rank:
        """The same of a job that stands in line."""
        assert job.in_class is not None
        return self.key(job.in_class, job.rank)

    def apart(self) -> set[str]:
        """What the policy tells apart among the GPU jobs that are in line."""
        return {line.apart for line in self._gpu_lines.values() if line.classes}

    def first_in(self, line: Line) -> tuple[Rank, JobClass] | None:
        """Where the first class of a line stands, or one that has left it: not after any other."""
        return None if not line.heap else (line.heap[0][0], line.heap[0][2])

    def gpu_lines(self) -> Collection[Line]:
        """The lines of GPU jobs, by the GPUs that they name and what the policy tells apart."""
        return self._gpu_lines.values()

    @property
    def cpu_line(self) -> Line:
        """The line of jobs without GPUs."""
        return self._cpu_line

    def pop_cluster_class(self) -> JobClass | None:
        """The first class of jobs that are a cluster's."""
        return self.pop_class(self._cluster_line)

    def pop_class(self, line: Line) -> JobClass | None:
        """Take the class whose head is first out of its line; give it back with `put_back`."""
        heap = line.heap
        while heap:
            rank, _, cls = heappop(heap)
            if cls.in_line_as != rank:
                continue
            cls.in_line_as = None
            head = self.head(cls)
            if head is None:
                continue
            if head.rank != rank:
                self._line_up(cls, head.rank)
                continue
            return cls
        return None

    def in_line(self, line: Line) -> Iterator[Job]:
        """The heads of the classes that stand in a line, first things first."""
        heap = line.heap
        tops = [(heap[0], 0)] if heap else []
        while tops:
            (rank, number, cls), at = heappop(tops)
            if at >= 0:
                for below in (2 * at + 1, 2 * at + 2):
                    if below < len(heap):
                        heappush(tops, (heap[below], below))
                if cls.in_line_as != rank:
                    continue
            head = next((job for _, job in self.jobs_of(cls) if job is not None), None)
            if head is not None and head.rank != rank:
                heappush(tops, ((head.rank, number, cls), -1))  # Its first ones have left.
            elif head is not None:
                yield head

    def jobs_of(self, cls: JobClass) -> Iterator[tuple[Rank, Job | None]]:
        """The entries of a class, first things first, each with its job; None if that has left.

        A job that came back may stand there twice.
        """
        heap = cls.heap
        # An entry and its place in the heap; or, where that is -1, a cohort and the place in that.
        tops: list[tuple[Rank, int, Cohort | None, int]] = [(heap[0], 0, None, 0)] if heap else []
        while tops:
            rank, at, cohort, place = heappop(tops)
            job_id = rank[-1]
            if at >= 0:
                for below in (2 * at + 1, 2 * at + 2):
                    if below < len(heap):
                        heappush(tops, (heap[below], below, None, 0))
                cohort = cls.cohorts.get(job_id) if len(rank) == 2 else None
                place = 0 if cohort is None else cohort.place
            if cohort is not None and place + 1 < len(cohort.ids):
                heappush(tops, ((rank[0], cohort.ids[place + 1]), -1, cohort, place + 1))
            job = self._find(job_id)
            there = job is not None and job.in_class is cls and _stands_as(job, rank)
            yield rank, job if there else None

    def is_still_first(self, cls: JobClass) -> bool:
        """True if a class that was taken out of its line would be the next to be taken again."""
        head, heap = self.head(cls), cls.line.heap
        return head is not None and (not heap or head.rank < heap[0][0])

    def put_back(self, cls: JobClass) -> None:
        """Let a class stand in its line again, by its present head."""
        head = self.head(cls)
        if head is not None and (cls.in_line_as is None or head.rank < cls.in_line_as):
            self._line_up(cls, head.rank)

    def park(self, cls: JobClass, group: str | None) -> None:
        """Let a class stand in no line until its group (None: what there is to run on) changes."""
        cls.parked = True
        self._parked.setdefault(group, []).append(cls)

    def unpark(self, group: str | None) -> None:
        """What these waited for has changed: they stand in line again."""
        for cls in self._parked.pop(group, ()):
            cls.parked = False
            self.put_back(cls)

    def parked(self, group: str) -> list[JobClass]:
        """The classes that wait for a place in a group."""
        return [cls for cls in self._parked.get(group, ()) if cls.count]

    def classes(self) -> list[JobClass]:
        """All classes, in no useful order."""
        return list(self._classes.values())

    def follow_policy(self, cohorts: Iterable[Cohort], others: Iterable[Job]) -> None:
        """Let all jobs stand in the lines of the policy that now holds.

        `cohorts`: of jobs that are not kept as themselves, and of no others.
        """
        self._classes.clear()
        self._gpu_lines = {((), ""): Line()}
        self._cpu_line, self._cluster_line, self._last = Line(), Line(), None
        self._parked.clear()
        self.count = self.urgent = 0
        for cohort in cohorts:
            self.add_cohort(cohort)
        for job in others:
            if job.in_class is not None:
                job.in_class = None
                self.add(job)

    def _line_up(self, cls: JobClass, rank: Rank) -> None:
        cls.in_line_as = rank
        heappush(cls.line.heap, (rank, cls.number, cls))

    def _line_for(self, need: Need, terms: Terms, group: str | None) -> Line:
        if terms.executor:
            return self._cluster_line
        if not need.gpus:
            return self._cpu_line
        key = (tuple(sorted(set(need.on))), self._order.apart(need, terms, group))
        line = self._gpu_lines.get(key)
        if line is None:
            if len(self._gpu_lines) > _MOST_LINES:
                return self._gpu_lines[(), ""]
            line = self._gpu_lines[key] = Line(*key)
        return line


def _stands_as(job: Job, rank: Rank) -> bool:
    """Whether an entry still holds; most jobs were never put back, and need no comparison more."""
    if job.place is None and not job.goes_first:
        return len(rank) == 2 and precedence(job.priority, job.terms) == rank[0]
    return job.rank == rank


def _put_in_heap(cls: JobClass, cohort: Cohort) -> None:
    job_id = cohort.ids[cohort.place]
    heappush(cls.heap, (cohort.precedence, job_id))
    cls.cohorts[job_id] = cohort


def _next_of_cohort(cls: JobClass, cohort: Cohort) -> None:
    cohort.place += 1
    if cohort.place < len(cohort.ids):
        _put_in_heap(cls, cohort)
    elif cls.growing.get((cohort.priority, cohort.terms)) is cohort:
        del cls.growing[cohort.priority, cohort.terms]
