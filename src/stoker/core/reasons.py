"""Why a job waits, as values; each front end renders them in its own way.

`words` is the rendering that the command line and the page share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stoker.core.model import Cause, Exit, JobState, Outcome
from stoker.core.policy_reasons import FairShares, PolicyReason, ShortestFirst, policy_words
from stoker.core.shortage import LowDisk


@dataclass(frozen=True, slots=True)
class IsHeld:
    """Its user holds it back."""


@dataclass(frozen=True, slots=True)
class QueueIsPaused:
    """Nothing starts at all, or nothing of its group."""

    group: str | None


@dataclass(frozen=True, slots=True)
class DaemonIsEnding:
    """The daemon starts nothing more, and ends with the last job that runs."""


@dataclass(frozen=True, slots=True)
class GroupIsFull:
    """As many of its group run as may."""

    group: str
    max_running: int


@dataclass(frozen=True, slots=True)
class WaitsForTime:
    """It is not to start before a moment."""

    until_ms: int
    after_failure: bool


@dataclass(frozen=True, slots=True)
class MachineIsShort:
    """A start has failed for want of something; the next is tried then."""

    what: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class DiskIsLow:
    """Less is free on a disk of Stoker's than is to stay free."""

    path: str
    free_mib: int
    least_mib: int


@dataclass(frozen=True, slots=True)
class WaitsForJobs:
    """Other jobs must end first."""

    job_ids: tuple[int, ...]
    must_succeed: bool
    only_end: tuple[int, ...] = ()  # those of them that need not succeed, if others must


@dataclass(frozen=True, slots=True)
class WaitsForProcesses:
    """Processes that are not ours must end first; each with its command."""

    processes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NeedsTerminal:
    """It is to run in a terminal whose client is not there."""


@dataclass(frozen=True, slots=True)
class NeedsGpus:
    """Not enough GPUs have room for it."""

    wanted: int
    free: int
    allowed: int  # how many exist that it may use at all
    others: int = 0  # how many of these are used by other programs
    share_milli: int | None = None  # of one GPU, if it does not want all of it
    adopted: tuple[int, ...] = ()  # jobs on these that Stoker did not start


@dataclass(frozen=True, slots=True)
class NeedsMemory:
    """No GPU has enough memory left."""

    wanted_mib: int
    most_free_mib: int
    gpu: str
    learned_from: int | None = None  # so many runs of its kind, if that is how it is known
    out_of_memory: int = 0  # so often it ran out of it, and gets more each time


@dataclass(frozen=True, slots=True)
class NeedsUse:
    """There is memory, but those on the GPUs keep them busy already."""

    wanted_percent: int
    least_percent: int  # on the GPU that is used least
    most_percent: int  # together, as it is now
    gpu: str


@dataclass(frozen=True, slots=True)
class WaitsForScout:
    """The first job of its kind is running, and how much memory it needs is not known yet."""

    job_id: int


@dataclass(frozen=True, slots=True)
class NeedsShare:
    """No GPU has a large enough share left."""

    wanted_milli: int
    most_free_milli: int
    gpu: str


@dataclass(frozen=True, slots=True)
class NeedsCpus:
    """Not enough CPU slots are free."""

    wanted: int
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class HeldBack:
    """There would be room, but it is kept for a job that comes before."""

    for_job: int
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CanNeverStart:
    """As the GPUs are now, it can't start, however long it waits."""

    wanted: int
    could_fit: int
    drained: int


@dataclass(frozen=True, slots=True)
class ClusterIsFull:
    """As many jobs are with the cluster as may."""

    most: int


@dataclass(frozen=True, slots=True)
class AtCluster:
    """It was handed over, and the cluster has not started it; `reason` is the cluster's own word.

    `id` is empty until the cluster has taken it. If the cluster does not answer, `unheard_since_ms`
    is the moment as of which the rest was true.
    """

    id: str
    reason: str
    unheard_since_ms: int | None


@dataclass(frozen=True, slots=True)
class IsSuspended:
    """It runs, but its user wants its processes to stand still; not all of them may do so yet."""

    since_ms: int
    all_stopped: bool


@dataclass(frozen=True, slots=True)
class IsNext:
    """Nothing stands in its way: it starts with the next turn."""


@dataclass(frozen=True, slots=True)
class WaitsForGivingWay:
    """It is urgent, and other jobs were told to give way for it."""

    job_ids: tuple[int, ...]
    until_ms: int  # by then they have ended


