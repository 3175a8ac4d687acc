"""Each attempt that is the cluster's business: where it stands on its way there and back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stoker.core.commands import HandOver
from stoker.core.model import Launch
from stoker.executors.slurm.files import Started
from stoker.executors.slurm.squeue import Seen

Key = tuple[int, int]


class Phase(Enum):
    """How far it has come."""

    UNSURE = "it may have been submitted: it is to be looked for"
    NEW = "it was not submitted, and has not been ordered yet"
    ORDERED = "it is to be submitted"
    SUBMITTING = "it is being submitted"
    TAKEN = "the cluster has it"


@dataclass(frozen=True, slots=True)
class Adopted:
    """An attempt of an earlier daemon, as the record has it."""

    key: Key
    place: str
    started: bool
    stopping: bool


@dataclass(slots=True)
class Case:
    """One attempt. Moments are of the monotonic clock."""

    key: Key
    directory: str
    phase: Phase
    order: HandOver | None = None
    launch: Launch | None = None
    batch: str = ""
    index: int = 0
    label: str = ""  # the name of the Slurm job
    unsure_since: float = 0.0
    taken_at: float = 0.0
    taken_as: str = ""  # what Slurm called it when it took it
    doubtful: bool = False  # that may have been another job's before, of which something is left
    seen: Seen | None = None
    seen_asked_at: float = 0.0
    final_since: float | None = None
    launched_at: float | None = None  # when Slurm first said that it runs
    missing_since: float | None = None
    missing_polls: int = 0
    started: Started | None = None
    started_noticed_at: float = 0.0
    exit_noticed_at: float | None = None
    asked_the_accounting: bool = False
    stopping: bool = False
    force: bool = False
    asked_to_stop_at: float | None = None
    ended_at_cluster_at: float | None = None  # when it was last cancelled by force


def slurm_id_of(case: Case) -> str | None:
    """What Slurm calls it: as it said itself where it runs, else as Slurm last said."""
    if case.started is not None and not case.started.withdrawn:
        return case.started.slurm_id
    return None if case.seen is None else case.seen.id


def last_id_of(case: Case) -> str:
    """The same, or what Slurm called it before it forgot it; that may be another job's by now."""
    return slurm_id_of(case) or case.taken_as


@dataclass(frozen=True, slots=True)
class Standing:
    """What is shown of an attempt: Slurm's own words, and since when it has not been heard."""

    id: str
    state: str
    reason: str
    node: str
    unheard_since_ms: int | None
