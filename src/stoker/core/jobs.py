"""The jobs that are not final, by their ids.

Of a long queue, most jobs are looked at by nobody for a long time. Until then such a job is kept as
no more than a reference to the crowd that it is one of. Ids are given one after the other, so these
references stand in blocks, each at the place that its id says: a small part of what an entry in a
dict takes.
Who asks for a job is given a `Job`, from then on always the same, so nothing else knows of this.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, TypeVar, overload

from stoker.core.laws import must_agree
from stoker.core.model import Job
from stoker.core.order import Crowd

T = TypeVar("T")

_BITS = 12  # of an id that say its place in a block; the others say which block
_SIZE = 1 << _BITS
_PLACE = _SIZE - 1


@dataclass(slots=True)
class _Block:
    """The jobs of some ids that nobody has asked for yet: the crowd of each, None for all others.

    Where none is left it is dropped, so that the past costs nothing.
    """

    crowds: list[Crowd | None] = field(default_factory=lambda: [None] * _SIZE)
    count: int = 0


class Jobs(MutableMapping[int, Job]):
    """See the module."""

    __slots__ = ("_blocks", "_crowds", "_seen", "_unseen")

    def __init__(self) -> None:
        self._seen: dict[int, Job] = {}
        self._unseen = 0
        self._blocks: dict[int, _Block] = {}
        self._crowds: dict[Crowd, None] = {}  # those of which somebody is unseen

    def let_in(self, jobs: Sequence[Job], crowds: Sequence[Crowd]) -> None:
        """Begin with these."""
        must_agree(not self, "this is for those that were there before all others")
        for crowd in crowds:
            self.add_crowd(crowd)
        self._seen = {job.id: job for job in jobs}
        once = len(self._seen) == len(jobs) and not any(map(self._crowd_of, self._seen))
        blocks = self._blocks.values()
        once = once and all(block.crowds.count(None) + block.count == _SIZE for block in blocks)
        must_agree(once, "a job is there twice")

    def add_crowd(self, crowd: Crowd) -> None:
        """Take in all of a crowd, block by block: there may be a million of them."""
        ids, at = crowd.ids, 0
        while at < len(ids):
            key = ids[at] >> _BITS
            block, start = self._block(key), key << _BITS
            end = bisect_left(ids, start + _SIZE, at)
            first, last = ids[at] - start, ids[end - 1] - start
            if last - first == end - at - 1:
                block.crowds[first : last + 1] = [crowd] * (end - at)
            else:
                of_block = block.crowds
                for job_id in ids[at:end]:
                    of_block[job_id - start] = crowd
            block.count += end - at
            at = end
        self._unseen += len(ids)
        crowd.unseen = len(ids)
        self._crowds[crowd] = None

    def add_to(self, crowd: Crowd, job_id: int) -> None:
        """Take in the one that has just joined a crowd."""
        block = self._block(job_id >> _BITS)
        block.crowds[job_id & _PLACE] = crowd
        block.count += 1
        self._unseen += 1
        if not crowd.unseen:
            self._crowds[crowd] = None
        crowd.unseen += 1

    def _block(self, key: int) -> _Block:
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = _Block()
        return block

    def _crowd_of(self, job_id: int) -> Crowd | None:
        """The crowd of one that nobody has asked for yet."""
        block = self._blocks.get(job_id >> _BITS)
        return None if block is None else block.crowds[job_id & _PLACE]

    def _leave(self, crowd: Crowd, job_id: int) -> None:
        """One of a crowd is from now on kept as itself, or not at all."""
        key = job_id >> _BITS
        block = self._blocks[key]
        block.crowds[job_id & _PLACE] = None
        block.count -= 1
        if not block.count:
            del self._blocks[key]
        self._unseen -= 1
        crowd.unseen -= 1
        if not crowd.unseen:
            del self._crowds[crowd]

    def __getitem__(self, job_id: int) -> Job:
        job = self._seen.get(job_id)
        if job is not None:
            return job
        crowd = self._crowd_of(job_id)
        if crowd is None:
            raise KeyError(job_id)
        return self._first_seen(crowd, job_id)

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
        crowd = self._crowd_of(key)
        return default if crowd is None else self._first_seen(crowd, key)

    def _first_seen(self, crowd: Crowd, job_id: int) -> Job:
        job = Job(job_id, crowd.need, crowd.terms, crowd.priority, crowd.group)
        job.in_class = crowd.in_class
        self._leave(crowd, job_id)
        self._seen[job_id] = job
        return job

    def seen(self) -> list[Job]:
        """Those that are kept as themselves: of the others, all only wait for room."""
        return [self._seen[job_id] for job_id in sorted(self._seen)]

    def _unseen_of(self, crowd: Crowd, before_id: int) -> list[int]:
        ids = crowd.ids[: bisect_left(crowd.ids, before_id)]
        return [job_id for job_id in ids if self._crowd_of(job_id) is crowd]

    def attached(self) -> list[Job]:
        """Those that run in the terminals of their users."""
        ids = [job_id for job_id, job in self._seen.items() if job.terms.attached]
        for crowd in self._crowds:
            if crowd.terms.attached:
                ids += self._unseen_of(crowd, crowd.ids[-1] + 1)
        return [self[job_id] for job_id in sorted(ids)]

    def ahead_of(self, job: Job) -> int:
        """How many of those that only wait for room come before it."""
        order = job.order
        ahead = sum(
            other.in_class is not None and other.order < order for other in self._seen.values()
        )
        for crowd in self._crowds:
            if crowd.priority < job.priority:
                ahead += crowd.unseen
            elif crowd.priority == job.priority:
                ahead += len(self._unseen_of(crowd, job.id))
        return ahead

    def __setitem__(self, job_id: int, job: Job) -> None:
        crowd = self._crowd_of(job_id)
        if crowd is not None:
            self._leave(crowd, job_id)
        self._seen[job_id] = job

    def __delitem__(self, job_id: int) -> None:
        if job_id in self._seen:
            del self._seen[job_id]
            return
        crowd = self._crowd_of(job_id)
        if crowd is None:
            raise KeyError(job_id)
        self._leave(crowd, job_id)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._seen or (
            isinstance(job_id, int) and self._crowd_of(job_id) is not None
        )

    def __iter__(self) -> Iterator[int]:
        ids = list(self._seen)
        for key in sorted(self._blocks):
            start = key << _BITS
            ids += compress(range(start, start + _SIZE), self._blocks[key].crowds)
        ids.sort()
        return iter(ids)

    def __len__(self) -> int:
        return len(self._seen) + self._unseen

    def clear(self) -> None:
        """Forget them all."""
        self._seen.clear()
        self._blocks.clear()
        self._crowds.clear()
        self._unseen = 0