@dataclass(frozen=True, slots=True)
class NoneGivesWay:
    """It is urgent, and no job that offered to give way can make room for it now."""

    then: Reason  # why it waits
    next_id: int | None = None  # the job that may be told to give way again first,
    from_ms: int | None = None  # and from when on


@dataclass(frozen=True, slots=True)
class GivesWay:
    """It was told to give way, and is ending."""

    for_job: int | None  # None: its user wanted it
    until_ms: int  # by then it has ended


@dataclass(frozen=True, slots=True)
class HasGivenWay:
    """It has given way for an urgent job, and waits since then."""

    for_job: int
    goes_first: bool  # it has waited so long that it goes before all others
    then: Reason


Reason = (
    IsHeld | QueueIsPaused | DaemonIsEnding | GroupIsFull | WaitsForTime | MachineIsShort
    | DiskIsLow | WaitsForJobs | WaitsForProcesses | NeedsTerminal | NeedsGpus | NeedsMemory
    | NeedsUse | WaitsForScout | NeedsShare | NeedsCpus | HeldBack | CanNeverStart | ClusterIsFull
    | AtCluster | IsSuspended | IsNext | WaitsForGivingWay | NoneGivesWay | HasGivenWay | GivesWay
    | PolicyReason
)  # fmt: skip


def as_data(reason: Reason) -> dict[str, Any]:
    """The reason for JSON: its kind and its fields."""
    data = {"kind": type(reason).__name__, **asdict(reason)}
    return {**data, "then": as_data(reason.then)} if hasattr(reason, "then") else data


def gib(mib: int) -> str:
    """Memory for people."""
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib} MiB"


