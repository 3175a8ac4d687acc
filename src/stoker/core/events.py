"""Facts, in the past tense, each with its time: everything that can happen to the state.

Facts from outside name their attempt, so that a late one about an earlier attempt is told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stoker.core.frozen import quick_to_make
from stoker.core.gpu import GpuReading
from stoker.core.model import (
    Cause,
    Exit,
    JobState,
    Launch,
    Memory,
    Need,
    Profile,
    Requirement,
    Takeovers,
    Terms,
)
from stoker.core.order import Policy
from stoker.core.per_job import PerJob
from stoker.core.shortage import LowDisk


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


@quick_to_make
class Timed:
    """What every event has."""

    at_ms: int


@quick_to_make
class OfJob(Timed):
    """About a job."""

    job_id: int


@quick_to_make
class OfAttempt(OfJob):
    """About one attempt of it."""

    attempt: int


@quick_to_make
class SubmissionTaken(Timed):
    """A client's submission was taken whole: by its token it is known should it be repeated."""

    token: str
    job_ids: tuple[int, ...]


@quick_to_make
class JobHeld(OfJob):
    """A waiting job was put aside."""


@quick_to_make
class JobReleased(OfJob):
    """A held job was put back into the queue."""


@quick_to_make
class JobEdited(OfJob):
    """A queued job got new needs, terms, priority or group, or a new `launch`."""

    need: Need
    terms: Terms
    priority: int
    group: str | None
    not_before_ms: int | None
    launch: Launch | None = None


@quick_to_make
class JobRetried(OfJob):
    """A user put a final job back into the queue; its attempts and resumes go on counting."""

    need: Need
    terms: Terms
    priority: int
    group: str | None
    requires: tuple[Requirement, ...]
    attempt: int
    resumes: int = 0


@quick_to_make
class RoomKept(OfJob):
    """From now on these GPUs are kept for an urgent job that waits: others give way on them."""

    gpus: tuple[str, ...]


@quick_to_make
class JobCancelled(OfJob):
    """A queued job was called off before it ran."""

    cause: Cause = Cause.CANCELLED


@quick_to_make
class JobSkipped(OfJob):
    """A queued job's requirement can no longer come true."""

    requirement: int
    requirement_state: JobState


@quick_to_make
class JobsRemoved(Timed):
    """Final jobs were forgotten."""

    job_ids: tuple[int, ...]


@quick_to_make
class AttemptPlaced(OfAttempt):
    """A new attempt was given its GPUs."""

    gpus: tuple[str, ...]
    memory: Memory | None = None  # reserved on each of them, if its need does not say it


@quick_to_make
class TakeoversPlanned(Timed):
    """These attempts may be followed by those jobs, until it is said anew."""

    takeovers: Takeovers


@quick_to_make
class AttemptAccepted(OfAttempt):
    """The cluster has taken it, and calls it `place`; it has not begun."""

    place: str


@quick_to_make
class AttemptStarted(OfAttempt):
    """Its process runs."""

    pid: int | None
    place: str = ""


@quick_to_make
class AttemptNotStarted(OfAttempt):
    """No process could be made for it."""

    why: str
    cause: Cause = Cause.NOT_STARTED


@quick_to_make
class AttemptPutBack(OfAttempt):
    """The machine had not enough of something to start it: it is to be tried again.

    No process of it has run its program, so it is as if it had never been placed. Only if others
    have heard of its number, that is `spent`: the next attempt has another.
    """

    what: str  # is missing
    alone: bool = False  # only this job has to do with it: a disk that a file of its own is on
    spent: bool = False


@quick_to_make
class AttemptExited(OfAttempt):
    """Its last process is gone; `exit` is that of its main process."""

    exit: Exit
    out_of_memory: bool = False  # its output says that a GPU's memory was not enough
    mps_fault: bool = False  # the MPS server that it shared with others failed
    gpu_lost: bool = False  # a GPU of its own was lost under it
    progressed: bool = True  # it wrote a checkpoint or reported a further step, as far as is known
    taken_over_by: tuple[int, int] | None = None  # job and attempt that have started in its place


@quick_to_make
class AttemptCutShort(OfAttempt):
    """The cluster ended it: at its time limit, for its memory, or by order of someone else."""

    cause: Cause
    exit: Exit | None
    why: str = ""
    progressed: bool = True


@quick_to_make
class AttemptEvicted(OfAttempt):
    """Its place was taken away, by no fault of its own: it is to be tried again."""

    cause: Cause
    why: str


@quick_to_make
class AttemptVanished(OfAttempt):
    """It has no process and left no exit code: the truth can't be known."""

    why: str
    progressed: bool = True


@quick_to_make
class TerminalCame(OfJob):
    """The client of an attached job is there to start it. That is in no record."""


@quick_to_make
class TerminalLeft(OfJob):
    """It is not there any more."""


@quick_to_make
class ProcessEnded(Timed):
    """A process that is not ours, and for which jobs wait, is not there any more."""

    process: str  # see ForeignProcess.kept


