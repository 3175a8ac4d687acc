"""What a GPU is: a device, what was read of it, and what is reserved on it.

`Gpu` is mutable, and only `state.State.apply` changes it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from stoker.core.frozen import quick_to_make
from stoker.core.model import WHOLE_SHARE_MILLI, Memory


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What was measured on a GPU: it counts until the next reading, and is in no database."""

    at_ms: int
    used_mib: int | None = None
    ours_mib: dict[int, int | None] = field(default_factory=dict)  # by job; None: not told
    others: int = 0  # processes that are not ours, or memory of no process that is known
    others_mib: int = 0
    other_pids: tuple[int, ...] = ()
    closed: bool = False  # nothing new is to be placed while others are here
    use_percent: int | None = None
    fault: str = ""  # why it can't be used
    lost: bool = False  # what runs there is lost with it
    distances: dict[str, int] = field(default_factory=dict)


@quick_to_make
class Reservation:
    """What an attempt has of one GPU."""

    whole: bool
    share_milli: int
    memory: Memory
    max_per_gpu: int | None
    kind: str | None = None


def together_mib(reservations: Iterable[Reservation]) -> int:
    """What reservations on one GPU take together.

    They share one margin, the largest: that one of a kind grows as none before it is rare, and that
    several on a GPU do so at once is rarer than what their margins would cost all of the time. What
    is kept for kinds that may grow late is shared by kinds, but not within one: what makes one of a
    kind grow makes its siblings grow, too.
    """
    firm = most_shared = 0
    growing: dict[str | None, int] = {}
    for held in reservations:
        mib, shared, growth = held.memory
        firm += mib - shared
        if growth:
            growing[held.kind] = growing.get(held.kind, 0) + growth
        if shared > most_shared:
            most_shared = shared
    return firm + most_shared + max(growing.values(), default=0)


@dataclass(slots=True)
class Gpu:
    """One device and what is reserved on it."""

    id: str
    memory_mib: int | None = None
    declared: bool = True  # by the user; False if a job's --on was the first to name it
    drained: bool = False
    removing: bool = False
    label: str = ""  # its number, if it is known by something longer
    vendor: str = ""  # "nvidia", "amd" or "stand-in": set if a driver showed it
    held_by: dict[int, Reservation] = field(default_factory=dict)  # by job id
    reading: GpuReading | None = None
    changed_at_ms: int = 0  # when an attempt last came or went; in no record

    @property
    def usable(self) -> bool:
        """True if new attempts may be placed here."""
        return not (self.drained or self.removing or (self.reading and self.reading.fault))

    @property
    def shown_as(self) -> str:
        """How people call it."""
        return self.label or self.id

    def is_one_of(self, names: Container[str]) -> bool:
        """True if it is named, by its number or its whole id."""
        return self.id in names or (bool(self.label) and self.label in names)

    @property
    def others_mib(self) -> int:
        """What others have of its memory."""
        return self.reading.others_mib if self.reading is not None else 0

    @property
    def others(self) -> int:
        """How many others use it."""
        return self.reading.others if self.reading is not None else 0

    @property
    def room_mib(self) -> int:
        """Memory that is neither reserved nor used by others."""
        return (self.memory_mib or 0) - self.others_mib - self.reserved_mib

    @property
    def reserved_mib(self) -> int:
        """What the reservations take together."""
        return together_mib(self.held_by.values())

    @property
    def share_used_milli(self) -> int:
        """The sum of the shares; a whole-GPU attempt has all of it."""
        return sum(WHOLE_SHARE_MILLI if r.whole else r.share_milli for r in self.held_by.values())