def plural(count: int, noun: str) -> str:
    """ "1 GPU", "2 GPUs"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def words(reason: Reason, now_ms: int) -> str:
    """The reason in words."""
    match reason:
        case IsHeld():
            return "held; `stoker release` lets it go"
        case QueueIsPaused(group=None):
            return "the queue is paused; `stoker resume` lets it go on"
        case QueueIsPaused(group=group):
            return f"group {group} is paused; `stoker resume --group {group}` lets it go on"
        case DaemonIsEnding():
            return "the daemon is draining: it starts nothing more; the next one will"
        case GroupIsFull(group=group, max_running=most):
            return f"group {group} runs at most {plural(most, 'job')} at a time"
        case WaitsForTime(until_ms=until, after_failure=failed):
            wait = _duration(max(0, until - now_ms))
            return f"tries again in {wait} after a failure" if failed else f"starts in {wait}"
        case MachineIsShort(what=what, until_ms=until):
            when = _duration(until - now_ms) if until > now_ms else ""
            return f"could not start: {what}; tries again " + (f"in {when}" if when else "now")
        case DiskIsLow():
            return f"nothing starts: {low_disk_words(reason)}"
        case WaitsForJobs(job_ids=ids, must_succeed=must, only_end=only_end):
            first = _named_jobs([i for i in ids if i not in only_end])
            also = f" and {_named_jobs(only_end)} to end" if only_end else ""
            return f"waits for {first} to {'succeed' if must else 'end'}{also}"
        case WaitsForProcesses(processes=shown):
            noun = "process" if len(shown) == 1 else "processes"
            return f"waiting for {noun} {', '.join(shown)} to end"
        case NeedsTerminal():
            return "its terminal (`stoker run`) is not connected; called off if it stays away"
        case NeedsGpus(wanted=wanted, free=free, allowed=allowed, share_milli=share):
            what = plural(wanted, "GPU") if share is None else f"{share / 1000:g} of a GPU"
            return f"needs {what}, {free} of {allowed} free{_used_words(reason)}"
        case NeedsMemory():
            return _memory_words(reason)
        case NeedsUse(wanted_percent=wanted, least_percent=least, most_percent=most, gpu=gpu):
            return (
                f"uses {wanted}% of a GPU, and the least busy, GPU {gpu}, has {least}% in use "
                f"(together at most {most}%)"
            )
        case WaitsForScout(job_id=job_id):
            return f"waits until it is known how much memory job {job_id} needs, which is like it"
        case NeedsShare(wanted_milli=wanted, most_free_milli=most, gpu=gpu):
            return f"needs {wanted / 1000:g} of a GPU, most room is {most / 1000:g} on GPU {gpu}"
        case NeedsCpus(wanted=wanted, free=free, total=total):
            return f"needs {plural(wanted, 'CPU slot')}, {free} of {total} free"
        case HeldBack(for_job=job_id, gpus=gpus):
            if not gpus:
                return f"CPU slots are kept for job {job_id}, which is before it"
            noun = "GPU" if len(gpus) == 1 else "GPUs"
            kept = "is" if len(gpus) == 1 else "are"
            return f"{noun} {', '.join(gpus)} {kept} kept for job {job_id}, which is before it"
        case CanNeverStart(wanted=wanted, could_fit=could, drained=drained):
            drain = f" ({drained} more {'is' if drained == 1 else 'are'} drained)"
            return (
                f"needs {plural(wanted, 'GPU')}, and only {could - drained} could ever fit it"
                f"{drain if drained else ''}; "
                "add or resume a GPU, or edit the job"
            )
        case ClusterIsFull(most=most):
            return f"{plural(most, 'job')} may be with the cluster at a time (`slurm.jobs`)"
        case AtCluster():
            return _at_cluster(reason, now_ms)
        case IsSuspended(since_ms=since, all_stopped=stopped):
            how = f"suspended for {_duration(max(0, now_ms - since))}"
            how += "" if stopped else ", and not all of its processes have stopped yet"
            return f"{how}; `stoker resume ID` lets it go on"
        case IsNext():
            return "starts next"
        case WaitsForGivingWay(job_ids=ids, until_ms=until):
            when = _duration(max(0, until - now_ms))
            return f"waits for {_named_jobs(ids)} to give way, at the latest in {when}"
        case NoneGivesWay(then=then, next_id=job_id, from_ms=from_ms):
            if job_id is None or from_ms is None:
                none = "none that offered to give way (--preemptible) can make room for it"
            else:
                left = _duration(max(0, from_ms - now_ms))
                none = f"job {job_id} offered to give way, but is left alone for another {left}"
                none += ", since it gave way before"
            return f"{words(then, now_ms)}; {none}"
        case GivesWay(for_job=job_id, until_ms=until):
            whose = "" if job_id is None else f" for job {job_id}"
            return f"gives way{whose}, at the latest in {_duration(max(0, until - now_ms))}"
        case HasGivenWay(for_job=job_id, goes_first=first, then=then):
            long = " more than an hour ago, so it goes first now" if first else ""
            return f"gave way for job {job_id}{long}; {words(then, now_ms)}"
        case ShortestFirst(then=then) | FairShares(then=then):
            return f"{policy_words(reason, now_ms, _duration)}; {words(then, now_ms)}"


def low_disk_words(low: DiskIsLow | LowDisk) -> str:
    """How little room a disk has, and what can be done about it."""
    return (
        f"the disk of {low.path} has only {gib(low.free_mib)} free, and jobs start with "
        f"{gib(low.least_mib)} or more (setting disk-stop); `stoker disk` shows what takes room"
    )


def tight_disk_words(low: LowDisk) -> str:
    """The same while jobs still start."""
    return (
        f"the disk of {low.path} has only {gib(low.free_mib)} free (setting disk-warn: "
        f"{gib(low.least_mib)}); `stoker disk` shows what takes room"
    )


def _named_jobs(ids: Sequence[int]) -> str:
    """ "job 4", "jobs 4, 5"; of very many, the first."""
    names = ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")
    return f"{'job' if len(ids) == 1 else 'jobs'} {names}"


def _used_words(reason: NeedsGpus) -> str:
    """Who has the GPUs, as far as it is not what Stoker has started."""
    used = [f"{reason.others} used by other programs"] if reason.others else []
    if reason.adopted:
        noun = "job" if len(reason.adopted) == 1 else "jobs"
        used.append(f"used by adopted {noun} {', '.join(map(str, reason.adopted))}")
    return f" ({'; '.join(used)})" if used else ""


def _memory_words(reason: NeedsMemory) -> str:
    how = " of GPU memory"
    if reason.out_of_memory:
        times = {1: "once", 2: "twice"}.get(reason.out_of_memory, f"{reason.out_of_memory} times")
        how = f" (it ran out of memory {times})"
    elif reason.learned_from:
        how = f" (learned from {plural(reason.learned_from, 'run')})"
    elif reason.learned_from is not None:
        how = " (learned from a run that goes on)"
    room = f"most room is {gib(reason.most_free_mib)} on GPU {reason.gpu}"
    return f"needs {gib(reason.wanted_mib)}{how}, {room}"


_CLUSTER_WORDS = {
    "None": "is next at the cluster",
    "Priority": "waits at the cluster: others have priority",
    "Resources": "waits at the cluster for resources",
    "Dependency": "waits at the cluster for the jobs that it requires",
    "BeginTime": "waits at the cluster for its time",
    "JobHeldUser": "is held at the cluster by its user",
    "JobHeldAdmin": "is held at the cluster by an administrator",
    "PartitionDown": "waits at the cluster: the partition is down",
    "PartitionTimeLimit": "waits at the cluster: its time limit is more than the partition allows",
    "ReqNodeNotAvail": "waits at the cluster: the nodes it needs are not available",
}


def _at_cluster(at: AtCluster, now_ms: int) -> str:
    if not at.id:
        text = at.reason or "is being handed over to the cluster"
    else:
        # What has no words of its own here is the administrators' word, or a newer version's.
        said = _CLUSTER_WORDS.get(at.reason) or f"waits at the cluster: {at.reason}"
        text = f"{said} (job {at.id})"
    unheard = unheard_words(at, now_ms)
    return text if unheard is None else f"{text}; {unheard}"


def unheard_words(at: AtCluster, now_ms: int) -> str | None:
    """For how long the cluster has not answered, if it does not."""
    if at.unheard_since_ms is None:
        return None
    return f"the cluster has not answered for {_duration(max(0, now_ms - at.unheard_since_ms))}"


def _duration(ms: int) -> str:
    seconds = -(-ms // 1000)
    if seconds < 60:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours < 48 else f"{hours // 24}d {hours % 24}h"


def outcome_words(outcome: Outcome) -> str | None:
    """Why a job ended as it did; None where the state says it all."""
    if outcome.state is JobState.SUCCEEDED:
        return None
    how = outcome.exit
    match outcome.cause:
        case Cause.EXIT:
            assert how is not None
            return f"{_exit_words(how)} {outcome.detail}".rstrip()
        case Cause.SLICE:
            return f"its slice was over{_how_words(how)}"
        case Cause.GAVE_WAY:
            for_job = f" for job {outcome.detail}" if outcome.detail else ""
            return f"gave way{for_job}{_how_words(how)}"
        case Cause.STUCK:
            times = plural(int(outcome.detail or 1), "attempt")
            return (
                f"no progress in {times} in a row: nothing was written to its checkpoint directory "
                f"and no further step was reported{_how_words(how)}"
            )
        case Cause.TIME_LIMIT | Cause.OUT_OF_MEMORY | Cause.GPU_LOST | Cause.MPS_FAULT:
            return str(outcome.cause)
        case Cause.NODE_MEMORY:
            return "out of memory on its node"
        case Cause.REQUEUED if outcome.state is JobState.WAITING:
            return f"requeued by its user{_how_words(how)}"
        case Cause.PREEMPTED | Cause.NODE_FAILED | Cause.REQUEUED | Cause.CLUSTER:
            return outcome.detail or str(outcome.cause)
        case Cause.NOT_STARTED | Cause.SHORTAGE:
            return f"could not start: {outcome.detail}"
        case Cause.CANCELLED:
            return outcome.detail or None
        case Cause.STOPPED_EARLY:
            return f"stopped early {outcome.detail}".rstrip()
        case Cause.TERMINAL_GONE:
            return outcome.detail or "its terminal was gone"
        case Cause.REQUIREMENT:
            job_id, _, state = outcome.detail.partition(" ")
            ended = f"ended as {state}" if state else "did not succeed"
            return f"job {job_id}, which it needs, {ended}"
        case Cause.NO_TRACE:
            return outcome.detail or "no process and no exit code was left"


_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT",
    7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2",
    13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
}  # fmt: skip


def _exit_words(how: Exit) -> str:
    return f"exit code {how.code}" if how.signal is None else _signal(how.signal)


def _how_words(how: Exit | None) -> str:
    return "" if how is None else f" ({_exit_words(how)})"


def _signal(number: int) -> str:
    return f"signal {number} ({_SIGNALS[number]})" if number in _SIGNALS else f"signal {number}"
