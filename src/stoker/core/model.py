"""What a job, an attempt and a need are.

Values that many jobs have in common (`Need`, `Terms`) are frozen and interned by their users, so
that a million alike jobs share one. `Job` and `Attempt` are mutable, and only
`state.State.apply` changes them; where a job stands in line (`in_class`) is for `ready` to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from stoker.core.code import Code
from stoker.core.laws import ImpossibleValue
from stoker.core.terms import Terms as Terms

if TYPE_CHECKING:
    from stoker.core.per_job import PerJob
    from stoker.core.ready import JobClass


class JobState(StrEnum):
    """Where a job stands; each is defined in prose in docs/architecture.md."""

    __hash__ = str.__hash__  # That of an Enum is a function in Python.

    HELD = "held"
    WAITING = "waiting"
    SUBMITTED = "submitted"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    STOPPED = "stopped"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    LOST = "lost"


# To ask an Enum for a member takes a while; these are for what is asked of every job.
HELD, WAITING, SUBMITTED, RUNNING, STOPPING, *_ENDED = JobState
SUCCEEDED, STOPPED, FAILED, CANCELLED, SKIPPED, LOST = _ENDED
QUEUED = frozenset({HELD, WAITING})
ACTIVE = frozenset({SUBMITTED, RUNNING, STOPPING})
FINAL = frozenset(_ENDED)

WHOLE_SHARE_MILLI = 1000
DEFAULT_MARGIN = (10, 512)  # percent, MiB
# Until a run of a kind was seen to its end, so many margins more are kept free for it to grow.
_MARGINS_TO_GROW = 4.0
MOST_OOM_RETRIES = 3
MOST_MPS_RETRIES = 3


class Memory(NamedTuple):
    """GPU memory that is set aside, on each GPU of an attempt."""

    mib: int  # ALONE: all of it, whatever the need says
    margin_mib: int = 0  # of that, what it has only in case it grows as none of its kind did
    growth_mib: int = 0  # kept free beside it, while it is not known how far its kind grows


class _NeedKept:
    """What follows from a need and is asked of it for every job that comes."""

    __slots__ = ("_hash", "one_whole_gpu", "whole")
    _hash: int
    whole: bool  # each of its GPUs must be its alone
    one_whole_gpu: bool  # the usual need


@dataclass(frozen=True, slots=True)
class Need(_NeedKept):
    """What a job asks for: so many GPUs (or a share of one), memory on each, CPU slots."""

    gpus: int = 1
    share_milli: int | None = None  # of one GPU; then gpus == 1
    mem_mib: int | None = None  # reserved on each GPU, which others may then share
    exclusive: bool = False
    on: tuple[str, ...] = ()  # only these GPUs
    prefer: tuple[str, ...] = ()  # these first, in this order
    cpus: int = 0
    max_per_gpu: int | None = None  # at most so many attempts on a GPU that this job is on
    kind: str | None = None  # whose memory is learned; without `mem_mib`, it is all left to that
    margin: tuple[int, int] = DEFAULT_MARGIN  # over what was seen: percent, at least so many MiB
    # Set where memory was learned, see Memory. The record has needs field by field, so these are
    # fields of their own here; all else is given `memory`.
    margin_mib: int = 0
    growth_mib: int = 0

    def __post_init__(self) -> None:
        share = self.share_milli
        no_share = share is not None and not (self.gpus == 1 and 0 < share < WHOLE_SHARE_MILLI)
        if self.gpus < 0 or self.cpus < 0 or no_share:
            raise ImpossibleValue(f"no job can need {self.gpus=}, {self.cpus=}, {share=}")
        # For lookups alone: nothing is decided, or kept, by a number that each process makes anew.
        object.__setattr__(self, "_hash", astuple(self).__hash__())
        shares = self.share_milli is not None or self.mem_mib is not None or self.kind is not None
        object.__setattr__(self, "whole", self.exclusive or not shares)
        object.__setattr__(self, "one_whole_gpu", self.gpus == 1 and not shares)

    def __hash__(self) -> int:
        return self._hash

    @property
    def memory(self) -> Memory | None:
        """What to reserve on each GPU, as far as that is known."""
        mib = self.mem_mib
        return None if mib is None else Memory(mib, self.margin_mib, self.growth_mib)

    @property
    def learns(self) -> bool:
        """True if how much memory it gets is left to what is learned of its kind."""
        return self.kind is not None and self.mem_mib is None

    def with_margin(self, mib: int, parts: float = 1.0) -> int:
        """What to reserve where so much was seen, with so many parts of the margin."""
        percent, least = self.margin
        return mib + round(max(mib * percent / 100 * parts, least * min(parts, 1.0)))


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended, exactly as the kernel told: by code or by signal."""

    code: int | None = None
    signal: int | None = None

    def __post_init__(self) -> None:
        if (self.code is None) == (self.signal is None):
            raise ImpossibleValue("an exit is by code or by signal")

    @property
    def ok(self) -> bool:
        """True for exit code 0."""
        return self.code == 0


