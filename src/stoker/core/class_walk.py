"""One pass over the classes of ready jobs; what does not start stays in its line.

It takes classes out of their lines, so it is for planning alone: what only asks goes through
`ReadyQueue.in_line`. Whatever is raised meanwhile, each class that was taken out is put back.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace

from stoker.core.model import Rank
from stoker.core.ready import JobClass, Line, ReadyQueue

# How many classes are looked at in vain in all lines of GPU jobs together, before only the first of
# each further line is.
_MOST_BLOCKED_IN_ALL = 1_024


class ClassWalk:
    """The lines of classes, of GPU jobs and CPU-only jobs, merged by the order of their heads."""

    def __init__(
        self,
        ready: ReadyQueue,
        most_blocked: int,
        has_room: Callable[[tuple[str, ...]], bool] | None = None,
    ) -> None:
        """`has_room`: whether one of the GPUs with these names has room for anything."""
        self._ready = ready
        self._most_blocked = most_blocked  # classes that are looked at in vain, of each line
        self._has_room = has_room
        self._aside: list[JobClass] = []
        self.waiting_for_scouts: list[JobClass] = []
        self._blocked: dict[Line, int] = {}
        self._gpu_blocked = 0  # in all lines of GPU jobs
        self._cpu_next: JobClass | None = None
        # A heap of lines by where their first class stands; with that, once it was taken out.
        self._gpu_next: list[tuple[Rank, int, Line, JobClass | None]] = []
        self._pushed = 0  # breaks ties there
        self._gpu_left = list(ready.gpu_lines())  # the lines that are not there
        self._in_hand: JobClass | None = None  # the one that was given out last

    def __enter__(self) -> ClassWalk:
        return self

    def __exit__(self, *_: object) -> None:
        """Let every class stand in its line again, but for those that were parked."""
        gpu_next = [cls for _, _, _, cls in self._gpu_next]
        taken = (*self._aside, *self.waiting_for_scouts, *gpu_next, self._cpu_next, self._in_hand)
        for cls in taken:
            if cls is not None and not cls.parked:
                self._ready.put_back(cls)

    def next_class(self, gpu_room: bool) -> JobClass | None:
        """The class whose head is first; None if nothing more can start."""
        # CPU-only jobs that ask for no slots start in any case.
        cpu_only = self._next_cpu_only()
        if cpu_only is None and not gpu_room:
            return None
        # With no room at all the first one in line must still be seen, for what it needs to be
        # held back.
        with_gpus = None if self._gpu_blocked and not gpu_room else self._next_with_gpus()
        key = self._ready.key
        is_gpu = cpu_only is None or (
            with_gpus is not None
            and key(with_gpus, with_gpus.heap[0]) < key(cpu_only, cpu_only.heap[0])
        )
        if is_gpu:
            return self.next_gpu_class() if with_gpus is not None else None
        self._cpu_next, self._in_hand = None, cpu_only
        return cpu_only

    def next_gpu_class(self) -> JobClass | None:
        """The next class of the lines of GPU jobs."""
        cls = self._next_with_gpus()
        if cls is not None:
            heappop(self._gpu_next)
            self._gpu_left.append(cls.line)
        self._in_hand = cls
        return cls

    def _next_cpu_only(self) -> JobClass | None:
        """The next class of that line; the first entry of its heap is its head's."""
        line = self._ready.cpu_line
        if self._cpu_next is None and self._blocked.get(line, 0) < self._most_blocked:
            self._cpu_next = self._ready.pop_class(line)
        return self._cpu_next

    def _next_with_gpus(self) -> JobClass | None:
        """The same of the lines of GPU jobs."""
        while self._gpu_left:
            line = self._gpu_left.pop()
            first = self._ready.first_in(line) if self._is_worth_a_look(line) else None
            if first is not None:
                rank, cls = first
                self._push(self._ready.key(cls, rank), line, None)
        while self._gpu_next:
            _, number, line, taken = self._gpu_next[0]
            popped = self._ready.pop_class(line) if taken is None else taken
            if popped is None:
                heappop(self._gpu_next)
                continue
            # What has started since may have moved it back; or its first jobs have left.
            place = self._ready.key(popped, popped.heap[0])
            heapreplace(self._gpu_next, (place, number, line, popped))
            if self._gpu_next[0][3] is popped:
                return popped
        return None

    def _push(self, key: Rank, line: Line, taken: JobClass | None) -> None:
        self._pushed += 1
        heappush(self._gpu_next, (key, self._pushed, line, taken))

    def _is_worth_a_look(self, line: Line) -> bool:
        looked_at = self._blocked.get(line, 0)
        if not looked_at:
            return True
        if looked_at >= self._most_blocked or self._gpu_blocked >= _MOST_BLOCKED_IN_ALL:
            return False
        return not line.on or self._has_room is None or self._has_room(line.on)

    def go_on_with(self, cls: JobClass) -> None:
        """A job of this class has started, and more of it may."""
        line = cls.line
        if line is self._ready.cpu_line:
            if self._cpu_next is None and self._ready.is_still_first(cls):
                self._cpu_next = cls
                return
        elif self._gpu_left and self._gpu_left[-1] is line and self._ready.is_still_first(cls):
            self._gpu_left.pop()
            self._push(self._ready.key(cls, cls.heap[0]), line, cls)
            return
        self._ready.put_back(cls)

    def set_aside(self, cls: JobClass) -> None:
        """Nothing of this class starts in this pass."""
        self._aside.append(cls)
        self._has_blocked(cls)

    def wait_for_scout(self, cls: JobClass) -> None:
        """Nothing of this class starts in this pass, but where no other job wants to be."""
        self.waiting_for_scouts.append(cls)
        self._has_blocked(cls)

    def _has_blocked(self, cls: JobClass) -> None:
        self._blocked[cls.line] = self._blocked.get(cls.line, 0) + 1
        if cls.need.gpus:
            self._gpu_blocked += 1
