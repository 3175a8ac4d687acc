"""Facts, in the past tense, each with its time: everything that can happen to the state.

Facts from outside name their attempt, so that a late one about an earlier attempt is told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stoker.core.frozen import quick_to_make
from stoker.core.model import (
    Cause,
    Exit,
    GpuReading,
    JobState,
    Launch,
    Memory,
    Need,
    Profile,
    Requirement,
    Takeovers,
    Terms,
)
from stoker.core.per_job import PerJob


class JobSubmitted(NamedTuple):
    """A user asked for a job. `launch` is carried through to the store and not looked at.

    A tuple, since a hundred thousand of them may come at once: see Launch.
    """

    at_ms: int
    job_id: int
    need: Need
    terms: Terms
    priority: int = 0
    group: str | None = None
    not_before_ms: int | None = None
    requires: tuple[Requirement, ...] = ()
    held: bool = False
    launch: Launch | None = None


class JobsSubmitted(NamedTuple):
    """A user asked for many jobs that wait for nothing but room, and that are alike.

    Planning can tell them apart by their priorities alone. They are numbered from `first_id` on,
    and of each there is one entry in `priorities`, `each` and `kinds`; these two and `launch`,
    which is the same for all but for what `each` says, are carried through to the store.
    """

    at_ms: int
    first_id: int
    need: Need
    terms: Terms
    group: str | None
    priorities: Sequence[int]
    launch: Launch
    each: Sequence[PerJob]
    kinds: Sequence[str]

    @property
    def ids(self) -> range:
        """Their numbers."""
        return range(self.first_id, self.first_id + len(self.priorities))


@dataclass(frozen=True, slots=True)
class SubmissionTaken:
    """A client's submission was taken whole: by its token it is known should it be repeated."""

    at_ms: int
    token: str
    job_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JobHeld:
    """A waiting job was put aside."""

    at_ms: int
    job_id: int


@dataclass(frozen=True, slots=True)
class JobReleased:
    """A held job was put back into the queue."""

    at_ms: int
    job_id: int


@dataclass(frozen=True, slots=True)
class JobEdited:
    """A queued job got new needs, terms, priority or group, or a new `launch`."""

    at_ms: int
    job_id: int
    need: Need
    terms: Terms
    priority: int
    group: str | None
    not_before_ms: int | None
    launch: Launch | None = None


