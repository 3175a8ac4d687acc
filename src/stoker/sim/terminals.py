"""Clients at terminals, which start attached jobs themselves: late, unheard, or never.

A client goes on whatever happens to the engine: what it was told it may do at any later time, and
only the acceptance, which is on the disk, says whether it still may.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from stoker.core import commands as cmd
from stoker.executors.acceptances import Acceptance, Accepted, Void
from stoker.executors.processes import ProcessId

Key = tuple[int, int]  # job, attempt

COMES_WITHIN_MS = 15_000
ANSWERS_WITHIN_MS = 15_000


@dataclass(frozen=True, slots=True)
class Habits:
    """What the client of a job does."""

    answers_after_ms: int = 0  # so long after it was told; one that is stopped is late
    is_heard: bool = True  # whether what it reports arrives


@dataclass(slots=True)
class Terminals:
    """All clients, the acceptances on the disk, and what clients have been told and say."""

    habits: dict[int, Habits] = field(default_factory=dict)  # by job
    come_at_ms: dict[int, int] = field(default_factory=dict)
    died_at_ms: dict[int, int] = field(default_factory=dict)
    acceptances: dict[Key, Acceptance] = field(default_factory=dict)
    told: dict[Key, tuple[int, cmd.StartAttached]] = field(default_factory=dict)  # when it acts
    reports: list[Key] = field(default_factory=list)  # on their way to the engine
    disk_full: bool = False

    def copied(self) -> Terminals:
        """The same, going on by themselves."""
        return replace(
            self,
            come_at_ms=self.come_at_ms.copy(),
            died_at_ms=self.died_at_ms.copy(),
            acceptances=self.acceptances.copy(),
            told=self.told.copy(),
            reports=[],  # Connections break with the engine.
        )

    def is_there(self, job_id: int, true_ms: int) -> bool:
        """Whether the client of a job is connected, or would be if there were an engine."""
        come_at_ms = self.come_at_ms.get(job_id)
        return come_at_ms is not None and come_at_ms <= true_ms and job_id not in self.died_at_ms

    def all_die(self, true_ms: int) -> None:
        """The machine is switched off."""
        for job_id, come_at_ms in self.come_at_ms.items():
            if come_at_ms <= true_ms:
                self.died_at_ms.setdefault(job_id, true_ms)
        self.told.clear()
        self.reports.clear()

    # --- see executors.grants.Acceptances ---

    def read(self, key: Key) -> Acceptance | None:
        """What was decided, if anything was."""
        return self.acceptances.get(key)

    def void(self, key: Key) -> Acceptance:
        """Take a grant back, unless it was accepted."""
        if key not in self.acceptances and self.disk_full:
            raise OSError("no space left on device")
        return self.acceptances.setdefault(key, Void())

    def accept(self, key: Key) -> bool:
        """A client does it; False if it comes too late."""
        mine = Accepted(ProcessId(*key))
        return self.acceptances.setdefault(key, mine) == mine


def unruly(random: Random) -> Habits:
    """A client that may be stopped for long, and of which little is heard."""
    late_ms = random.choice((0, 1, 50, 1_000, 3_000, ANSWERS_WITHIN_MS, 20_000, 40_000))
    return Habits(random.randrange(late_ms + 1), random.random() < 0.6)
