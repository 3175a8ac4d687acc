"""What processes do on simulated GPUs: the memory they have, and how they slow each other down.

A process goes through phases of its own work. On each GPU, all that share it ask for parts of what
there is: its cores first, and whatever else a trace knows of (processors, the network). If they
ask for more than there is of something, those that ask for it get on in proportion more slowly.
Nothing is polled: a phase, an end and a change of speed are moments, known in advance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import ceil

from stoker.ports import SeenGpu, SeenProcess

Key = tuple[int, int]  # job, attempt

NEVER_MS = 10**15
ALL = 100  # percent: what there is


@dataclass(frozen=True, slots=True)
class Phase:
    """From a moment of its own work on, what a process has of each of its GPUs."""

    from_ms: int
    mib: int
    use: tuple[int, ...] = (0,)  # percent of each thing; the first is what a driver tells


@dataclass(slots=True)
class Working:
    """A process on its GPUs."""

    gpus: tuple[str, ...]
    phases: tuple[Phase, ...]
    runs_ms: int
    since_ms: int
    place: int = 0  # of its phase
    done_ms: float = 0.0  # of its work, at `since_ms`
    stopped: bool = False  # it stands, with its memory, until it is continued
    asked: int = ALL  # percent of what it uses that is asked for by all; up to 100: full speed

    @property
    def phase(self) -> Phase:
        """What it does now."""
        return self.phases[self.place]

    def moment_of(self, work_ms: int) -> int:
        """When it will have done so much, if nothing changes."""
        if self.stopped:
            return NEVER_MS
        left_ms = max(0.0, work_ms - self.done_ms)
        return min(NEVER_MS, self.since_ms + ceil(left_ms * self.asked / ALL - 1e-6))

    @property
    def next_phase_ms(self) -> int | None:
        """When its next phase begins; None: this is the last."""
        after = self.place + 1
        return self.moment_of(self.phases[after].from_ms) if after < len(self.phases) else None


class Devices:
    """All GPUs and what is on them. What it returns are processes whose ends have moved."""

    def __init__(self, gpus: Iterable[SeenGpu]) -> None:
        self._memory_mib = {gpu.id: gpu.memory_mib for gpu in gpus}
        self.on: dict[str, dict[Key, None]] = {gpu_id: {} for gpu_id in self._memory_mib}
        self.working: dict[Key, Working] = {}
        self.gpus_of: dict[Key, tuple[str, ...]] = {}
        self._due: list[tuple[int, Key]] = []  # when phases begin, as far as that still holds

    def copied(self) -> Devices:
        """The same, going on by themselves."""
        other = copy(self)
        other.on = {gpu_id: keys.copy() for gpu_id, keys in self.on.items()}
        other.working = {key: replace(one) for key, one in self.working.items()}
        other.gpus_of, other._due = self.gpus_of.copy(), self._due.copy()
        return other

    def value(self) -> frozenset[tuple[Key, int, int, float, int, bool]]:
        """All on which what happens here depends."""
        return frozenset(
            (key, one.place, one.since_ms, one.done_ms, one.asked, one.stopped)
            for key, one in self.working.items()
        )

    def begin(
        self, key: Key, gpus: tuple[str, ...], phases: tuple[Phase, ...], runs_ms: int, now_ms: int
    ) -> list[Key]:
        """A process begins."""
        self.gpus_of[key] = gpus
        for gpu_id in gpus:
            self.on[gpu_id][key] = None
        if not phases or not gpus:
            return []
        self.working[key] = Working(gpus, phases, runs_ms, now_ms)
        self._expect_phase(key)
        return [key, *(one for one in self._anew(gpus, now_ms) if one != key)]

    def end(self, key: Key, now_ms: int) -> list[Key]:
        """A process is over."""
        gpus = self.gpus_of.pop(key, ())
        for gpu_id in gpus:
            del self.on[gpu_id][key]
        return self._anew(gpus, now_ms) if self.working.pop(key, None) is not None else []

    def stop(self, key: Key, now_ms: int) -> list[Key]:
        """A process stands still."""
        one = self.working.get(key)
        if one is None:
            return []
        one.done_ms += (now_ms - one.since_ms) * ALL / one.asked
        one.since_ms, one.stopped = now_ms, True
        return self._anew(one.gpus, now_ms)

    def go_on_again(self, key: Key, now_ms: int) -> list[Key]:
        """It goes on where it stood."""
        one = self.working.get(key)
        if one is None:
            return []
        one.since_ms, one.stopped, one.asked = now_ms, False, ALL
        self._expect_phase(key)
        return [key, *(other for other in self._anew(one.gpus, now_ms) if other != key)]

    def next_ms(self) -> int | None:
        """When a phase begins next."""
        while self._due:
            moment_ms, key = self._due[0]
            one = self.working.get(key)
            if one is not None and one.next_phase_ms == moment_ms:
                return moment_ms
            heappop(self._due)
        return None

    def go_on(self, now_ms: int) -> tuple[Key, list[Key]] | None:
        """One process begins a phase whose time has come: which, and whose ends have moved."""
        moment_ms = self.next_ms()
        if moment_ms is None or moment_ms > now_ms:
            return None
        _, key = heappop(self._due)
        one = self.working[key]
        one.place += 1
        self._expect_phase(key)
        return key, self._anew(one.gpus, now_ms)

    def end_ms(self, key: Key) -> int:
        """When a process will have done its work."""
        one = self.working[key]
        return one.moment_of(one.runs_ms)

    def lacks_memory(self, key: Key) -> bool:
        """Whether more is taken on a GPU of this process than there is."""
        return any(
            memory is not None and self.taken_mib(gpu_id) > memory
            for gpu_id in self.gpus_of[key]
            for memory in [self._memory_mib[gpu_id]]
        )

    def taken_mib(self, gpu_id: str) -> int:
        """What all processes have of a GPU's memory."""
        return sum(one.phase.mib for _, one in self._on(gpu_id))

    def seen(self, gpu: SeenGpu, pids: int, now_ms: int) -> SeenGpu:
        """What a driver tells of a GPU. The process of job 7 has the number `pids` + 7."""
        processes = tuple(
            SeenProcess(pids + key[0], one.phase.mib)
            for key, one in self._on(gpu.id)
            if one.phase.mib
        )
        return replace(
            gpu,
            used_mib=self.taken_mib(gpu.id),
            utilisation_percent=min(ALL, sum(use[0] for use in self._uses(gpu.id))),
            processes=processes,
            measured_at_ms=now_ms,
        )

    def _on(self, gpu_id: str) -> Iterator[tuple[Key, Working]]:
        for key in self.on[gpu_id]:
            one = self.working.get(key)
            if one is not None:
                yield key, one

    def _uses(self, gpu_id: str) -> list[tuple[int, ...]]:
        return [one.phase.use for _, one in self._on(gpu_id) if not one.stopped]

    def _expect_phase(self, key: Key) -> None:
        moment_ms = self.working[key].next_phase_ms
        if moment_ms is not None:
            heappush(self._due, (moment_ms, key))

    def _anew(self, gpus: Sequence[str], now_ms: int) -> list[Key]:
        """Reckon anew how fast all are that are on these GPUs; those whose speed has changed."""
        moved = []
        for key in dict.fromkeys(key for gpu_id in gpus for key, _ in self._on(gpu_id)):
            one = self.working[key]
            if one.stopped:
                continue
            asked = max((self._asked(gpu_id, one.phase.use) for gpu_id in one.gpus), default=ALL)
            if asked != one.asked:
                one.done_ms += (now_ms - one.since_ms) * ALL / one.asked
                one.since_ms, one.asked = now_ms, asked
                self._expect_phase(key)
                moved.append(key)
        return moved

    def _asked(self, gpu_id: str, mine: tuple[int, ...]) -> int:
        """How much of what this one uses is asked for on a GPU, of that which is asked for most."""
        uses = self._uses(gpu_id)
        sums = [
            sum(use[thing] for use in uses if thing < len(use))
            for thing, part in enumerate(mine)
            if part
        ]
        return max(ALL, *sums) if sums else ALL