@dataclass(frozen=True, slots=True)
class JobRetried:
    """A user put a final job back into the queue; its attempts go on counting."""

    at_ms: int
    job_id: int
    need: Need
    terms: Terms
    priority: int
    group: str | None
    requires: tuple[Requirement, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """A queued job was called off before it ran."""

    at_ms: int
    job_id: int
    cause: Cause = Cause.CANCELLED


@dataclass(frozen=True, slots=True)
class JobSkipped:
    """A queued job's requirement can no longer come true."""

    at_ms: int
    job_id: int
    requirement: int
    requirement_state: JobState


@dataclass(frozen=True, slots=True)
class JobsRemoved:
    """Final jobs were forgotten."""

    at_ms: int
    job_ids: tuple[int, ...]


@quick_to_make
class AttemptPlaced:
    """A new attempt was given its GPUs."""

    at_ms: int
    job_id: int
    attempt: int
    gpus: tuple[str, ...]
    memory: Memory | None = None  # reserved on each of them, if its need does not say it


@quick_to_make
class TakeoversPlanned:
    """These attempts may be followed by those jobs, until it is said anew."""

    at_ms: int
    takeovers: Takeovers


@dataclass(frozen=True, slots=True)
class AttemptAccepted:
    """The cluster has taken it, and calls it `place`; it has not begun."""

    at_ms: int
    job_id: int
    attempt: int
    place: str


@quick_to_make
class AttemptStarted:
    """Its process runs."""

    at_ms: int
    job_id: int
    attempt: int
    pid: int | None
    place: str = ""


@dataclass(frozen=True, slots=True)
class AttemptNotStarted:
    """No process could be made for it."""

    at_ms: int
    job_id: int
    attempt: int
    why: str
    cause: Cause = Cause.NOT_STARTED


@dataclass(frozen=True, slots=True)
class AttemptPutBack:
    """The machine had not enough of something to start it: it is to be tried again.

    No process of it has run its program, so it is as if it had never been placed. Only if others
    have heard of its number, that is `spent`: the next attempt has another.
    """

    at_ms: int
    job_id: int
    attempt: int
    what: str  # is missing
    alone: bool = False  # only this job has to do with it: a disk that a file of its own is on
    spent: bool = False


@quick_to_make
class AttemptExited:
    """Its last process is gone; `exit` is that of its main process."""

    at_ms: int
    job_id: int
    attempt: int
    exit: Exit
    out_of_memory: bool = False  # its output says that a GPU's memory was not enough
    mps_fault: bool = False  # the MPS server that it shared with others failed
    gpu_lost: bool = False  # a GPU of its own was lost under it
    taken_over_by: tuple[int, int] | None = None  # job and attempt that have started in its place


@dataclass(frozen=True, slots=True)
class AttemptCutShort:
    """The cluster ended it: at its time limit, for its memory, or by order of somebody else."""

    at_ms: int
    job_id: int
    attempt: int
    cause: Cause
    exit: Exit | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class AttemptEvicted:
    """Its place was taken away, by no fault of its own: it is to be tried again."""

    at_ms: int
    job_id: int
    attempt: int
    cause: Cause
    why: str


@dataclass(frozen=True, slots=True)
class AttemptVanished:
    """It has no process and left no exit code: the truth can't be known."""

    at_ms: int
    job_id: int
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class TerminalCame:
    """The client of an attached job is there to start it. That is in no record."""

    at_ms: int
    job_id: int


@dataclass(frozen=True, slots=True)
class TerminalLeft:
    """It is not there any more."""

    at_ms: int
    job_id: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """An attempt is to end: by its user, its time limit, or the daemon's own stop."""

    at_ms: int
    job_id: int
    attempt: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class WarningDue:
    """The moment for the signal before the time limit has come."""

    at_ms: int
    job_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class WarningSent:
    """The signal before the time limit was delivered."""

    at_ms: int
    job_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class QueuePaused:
    """Nothing new starts, in a group (or, for None, at all)."""

    at_ms: int
    group: str | None = None


@dataclass(frozen=True, slots=True)
class QueueResumed:
    """The opposite of QueuePaused."""

    at_ms: int
    group: str | None = None


@dataclass(frozen=True, slots=True)
class GroupLimited:
    """At most so many jobs of the group run at a time."""

    at_ms: int
    group: str
    max_running: int | None


@dataclass(frozen=True, slots=True)
class GpuAdded:
    """A GPU may be used from now on (or one that was being removed, again)."""

    at_ms: int
    gpu: str
    memory_mib: int | None = None
    declared: bool = True
    label: str = ""  # its number, if it is known by something longer
    vendor: str = ""  # set if a driver showed it
    hidden: bool = False  # it is there, but its user named the GPUs to use and this is none of them


@dataclass(frozen=True, slots=True)
class GpuRemoved:
    """A GPU is no longer ours; what runs there ends by itself."""

    at_ms: int
    gpu: str
    gone: bool = False  # no driver shows it any more; else its user took it away


@dataclass(frozen=True, slots=True)
class GpuDrained:
    """Nothing new is placed on a GPU."""

    at_ms: int
    gpu: str


@dataclass(frozen=True, slots=True)
class GpuResumed:
    """The opposite of GpuDrained."""

    at_ms: int
    gpu: str


@dataclass(frozen=True, slots=True)
class GpusMeasured:
    """What a driver said of its GPUs; those that are not mentioned were not read."""

    at_ms: int
    readings: Mapping[str, GpuReading]


@dataclass(frozen=True, slots=True)
class MemorySeen:
    """An attempt uses more GPU memory than it was seen to use before, or has settled."""

    at_ms: int
    job_id: int
    attempt: int
    peak_mib: int
    grew: bool  # by more than noise
    settled: bool


@dataclass(frozen=True, slots=True)
class ReservationChanged:
    """What an attempt has reserved on each of its GPUs was made to agree with what it uses."""

    at_ms: int
    job_id: int
    attempt: int
    memory: Memory


@dataclass(frozen=True, slots=True)
class ProfileLearned:
    """More is known of a kind of jobs."""

    at_ms: int
    profile: Profile


@dataclass(frozen=True, slots=True)
class ProfilesForgotten:
    """A user wants these kinds to be learned anew."""

    at_ms: int
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CpusCounted:
    """So many CPU slots there are."""

    at_ms: int
    cpus: int


@dataclass(frozen=True, slots=True)
class ClusterLimited:
    """At most so many jobs are with a cluster at a time."""

    at_ms: int
    most: int


@dataclass(frozen=True, slots=True)
class ClockShifted:
    """The wall clock was set: `at_ms` is the new time, `by_ms` what it jumped.

    Durations (time limits, grace, back-off) are not to feel it, so their ends move along.
    """

    at_ms: int
    by_ms: int


@quick_to_make
class TimePassed:
    """It is now this late."""

    at_ms: int


Fact = (
    AttemptAccepted
    | AttemptStarted
    | AttemptNotStarted
    | AttemptPutBack
    | AttemptExited
    | AttemptCutShort
    | AttemptEvicted
    | AttemptVanished
    | WarningSent
)

Event = (
    Fact
    | JobSubmitted
    | JobsSubmitted
    | SubmissionTaken
    | JobHeld
    | JobReleased
    | JobEdited
    | JobRetried
    | JobCancelled
    | JobSkipped
    | JobsRemoved
    | AttemptPlaced
    | TakeoversPlanned
    | TerminalCame
    | TerminalLeft
    | StopRequested
    | WarningDue
    | QueuePaused
    | QueueResumed
    | GroupLimited
    | GpuAdded
    | GpuRemoved
    | GpuDrained
    | GpuResumed
    | GpusMeasured
    | MemorySeen
    | ReservationChanged
    | ProfileLearned
    | ProfilesForgotten
    | CpusCounted
    | ClusterLimited
    | ClockShifted
    | TimePassed
)
