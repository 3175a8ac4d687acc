"""Why a job waits: worked out for the one that a user asks about, by the plan itself.

To ask changes nothing: a question has a `Scan` of its own, and only reads the queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import islice

from stoker.core import reasons as why
from stoker.core.fit import could_ever_fit, eligible, has_room, room_for_mib
from stoker.core.foreign import ForeignProcess
from stoker.core.giving_way import (
    gives_way_for,
    giving_way_for,
    next_offer,
    none_gives_way,
)
from stoker.core.gpu import Gpu
from stoker.core.model import (
    WHOLE_SHARE_MILLI,
    Cause,
    Job,
    JobState,
    Need,
    Requirement,
    Suspension,
    goes_before_all,
)
from stoker.core.order import Policy
from stoker.core.plan import MOST_BLOCKED_CLASSES, Scan
from stoker.core.policy_reasons import FairShares, ShortestFirst
from stoker.core.ready import ReadyQueue
from stoker.core.scouts import has_room_to_scout, scouts_for
from stoker.core.state import State
from stoker.core.timers import kill_ms
from stoker.core.use import most_use, use_allows, use_on

MOST_TOLD = 10  # of the jobs that another waits for


def _missing(state: State, requirement: Requirement) -> Iterable[int]:
    """The jobs that a requirement is still about; of very many, some."""
    if requirement.last_id is None:
        return (requirement.job_id,)
    return islice(state.dependencies.barriers.missing(requirement), MOST_TOLD)


# What others could make room for.
_FOR_ROOM = (why.NeedsGpus, why.NeedsMemory, why.NeedsShare, why.NeedsCpus, why.NeedsUse,
             why.GroupIsFull, why.HeldBack)  # fmt: skip


def why_not_going_on(job: Job) -> why.IsSuspended | why.GivesWay | None:
    """Why a job that was started does not go on: it is suspended, or gives way."""
    attempt = job.active
    if attempt is None:
        return None
    if attempt.stop is not None and attempt.stop.cause is Cause.GAVE_WAY:
        return why.GivesWay(gives_way_for(job), kill_ms(job))
    if attempt.suspended_at_ms is None:
        return None
    return why.IsSuspended(attempt.suspended_at_ms, attempt.suspension is Suspension.LASTS)


def reason_for(state: State, job: Job) -> why.Reason:
    """Why a queued job does not run, worked out for this job alone."""
    return with_giving_way(state, job, plain_reason(state, job))


def with_giving_way(state: State, job: Job, reason: why.Reason) -> why.Reason:
    """What there is to say besides, where others give way for a job, or it did for another."""
    gave_way = job.gave_way
    if gave_way is not None and gave_way.for_job is not None and job.state is JobState.WAITING:
        return why.HasGivenWay(gave_way.for_job, job.goes_first, reason)
    if not job.terms.urgent or not isinstance(reason, _FOR_ROOM):
        return reason
    others = giving_way_for(state, job)
    if others:
        until_ms = max(kill_ms(one) for one in others)
        return why.WaitsForGivingWay(tuple(one.id for one in others), until_ms)
    if isinstance(reason, why.GroupIsFull) or not none_gives_way(state, job):
        return reason
    offer = next_offer(state)
    return why.NoneGivesWay(reason) if offer is None else why.NoneGivesWay(reason, *reversed(offer))


def with_policy(state: State, job: Job, reason: why.Reason, ahead: int) -> why.Reason:
    """What there is to say besides, where others go first by the policy; so many are ahead."""
    order = state.order
    if order.policy is Policy.FIFO or not ahead or not isinstance(reason, _FOR_ROOM):
        return reason
    if job.in_class is None or goes_before_all(job.rank):
        return reason
    if order.policy is Policy.FAIR:
        return FairShares(ahead, job.group, order.used_ms(job.group), reason)
    expected_ms = order.expected_gpu_ms(job.need, job.terms.run_kind)
    return ShortestFirst(ahead, expected_ms, order.first_ms(job.rank, expected_ms), reason)


def plain_reason(state: State, job: Job) -> why.Reason:
    """The same as if none ever gave way. Jobs that planning can't tell apart share the answer."""
    if job.state is JobState.HELD:
        return why.IsHeld()
    if job.requires and not state.ready.has(job):
        processes = [r.process for r in job.requires if r.process is not None]
        if len(processes) == len(job.requires):
            shown = (ForeignProcess.of(process).shown for process in processes)
            return why.WaitsForProcesses(tuple(shown))
        others = [
            (i, r.must_succeed)
            for r in job.requires
            if r.process is None
            for i in _missing(state, r)
        ]
        must = {i for i, must_succeed in others if must_succeed}
        ids = tuple(dict.fromkeys(i for i, _ in others))
        only_end = tuple(i for i in ids if i not in must) if must else ()
        return why.WaitsForJobs(ids, bool(must), only_end)
    if job.backoff_until_ms is not None and job.backoff_until_ms > state.now_ms:
        if job.id in state.short_alone:
            return why.MachineIsShort(state.short_alone[job.id].what, job.backoff_until_ms)
        return why.WaitsForTime(job.backoff_until_ms, after_failure=True)
    if job.terms.executor:
        return _handover_reason(state, job)
    if job.not_before_ms is not None and job.not_before_ms > state.now_ms:
        return why.WaitsForTime(job.not_before_ms, after_failure=False)
    if state.lacks_terminal(job):
        return why.NeedsTerminal()
    impossible = can_never_start(state, state.need_of(job))
    if impossible is not None:
        return impossible
    if state.paused:
        return why.QueueIsPaused(None)
    scan = Scan(state)
    blocked = scan.group_blocks(job)
    if blocked is not None:
        return blocked
    reason = _room_reason(scan, job)
    low = state.low_disk
    if low is not None and low.stops and isinstance(reason, why.IsNext):
        return why.DiskIsLow(low.path, low.free_mib, low.least_mib)
    if isinstance(reason, why.IsNext) and state.short is not None:
        return why.MachineIsShort(state.short.what, state.short.until_ms)
    return reason