class Cause(StrEnum):
    """Why a job ended as it did; `Outcome.detail` has the particulars."""

    EXIT = "exit"  # by its own exit code or a signal
    TIME_LIMIT = "time limit"
    NOT_STARTED = "could not start"
    SHORTAGE = "shortage"  # the machine had not enough of something to start it
    CANCELLED = "cancelled"
    STOPPED_EARLY = "stopped early"  # by its search, which had seen enough of it
    TERMINAL_GONE = "terminal gone"
    REQUIREMENT = "requirement"
    OUT_OF_MEMORY = "out of memory"  # of a GPU
    GPU_LOST = "gpu lost"
    NODE_MEMORY = "node memory"  # more than the cluster lets it have, of its node
    PREEMPTED = "preempted"  # the cluster gave its place to another job
    NODE_FAILED = "node failed"
    REQUEUED = "requeued"  # by its user; or it was taken back before it began, or a cluster lost it
    SLICE = "slice"  # its slice was over, and others waited
    GAVE_WAY = "gave way"  # for an urgent job, or since its user wanted it to
    STUCK = "stuck"  # it was put back again and again, and made no progress
    CLUSTER = "cluster"  # the cluster ended it, for a reason of its own
    MPS_FAULT = "mps server fault"  # it was taken down by a neighbour, or with it
    NO_TRACE = "no trace"  # no process and no exit code: a power cut, or its keeper was killed


