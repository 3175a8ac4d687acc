"""The jobs that are not final, by their ids.

In a long queue, most jobs are not looked at for a long time. Until then a job is kept as a mere
reference to its cohort. Ids are given one after the other, so these references stand in blocks,
each at the place that its id says: that takes a small part of the memory of an entry in a dict.
What asks for a job is given a `Job`, from then on always the same, so nothing else knows of this.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress
from typing import Any, TypeVar, overload

from stoker.core.laws import must_agree
from stoker.core.model import Job, JobState, Need, Rank, Terms
from stoker.core.ready import Cohort

T = TypeVar("T")

PlaceOf = Callable[[Rank, Need, Terms, str | None], Rank]
"""The place in line of a job, by its rank and what it is: see core.order."""

_BITS = 12  # of an id that say its place in a block; the others say which block
_SIZE = 1 << _BITS
_PLACE = _SIZE - 1


@dataclass(slots=True)
class _Block:
    """The jobs of some ids that were not asked for yet: the cohort of each, None for all others.

    Where none is left it is dropped, so that the past costs nothing.
    """

    cohorts: list[Cohort | None] = field(default_factory=lambda: [None] * _SIZE)
    count: int = 0


class Jobs(MutableMapping[int, Job]):
    """See the module."""

    __slots__ = ("_blocks", "_cohorts", "_seen", "_unseen")

    def __init__(self) -> None:
        self._seen: dict[int, Job] = {}
        self._unseen = 0
        self._blocks: dict[int, _Block] = {}
        self._cohorts: dict[Cohort, None] = {}  # those of which one is unseen

    def let_in(self, jobs: Sequence[Job], cohorts: Sequence[Cohort]) -> None:
        """Begin with these."""
        must_agree(not self, "this is for those that were there before all others")
        for cohort in cohorts:
            self.add_cohort(cohort)
        self._seen = {job.id: job for job in jobs}
        once = len(self._seen) == len(jobs) and not any(map(self._cohort_of, self._seen))
        blocks = self._blocks.values()
        once = once and all(block.cohorts.count(None) + block.count == _SIZE for block in blocks)
        must_agree(once, "a job is there twice")

    def add_cohort(self, cohort: Cohort) -> None:
        """Take in all of a cohort, block by block: there may be a million of them."""
        ids, at = cohort.ids, 0
        while at < len(ids):
            key = ids[at] >> _BITS
            block, start = self._block(key), key << _BITS
            end = bisect_left(ids, start + _SIZE, at)
            first, last = ids[at] - start, ids[end - 1] - start
            if last - first == end - at - 1:
                block.cohorts[first : last + 1] = [cohort] * (end - at)
            else:
                of_block = block.cohorts
                for job_id in ids[at:end]:
                    of_block[job_id - start] = cohort
            block.count += end - at
            at = end
        self._unseen += len(ids)
        cohort.unseen = len(ids)
        self._cohorts[cohort] = None

    def add_to(self, cohort: Cohort, job_id: int) -> None:
        """Take in the one that has just joined a cohort."""
        block = self._block(job_id >> _BITS)
        block.cohorts[job_id & _PLACE] = cohort
        block.count += 1
        self._unseen += 1
        if not cohort.unseen:
            self._cohorts[cohort] = None
        cohort.unseen += 1

    def _block(self, key: int) -> _Block:
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = _Block()
        return block

    def _cohort_of(self, job_id: int) -> Cohort | None:
        """The cohort of one that was not asked for yet."""
        block = self._blocks.get(job_id >> _BITS)
        return None if block is None else block.cohorts[job_id & _PLACE]

    def _leave(self, cohort: Cohort, job_id: int) -> None:
        """One of a cohort is from now on kept as itself, or not at all."""
        key = job_id >> _BITS
        block = self._blocks[key]
        block.cohorts[job_id & _PLACE] = None
        block.count -= 1
        if not block.count:
            del self._blocks[key]
        self._unseen -= 1
        cohort.unseen -= 1
        if not cohort.unseen:
            del self._cohorts[cohort]

    def __getitem__(self, job_id: int) -> Job:
        job = self._seen.get(job_id)
        if job is not None:
            return job
        cohort = self._cohort_of(job_id)
        if cohort is None:
            raise KeyError(job_id)
        return self._first_seen(cohort, job_id)

    @overload
    def get(self, key: int, /) -> Job | None: ...

    @overload
    def get(self, key: int, default: Job, /) -> Job: ...

    @overload
    def get(self, key: int, default: T, /) -> Job | T: ...

    def get(self, key: int, default: Any = None, /) -> Any:
        """The job, if it is not final."""
        job = self._seen.get(key)
        if job is not None:
            return job
        cohort = self._cohort_of(key)
        return default if cohort is None else self._first_seen(cohort, key)

    def _first_seen(self, cohort: Cohort, job_id: int) -> Job:
        job = Job(job_id, cohort.need, cohort.terms, cohort.priority, cohort.group)
        job.in_class = cohort.in_class
        self._leave(cohort, job_id)
        self._seen[job_id] = job
        return job

    def seen(self) -> list[Job]:
        """Those that are kept as themselves: of the others, all only wait for room."""
        return [self._seen[job_id] for job_id in sorted(self._seen)]

    def _unseen_of(self, cohort: Cohort, before_id: int) -> list[int]:
        ids = cohort.ids[: bisect_left(cohort.ids, before_id)]
        return [job_id for job_id in ids if self._cohort_of(job_id) is cohort]

    def unseen_cohorts(self) -> Iterator[Cohort]:
        """The cohorts of which one was not asked for yet, with just these among their ids."""
        for cohort in self._cohorts:
            cohort.ids = array("q", self._unseen_of(cohort, cohort.ids[-1] + 1))
            cohort.place = 0
            yield cohort

    def needs(self) -> Iterator[Need]:
        """What they need; jobs of which none was looked at say it once for all of them."""
        yield from (job.need for job in self._seen.values())
        yield from (cohort.need for cohort in self._cohorts)

    def attached(self) -> list[Job]:
        """Those that run in the terminals of their users."""
        ids = [job_id for job_id, job in self._seen.items() if job.terms.attached]
        for cohort in self._cohorts:
            if cohort.terms.attached:
                ids += self._unseen_of(cohort, cohort.ids[-1] + 1)
        return [self[job_id] for job_id in sorted(ids)]

    def ahead_of(self, jobs: Iterable[Job], place: PlaceOf) -> dict[int, int]:
        """How many waiting jobs come before each of these; its place in the line is one more."""
        asked = sorted((_place(job, place), job.id) for job in jobs)
        places = [one for one, _ in asked]
        # How many come before each of them, and not before the one ahead of it.
        steps = [0] * (len(places) + 1)
        for other in self._seen.values():
            if other.state is JobState.WAITING:
                steps[bisect_right(places, _place(other, place))] += 1
        for cohort in self._cohorts:
            self._count_ahead(cohort, places, place, steps)
        counts = accumulate(steps)
        return {job_id: ahead for (_, job_id), ahead in zip(asked, counts, strict=False)}

    def _count_ahead(
        self, cohort: Cohort, places: list[Rank], place: PlaceOf, steps: list[int]
    ) -> None:
        """Of one cohort, in which the places follow the ids."""

        def place_of(job_id: int) -> Rank:
            rank = (cohort.precedence, job_id)
            return place(rank, cohort.need, cohort.terms, cohort.group)

        last = bisect_left(cohort.ids, places[-1], key=place_of) if places else 0
        unseen = self._unseen_of(cohort, cohort.ids[last - 1] + 1) if last else []
        if len(unseen) > len(places):
            bounds = [bisect_left(unseen, one, key=place_of) for one in places]
            for at, (before, bound) in enumerate(zip([0, *bounds], bounds, strict=False)):
                steps[at] += bound - before
        else:
            for job_id in unseen:
                steps[bisect_right(places, place_of(job_id))] += 1
        steps[-1] += cohort.unseen - len(unseen)

    def __setitem__(self, job_id: int, job: Job) -> None:
        cohort = self._cohort_of(job_id)
        if cohort is not None:
            self._leave(cohort, job_id)
        self._seen[job_id] = job

    def __delitem__(self, job_id: int) -> None:
        if job_id in self._seen:
            del self._seen[job_id]
            return
        cohort = self._cohort_of(job_id)
        if cohort is None:
            raise KeyError(job_id)
        self._leave(cohort, job_id)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._seen or (
            isinstance(job_id, int) and self._cohort_of(job_id) is not None
        )

    def __iter__(self) -> Iterator[int]:
        ids = list(self._seen)
        for key in sorted(self._blocks):
            start = key << _BITS
            ids += compress(range(start, start + _SIZE), self._blocks[key].cohorts)
        ids.sort()
        return iter(ids)

    def __len__(self) -> int:
        return len(self._seen) + self._unseen

    def clear(self) -> None:
        """Forget them all."""
        self._seen.clear()
        self._blocks.clear()
        self._cohorts.clear()
        self._unseen = 0


def _place(job: Job, place: PlaceOf) -> Rank:
    return place(job.rank, job.need, job.terms, job.group)