@quick_to_make
class StopRequested(OfAttempt):
    """An attempt is to end: by its user, its time limit, its search, or the daemon's own stop.

    `detail`: of one that gives way, the urgent job for which it does; empty if its user wants it.
    """

    cause: Cause
    detail: str = ""


@quick_to_make
class SuspendRequested(OfAttempt):
    """The processes of an attempt are to be stopped until they are continued, by its user."""


@quick_to_make
class ContinueRequested(OfAttempt):
    """The opposite of SuspendRequested."""


@quick_to_make
class AttemptSuspended(OfAttempt):
    """None of its processes runs any more."""

    nth: int  # suspension of this attempt


@quick_to_make
class AttemptContinued(OfAttempt):
    """All of its processes were told to go on."""

    nth: int  # suspension that is over


@quick_to_make
class WarningDue(OfAttempt):
    """The moment for the signal before the time limit has come."""


@quick_to_make
class WarningSent(OfAttempt):
    """The signal before the time limit was delivered."""


@quick_to_make
class WorkSaved(OfAttempt):
    """When an attempt last wrote a checkpoint or reported a step was looked up. In no record."""

    saved_at_ms: int


@quick_to_make
class QueuePaused(Timed):
    """Nothing new starts, in a group (or, for None, at all)."""

    group: str | None = None


@quick_to_make
class QueueResumed(Timed):
    """The opposite of QueuePaused."""

    group: str | None = None


@quick_to_make
class PolicySet(Timed):
    """From now on jobs of equal priority go in this order, see core.order."""

    policy: Policy


@quick_to_make
class GroupLimited(Timed):
    """At most so many jobs of the group run at a time."""

    group: str
    max_running: int | None


@quick_to_make
class GpuAdded(Timed):
    """A GPU may be used from now on (or one that was being removed, again)."""

    gpu: str
    memory_mib: int | None = None
    declared: bool = True
    label: str = ""  # its number, if it is known by something longer
    vendor: str = ""  # set if a driver showed it
    hidden: bool = False  # it is there, but its user named the GPUs to use and this is none of them


@quick_to_make
class GpuRemoved(Timed):
    """A GPU is no longer ours; what runs there ends by itself."""

    gpu: str
    gone: bool = False  # no driver shows it any more; else its user took it away


@quick_to_make
class GpuDrained(Timed):
    """Nothing new is placed on a GPU."""

    gpu: str


@quick_to_make
class GpuResumed(Timed):
    """The opposite of GpuDrained."""

    gpu: str


@quick_to_make
class GpusMeasured(Timed):
    """What a driver said of its GPUs; those that are not mentioned were not read."""

    readings: Mapping[str, GpuReading]


@quick_to_make
class MemorySeen(OfAttempt):
    """An attempt uses more GPU memory than it was seen to use before, or has settled."""

    peak_mib: int
    grew: bool  # by more than noise
    settled: bool


@quick_to_make
class ReservationChanged(OfAttempt):
    """What an attempt has reserved on each of its GPUs was made to agree with what it uses."""

    memory: Memory


@quick_to_make
class ProfileLearned(Timed):
    """More is known of a kind of jobs."""

    profile: Profile


@quick_to_make
class ProfilesForgotten(Timed):
    """A user wants these kinds to be learned anew."""

    kinds: tuple[str, ...]


@quick_to_make
class CpusCounted(Timed):
    """So many CPU slots there are."""

    cpus: int


@quick_to_make
class ClusterLimited(Timed):
    """At most so many jobs are with a cluster at a time."""

    most: int


@quick_to_make
class DiskLooked(Timed):
    """How much is free on our disks was read: `low` is the one on which that is too little."""

    low: LowDisk | None


@quick_to_make
class ClockShifted(Timed):
    """The wall clock was set: `at_ms` is the new time, `by_ms` what it jumped.

    Durations (time limits, grace, back-off) are not to feel it, so their ends move along.
    """

    by_ms: int


@quick_to_make
class TimePassed(Timed):
    """It is now this late."""


Fact = (
    AttemptAccepted | AttemptStarted | AttemptNotStarted | AttemptPutBack | AttemptExited
    | AttemptCutShort | AttemptEvicted | AttemptVanished | WarningSent | AttemptSuspended
    | AttemptContinued
)  # fmt: skip

Event = (
    Fact | JobSubmitted | JobsSubmitted | SubmissionTaken | JobHeld | JobReleased | JobEdited
    | JobRetried | JobCancelled | JobSkipped | JobsRemoved | AttemptPlaced | TakeoversPlanned
    | TerminalCame | TerminalLeft | ProcessEnded | StopRequested | SuspendRequested
    | ContinueRequested | WarningDue | QueuePaused | RoomKept | WorkSaved | PolicySet
    | QueueResumed | GroupLimited | GpuAdded | GpuRemoved | GpuDrained | GpuResumed
    | GpusMeasured | MemorySeen | ReservationChanged | ProfileLearned | ProfilesForgotten
    | CpusCounted | ClusterLimited | DiskLooked | ClockShifted | TimePassed
)  # fmt: skip