# An attempt that was told to stop for one of these has not failed: its job is put back.
PUTS_BACK = frozenset({Cause.SLICE, Cause.REQUEUED, Cause.GAVE_WAY})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job, or one attempt of it, ended. The attempt of a job that is put back: `waiting`."""

    state: JobState
    cause: Cause
    exit: Exit | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        if self.state not in FINAL and self.state is not WAITING:
            raise ImpossibleValue(f"nothing ends as {self.state}")


@dataclass(frozen=True, slots=True)
class Requirement:
    """Another job that must have ended first; or all jobs from one to another, or a process."""

    job_id: int  # 0 if it is a process
    must_succeed: bool
    last_id: int | None = None
    process: str | None = None  # one that is not ours: see ForeignProcess.kept

    @property
    def ids(self) -> range:
        """All that are meant."""
        return range(self.job_id, (self.job_id if self.last_id is None else self.last_id) + 1)


class Launch(NamedTuple):
    """What is needed to start a job, and to show it; planning never looks at it.

    `env` is one object for all jobs of a submission, so that a store can keep it once, and in no
    repr, since it may hold secrets. A tuple takes a fifth of the time that a dataclass takes.
    """

    argv: tuple[str, ...] = ()
    shell: str | None = None  # one string for the login shell, instead of argv
    cwd: str = "/"
    env: Mapping[str, str] = {}
    extra_env: Mapping[str, str] = {}
    name: str | None = None
    user: str = ""
    out: str | None = None
    err: str | None = None
    gpu_arg: bool = False
    requires: tuple[Requirement, ...] = ()  # all, as asked for
    kind: str = ""  # jobs of the same kind take about as long, and as much
    params: Mapping[str, object] = {}  # of the point that it is
    point: str | None = None  # names that point, so that it is known again
    cluster_options: tuple[str, ...] = ()  # passed on to the cluster as they are
    umask: int | None = None  # the submitter's; None: that of whatever starts it
    options: Mapping[str, object] = {}  # of the executor alone, by field: see api/job_options.py
    code: Code | None = None  # where it was queued

    def __repr__(self) -> str:
        shown = self._asdict()
        del shown["env"], shown["extra_env"]
        return f"Launch({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def appends(self, attempt: int) -> bool:
        """Whether an attempt leaves what its output files have in them; all but one kind do.

        A file that has appeared since the submission is not lost either.
        """
        return attempt > 1 or not self.options.get("overwrite")

    def with_own(self, own: PerJob, kind: str) -> Launch:
        """The launch of one of many jobs that share this one."""
        has_command = bool(own.argv) or own.shell is not None
        return Launch(
            own.argv if has_command else self.argv,
            own.shell if has_command else self.shell,
            self.cwd,
            self.env,
            self.extra_env,
            self.name if own.name is None else own.name,
            self.user,
            self.out if own.out is None else own.out,
            self.err if own.err is None else own.err,
            self.gpu_arg,
            self.requires,
            kind,
            self.params if own.params is None else own.params,
            self.point if own.point is None else own.point,
            self.cluster_options,
            self.umask,
            self.options,
            self.code,
        )


@dataclass(slots=True)
class Stop:
    """An attempt was told to stop: why, when it was told, and what its outcome is to say."""

    cause: Cause
    at_ms: int
    detail: str = ""


class Warning(StrEnum):
    """Where the signal before the time limit stands."""

    NONE = "none"
    DUE = "due"
    SENT = "sent"


class Suspension(StrEnum):
    """Whether the processes of an attempt are stopped, or are to be."""

    NONE = "none"
    BEGINS = "begins"  # they are being stopped
    LASTS = "lasts"  # none of them ran when they were last looked at
    ENDS = "ends"  # they are being continued


@dataclass(slots=True)
class Attempt:
    """One execution of a job, from the decision to place it until its last process is gone."""

    number: int
    gpus: tuple[str, ...]
    placed_at_ms: int
    started_at_ms: int | None = None
    pid: int | None = None
    place: str = ""  # what a cluster calls it, and the node on which it runs
    stop: Stop | None = None
    warning: Warning = Warning.NONE
    memory: Memory | None = None  # None: as the need says, or all of it where that was not known
    peak_mib: int | None = None  # the most that was seen on one of its GPUs
    peak_at_ms: int | None = None
    settled: bool = False  # its memory has not grown for a while
    suspension: Suspension = Suspension.NONE
    suspended_at_ms: int | None = None  # since when, if it is
    suspended_ms: int = 0  # how long it was before
    suspensions: int = 0  # how often it was told to, so that facts about an earlier one are known
    saved_at_ms: int | None = None  # its latest checkpoint or report; looked up only when it counts


Rank = tuple[int, ...]
PLACE_BITS = 24  # of a place that number the jobs behind the same one; the others are its id
PLACE_MASK = (1 << PLACE_BITS) - 1
FRONT = 0  # the place before all equals that were never put back
_AHEAD = 1 << 32  # more than any two priorities differ
_FIRST_OF_ALL = -_AHEAD * 2


def precedence(priority: int, terms: Terms) -> int:
    """What a rank begins with: the priority, with all urgent jobs before all others."""
    return priority - _AHEAD if terms.urgent else priority


def goes_before_all(rank: Rank) -> bool:
    """True for one that has waited too long since it gave way for an urgent one."""
    return rank[0] == _FIRST_OF_ALL


def is_before_usual(rank: Rank) -> bool:
    """True for an urgent job, and for one that has waited too long since it gave way for one."""
    return rank[0] < -(_AHEAD >> 1)


@dataclass(frozen=True, slots=True)
class GaveWay:
    """How often a job gave way for urgent ones of late, and what it is owed for the last time.

    From the end of that attempt to the end of the next, `since_ms` and `for_job` are set.
    """

    times_ms: tuple[int, ...] = ()  # when it was told to, in the last hour or so
    since_ms: int | None = None  # it has waited, or waited until it started again
    for_job: int | None = None

    def shifted(self, by_ms: int) -> GaveWay:
        """The same by a clock that was set."""
        since_ms = None if self.since_ms is None else self.since_ms + by_ms
        return GaveWay(tuple(at_ms + by_ms for at_ms in self.times_ms), since_ms, self.for_job)


@dataclass(slots=True)
class Job:
    """A job that is not final, as far as planning has to know it."""

    id: int
    need: Need
    terms: Terms
    priority: int = 0
    group: str | None = None
    state: JobState = JobState.WAITING
    not_before_ms: int | None = None  # a moment on the wall clock (--at)
    backoff_until_ms: int | None = None  # the end of a duration, so clock changes shift it
    attempt: int = 0  # the number of the latest attempt; 0 before the first
    failures: int = 0  # attempts that count against the retries
    requires: tuple[Requirement, ...] | None = None  # those not met yet
    active: Attempt | None = None
    ooms: int = 0  # attempts that ran out of GPU memory, and are not counted as failures
    floor_mib: int | None = None  # reserve at least this, since less was not enough; ALONE: all
    mps_faults: int = 0  # attempts that an MPS server took with it, and are not counted as failures
    place: int | None = None  # where it stands among its equals since it was put back: see `rank`
    resumes: int = 0  # how often it was put back
    stuck: int = 0  # the latest attempts in a row after which it was, and that made no progress
    gave_way: GaveWay | None = None
    kept: tuple[str, ...] = ()  # the GPUs on which others give way, or gave way, for it
    # Since it gave way it has waited so long that it goes first, see core.giving_way.
    goes_first: bool = field(default=False, init=False, repr=False, compare=False)
    in_class: JobClass | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def rank(self) -> Rank:
        """Who goes first: urgent ones, then priority, then order of submission; then comes the id.

        One that was put back stands behind the job that was the newest then, and before the next:
        as a tuple (0, 7, 1, 3) comes after (0, 7) and before (0, 8). One that gave way stands at
        the front, (0, 0, 0, 3).
        """
        place = self.place
        if self.goes_first and self.gave_way is not None:
            return (_FIRST_OF_ALL, self.gave_way.since_ms or 0, 0, self.id)
        first = precedence(self.priority, self.terms)
        if place is None:
            return (first, self.id)
        return (first, place >> PLACE_BITS, place & PLACE_MASK, self.id)


def copied(job: Job) -> Job:
    """A copy that shares nothing mutable with the original."""
    attempt = job.active
    if attempt is not None:
        stop = replace(attempt.stop) if attempt.stop is not None else None
        attempt = replace(attempt, stop=stop)
    return replace(job, active=attempt)


ALONE = -1
"""As a job's `floor_mib`: it needs a whole GPU, one of the largest that it may use."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of jobs of one kind: of the GPU memory, use and time that they take."""

    kind: str
    count: int  # of runs that were seen to their end; 0: one is still being watched
    max_mib: int
    mean_mib: float
    spread: float  # the sum of squared differences from the mean
    settle_ms: int  # how long the slowest took to reach its peak
    use_percent: int | None  # of a GPU that it had for itself
    ooms: int
    updated_at_ms: int
    longest_ms: int = 0  # how long the slowest ran that was seen to its end; 0: none was

    def growth_mib(self, need: Need) -> int:
        """What to keep free beside a reservation for such a need.

        A kind may reach its peak late: until one run of it was seen to its end, what is known is
        less than its peak as often as not.
        """
        if self.count:
            return 0
        return need.with_margin(self.max_mib, _MARGINS_TO_GROW) - self.max_mib

    @property
    def deviation_mib(self) -> float:
        """The standard deviation of the peaks."""
        return (self.spread / self.count) ** 0.5 if self.count else 0.0


class Takeovers(NamedTuple):
    """Running jobs, and those that wait to take the place of whichever of them ends well."""

    attempts: tuple[int, ...] = ()  # of these jobs
    standbys: tuple[int, ...] = ()  # first things first


@dataclass(slots=True)
class Group:
    """A named set of jobs that can be paused or limited together."""

    name: str
    paused: bool = False
    max_running: int | None = None
    running: int = 0