def _handover_reason(state: State, job: Job) -> why.Reason:
    """Why a job that is a cluster's has not been handed over."""
    if state.paused:
        return why.QueueIsPaused(None)
    blocked = Scan(state).group_blocks(job)
    if blocked is not None:
        return blocked
    if state.at_cluster >= state.at_cluster_most:
        return why.ClusterIsFull(state.at_cluster_most)
    return why.IsNext()


def can_never_start(state: State, need: Need) -> why.CanNeverStart | why.NeedsCpus | None:
    """Set if the need can't be met by the GPUs and CPUs as they are, were they all free."""
    if need.cpus > state.cpus:
        return why.NeedsCpus(need.cpus, state.cpus, state.cpus)
    could = [gpu for gpu in state.gpus.values() if could_ever_fit(need, gpu)]
    usable = sum(gpu.usable for gpu in could)
    if usable >= need.gpus:
        return None
    return why.CanNeverStart(need.gpus, len(could), len(could) - usable)


def _room_reason(scan: Scan, job: Job) -> why.Reason:
    state, need = scan.state, scan.state.need_of(job)
    free_cpus = state.cpus - state.cpus_used
    if need.cpus > free_cpus:
        return why.NeedsCpus(need.cpus, free_cpus, state.cpus)
    allowed = [gpu for gpu in scan.gpus_for(need) if eligible(need, gpu)]
    scouts = scouts_for(state, need)
    if scouts:
        return why.WaitsForScout(scouts[0])
    if need.learns:
        roomy = [
            gpu
            for gpu in allowed
            if not (gpu.held_by or gpu.others) or has_room_to_scout(state, need, gpu)
        ]
    else:
        roomy = [gpu for gpu in allowed if has_room(need, gpu)]
    if len(roomy) < need.gpus:
        return _gpu_shortage(state, job, allowed, len(roomy))
    if not (need.whole or need.learns):
        idle = [gpu for gpu in roomy if not gpu.held_by or use_allows(state, job.need, gpu)]
        if len(idle) < need.gpus:
            least = min(roomy, key=lambda gpu: use_on(state, gpu))
            use = state.use_percent(job.need) or 0
            return why.NeedsUse(use, use_on(state, least), most_use(state), least.shown_as)
    # There is room, so a job before it has a hold on it: see which, in the order of the queue.
    mine = state.ready.key_of(job)
    for head in _in_order(state.ready):
        if state.ready.key_of(head) >= mine:
            break
        wanted = state.need_of(head)
        if (
            scan.group_blocks(head) is None
            and not scouts_for(state, wanted)
            and scan.place(head) is None
            and scan.could_start(wanted)
        ):
            scan.hold_back(head)
    if scan.place(job) is not None:
        return why.IsNext()
    held = [gpu.id for gpu in roomy if not scan.hold_allows(job, gpu)]
    if len(roomy) - len(held) < need.gpus:
        shown = tuple(state.gpus[gpu_id].shown_as for gpu_id in held)
        return why.HeldBack(scan.held_for(job, held[0]), shown)
    assert scan.cpus_held_for is not None
    return why.HeldBack(scan.cpus_held_for, ())


def _in_order(ready: ReadyQueue) -> Iterable[Job]:
    """The heads of the classes as planning would come to them."""
    lines = [
        islice(ready.in_line(line), MOST_BLOCKED_CLASSES)
        for line in (*ready.gpu_lines(), ready.cpu_line)
    ]
    return merge(*lines, key=ready.key_of)


def _gpu_shortage(state: State, job: Job, allowed: list[Gpu], free: int) -> why.Reason:
    need = state.need_of(job)
    shareable = [g for g in allowed if not any(r.whole for r in g.held_by.values())]
    others = sum(1 for gpu in allowed if gpu.others)
    adopted = sorted({i for gpu in allowed for i in gpu.held_by if state.jobs[i].terms.adopted})
    too_few = why.NeedsGpus(need.gpus, free, len(allowed), others, need.share_milli, tuple(adopted))
    if need.whole or need.learns or need.gpus > 1 or not shareable:
        return too_few
    if need.mem_mib is not None:
        room_mib, roomiest = max(
            ((room_for_mib(need, gpu), gpu) for gpu in shareable), key=lambda found: found[0]
        )
        if room_mib < need.mem_mib:
            profile = state.profiles.get(job.need.kind or "") if need is not job.need else None
            return why.NeedsMemory(
                need.mem_mib,
                max(0, room_mib),
                roomiest.shown_as,
                None if profile is None else profile.count,
                job.ooms,
            )
    if need.share_milli is not None:
        roomiest = min(shareable, key=lambda gpu: gpu.share_used_milli)
        left = WHOLE_SHARE_MILLI - roomiest.share_used_milli
        if left < need.share_milli:
            return why.NeedsShare(need.share_milli, left, roomiest.shown_as)
    return too_few
