"""One pass over the classes of ready jobs; what does not start stays in its line.

It takes classes out of their lines, so it is for planning alone: what only asks goes through
`ReadyQueue.in_line`. Whatever is raised meanwhile, each class that was taken out is put back.
"""

from __future__ import annotations

from stoker.core.ready import JobClass, ReadyQueue


class ClassWalk:
    """The two lines of classes, GPU jobs and CPU-only jobs, merged by the order of their heads."""

    def __init__(self, ready: ReadyQueue, most_blocked: int) -> None:
        self._ready = ready
        self._most_blocked = most_blocked  # classes that are looked at in vain, of each line
        self._aside: list[JobClass] = []
        self.waiting_for_scouts: list[JobClass] = []
        self._blocked = {True: 0, False: 0}
        self._next: dict[bool, JobClass | None] = {True: None, False: None}
        self._in_hand: JobClass | None = None  # the one that was given out last

    def __enter__(self) -> ClassWalk:
        return self

    def __exit__(self, *_: object) -> None:
        """Let every class stand in its line again, but for those that were parked."""
        for cls in (*self._aside, *self.waiting_for_scouts, *self._next.values(), self._in_hand):
            if cls is not None and not cls.parked:
                self._ready.put_back(cls)

    def next_class(self, gpu_room: bool) -> JobClass | None:
        """The class whose head is first; None if nothing more can start."""
        # CPU-only jobs that ask for no slots start in any case.
        cpu_only = self._next_of(False)
        if cpu_only is None and not gpu_room:
            return None
        # With no room at all the first one in line must still be seen, for what it needs to be
        # held back.
        with_gpus = self._next_of(True, only_the_first=not gpu_room)
        is_gpu = cpu_only is None or (
            with_gpus is not None and with_gpus.heap[0] < cpu_only.heap[0]
        )
        self._next[is_gpu] = None
        self._in_hand = with_gpus if is_gpu else cpu_only
        return self._in_hand

    def next_gpu_class(self) -> JobClass | None:
        """The next class of the line of GPU jobs."""
        self._in_hand = self._next_of(True)
        self._next[True] = None
        return self._in_hand

    def _next_of(self, is_gpu: bool, only_the_first: bool = False) -> JobClass | None:
        """The next class of a line; the first entry of its heap is its head's."""
        if self._next[is_gpu] is None:
            looked_at = self._blocked[is_gpu]
            if looked_at < self._most_blocked and not (only_the_first and looked_at):
                self._next[is_gpu] = self._ready.pop_class(is_gpu)
        return self._next[is_gpu]

    def go_on_with(self, cls: JobClass) -> None:
        """A job of this class has started, and more of it may."""
        is_gpu = bool(cls.need.gpus)
        if self._next[is_gpu] is None and self._ready.is_still_first(cls):
            self._next[is_gpu] = cls
        else:
            self._ready.put_back(cls)

    def set_aside(self, cls: JobClass) -> None:
        """Nothing of this class starts in this pass."""
        self._aside.append(cls)
        self._blocked[bool(cls.need.gpus)] += 1

    def wait_for_scout(self, cls: JobClass) -> None:
        """Nothing of this class starts in this pass, but where no other job wants to be."""
        self._blocked[True] += 1
        self.waiting_for_scouts.append(cls)
