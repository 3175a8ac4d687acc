"""The jobs that are not final, by their ids.

Of a long queue, most jobs are looked at by nobody for a long time. Until then such a job is kept as
the crowd that it is one of, which takes a fraction of the time and of the memory.
Who asks for a job is given a `Job`, from then on always the same, so nothing else knows of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, TypeVar, overload

from stoker.core.model import Job
from stoker.core.order import Crowd, JobClass

T = TypeVar("T")

_Unseen = tuple[Crowd, JobClass]
"""A job that nobody has asked for yet: one of a crowd, which stands in line in this class."""


class Jobs(MutableMapping[int, Job]):
    """See the module."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[int, Job | _Unseen] = {}

    def let_in(self, jobs: Sequence[Job], crowds: Sequence[_Unseen]) -> None:
        """Begin with these, in the order of their ids."""
        assert not self._kept, "this is for those that were there before all others"
        ids = [job.id for job in jobs]
        for crowd, _ in crowds:
            ids += crowd.ids
        ids.sort()
        # A dict keeps the order in which its keys came, also when they get their values later.
        everybody: dict[int, Any] = dict.fromkeys(ids)
        for unseen in crowds:
            everybody.update(dict.fromkeys(unseen[0].ids, unseen))
        for job in jobs:
            everybody[job.id] = job
        assert len(everybody) == len(ids), "a job is there twice"
        self._kept = everybody

    def add_crowds(self, ids: Iterable[int], crowds: Sequence[_Unseen]) -> None:
        """Take in new ones, in the order of these ids."""
        kept = self._kept
        if len(crowds) > 1:
            kept.update(dict.fromkeys(ids, crowds[0]))
        for unseen in crowds:
            kept.update(dict.fromkeys(unseen[0].ids, unseen))

    def __getitem__(self, job_id: int) -> Job:
        kept = self._kept[job_id]
        return kept if isinstance(kept, Job) else self._first_seen(job_id, kept)

    @overload
    def get(self, key: int, /) -> Job | None: ...

    @overload
    def get(self, key: int, default: Job, /) -> Job: ...

    @overload
    def get(self, key: int, default: T, /) -> Job | T: ...

    def get(self, key: int, default: Any = None, /) -> Any:
        """The job, if it is not final."""
        kept = self._kept.get(key)
        if kept is None:
            return default
        return kept if isinstance(kept, Job) else self._first_seen(key, kept)

    def _first_seen(self, job_id: int, unseen: _Unseen) -> Job:
        crowd, cls = unseen
        job = Job(job_id, crowd.need, crowd.terms, crowd.priority, crowd.group)
        job.in_class = cls
        self._kept[job_id] = job
        return job

    def seen(self) -> list[Job]:
        """Those that are kept as themselves: of the others, all only wait for room."""
        return [kept for kept in self._kept.values() if isinstance(kept, Job)]

    def attached(self) -> list[Job]:
        """Those that run in the terminals of their users."""
        terms = ((i, k.terms if isinstance(k, Job) else k[0].terms) for i, k in self._kept.items())
        return [self[job_id] for job_id in [i for i, of_job in terms if of_job.attached]]

    def ahead_of(self, job: Job) -> int:
        """How many of those that only wait for room come before it."""
        order, ahead = job.order, 0
        for job_id, kept in self._kept.items():
            if isinstance(kept, Job):
                ahead += kept.in_class is not None and kept.order < order
            else:
                ahead += (kept[0].priority, job_id) < order
        return ahead

    def __setitem__(self, job_id: int, job: Job) -> None:
        self._kept[job_id] = job

    def __delitem__(self, job_id: int) -> None:
        del self._kept[job_id]

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._kept

    def __iter__(self) -> Iterator[int]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget them all."""
        self._kept.clear()
