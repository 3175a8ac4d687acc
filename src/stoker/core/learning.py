"""What readings of GPUs teach: peaks, when they have settled, kinds of jobs, and what to do then.

Pure: it looks at the state and says which events follow. A kind's profile only ever grows until
its user has it forgotten: reserving too much costs room, too little costs a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stoker.core import events as ev
from stoker.core.gpu import Gpu, together_mib
from stoker.core.model import ALONE, MOST_OOM_RETRIES, Attempt, Cause, Job, Memory, Profile
from stoker.core.needs import largest_mib
from stoker.core.suspending import ran_ms

if TYPE_CHECKING:
    from stoker.core.state import State

# Less than this is what a process has before its work begins.
_LEAST_MIB = 64
# Growth by less than this, of a peak, is noise.
_NOISE_PERCENT = 2
_NOISE_MIB = 32
# An attempt that has run for so much longer than its kind needs to reach its peak has reached it.
_PAST_PEAK = 1.15
_RUNS_TO_TRUST = 2
# A reading says something about an end that came no later than this after it.
_FRESH_MS = 3_000
_FULL_MIB = 256
# A GPU this busy does not tell how much more it was asked for.
_BUSY_PERCENT = 95
# So much of a GPU's use, and a tenth of what its neighbours use, is not taken for an attempt's own.
_USE_NOISE = 3
# Where neighbours hide whether an attempt computes, its memory has to rest so much longer.
_LONGER_UNSEEN = 10
_MARGIN_PAST_PEAK = 0.1  # of the margin, once there is little left to happen
_WORTH_A_CHANGE = 0.95  # a reservation is made smaller only by more than this


@dataclass(frozen=True, slots=True)
class Habits:
    """What a user can set about learning."""

    settle_ms: int = 30_000  # a peak that has not grown for so long is taken to be the peak


def consequences(state: State, habits: Habits) -> Iterator[ev.Event]:
    """The events that follow from the latest readings. Apply each before asking for the next."""
    for gpu in list(state.gpus.values()):
        if gpu.reading is not None and gpu.reading.lost:
            yield from _lost(state, gpu)
    # By their ids: what one teaches of its kind counts for those after it, also after a restart.
    for job_id in sorted(state.active):
        job = state.jobs[job_id]
        attempt = job.active
        if attempt is None or not attempt.gpus or attempt.started_at_ms is None:
            continue
        yield from _watched(state, job, attempt, habits)


def _lost(state: State, gpu: Gpu) -> Iterator[ev.Event]:
    for job_id in list(gpu.held_by):
        attempt = state.jobs[job_id].active
        if attempt is not None and attempt.stop is None:
            yield ev.StopRequested(state.now_ms, job_id, attempt.number, Cause.GPU_LOST)


def _watched(state: State, job: Job, attempt: Attempt, habits: Habits) -> Iterator[ev.Event]:
    used = used_mib(state, job.id, attempt)
    if used is None or used < _LEAST_MIB:
        return
    key = (job.id, attempt.number)
    peak = attempt.peak_mib or 0
    if used > peak + max(_NOISE_MIB, peak * _NOISE_PERCENT // 100):
        yield ev.MemorySeen(state.now_ms, *key, used, True, False)
    elif used > peak:
        # It counts in full, and yet its peak has not moved.
        yield ev.MemorySeen(state.now_ms, *key, used, False, attempt.settled)
    settles = not attempt.settled and _has_settled(state, job.id, attempt, habits)
    if settles:
        yield ev.MemorySeen(state.now_ms, *key, attempt.peak_mib or used, False, True)
    if job.need.kind is not None:
        yield from _kind_watched(state, job, attempt, settles)
    yield from _fitted(state, job, attempt)


def _kind_watched(state: State, job: Job, attempt: Attempt, settles: bool) -> Iterator[ev.Event]:
    """A first run that has settled tells of its kind before its end; one that grows corrects it."""
    kind, peak = job.need.kind, attempt.peak_mib
    assert kind is not None and peak is not None
    profile = state.profiles.get(kind)
    if profile is None:
        if attempt.settled:
            use = use_alone(state, job.id, attempt)
            settle_ms = _time_to_peak_ms(attempt)
            fresh = Profile(kind, 0, peak, float(peak), 0.0, settle_ms, use, 0, state.now_ms)
            yield ev.ProfileLearned(state.now_ms, fresh)
        return
    use = profile.use_percent
    if attempt.settled and use is None:
        use = use_alone(state, job.id, attempt)
    elif settles and all(len(state.gpus[gpu_id].held_by) == 1 for gpu_id in attempt.gpus):
        # What one uses that is alone is more certain than what was told from others' use.
        seen = use_alone(state, job.id, attempt)
        use = use if use is None or seen is None else (use + seen + 1) // 2
    if peak > profile.max_mib or use != profile.use_percent:
        grown = replace(
            profile, max_mib=max(peak, profile.max_mib), use_percent=use, updated_at_ms=state.now_ms
        )
        yield ev.ProfileLearned(state.now_ms, grown)


def _fitted(state: State, job: Job, attempt: Attempt) -> Iterator[ev.Event]:
    """The event that makes an attempt's reservation agree with what it was seen to use."""
    fitting = _fitting_mib(state, job, attempt)
    if fitting is None:
        return
    wanted, firm, growth = fitting
    reserved = reserved_mib(state, attempt, job.id)
    if wanted > reserved:
        # More is taken only where there is room, but what is used is not free, come what may.
        room = min(_room_for(state.gpus[gpu_id], job.id) for gpu_id in attempt.gpus)
        wanted = min(wanted, max(room, attempt.peak_mib or 0, reserved))
    kept_to_grow = 0 if attempt.memory is None else attempt.memory.growth_mib
    if wanted > reserved or wanted < reserved * _WORTH_A_CHANGE or growth < kept_to_grow:
        memory = Memory(wanted, max(0, wanted - firm), growth)
        yield ev.ReservationChanged(state.now_ms, job.id, attempt.number, memory)


def _fitting_mib(state: State, job: Job, attempt: Attempt) -> tuple[int, int, int] | None:
    """What to reserve for an attempt, what of it is no margin, what to keep beside it to grow.

    None to leave it as it is.
    """
    need, peak = job.need, attempt.peak_mib
    if peak is None or need.whole or job.floor_mib == ALONE:
        return None
    profile = state.profiles.get(need.kind or "")
    said = need.mem_mib or 0
    if profile is None:
        # The first of its kind keeps all that it was given until it has settled.
        return (need.with_margin(peak), peak, 0) if said and peak > said else None
    if attempt.settled and _past_peak(profile, attempt, state.now_ms):
        return max(need.with_margin(peak, _MARGIN_PAST_PEAK), said), max(peak, said), 0
    if said >= max(profile.max_mib, peak):
        return None
    # It may still grow as others of its kind did.
    least = max(job.floor_mib or 0, said)
    most = max(profile.max_mib, peak)
    return max(need.with_margin(most), least), max(most, least), profile.growth_mib(need)


def next_look_ms(state: State, habits: Habits) -> int | None:
    """When a reading may teach something next, although nothing on a GPU has changed by then."""
    moments = []
    for job_id in state.active:
        job = state.jobs[job_id]
        attempt = job.active
        if attempt is None or attempt.peak_at_ms is None or attempt.started_at_ms is None:
            continue
        if not attempt.settled:
            moments.append(attempt.peak_at_ms + habits.settle_ms)
            moments.append(attempt.peak_at_ms + habits.settle_ms * _LONGER_UNSEEN)
        profile = state.profiles.get(job.need.kind or "")
        if profile is not None and profile.count >= _RUNS_TO_TRUST:
            moments.append(attempt.started_at_ms + int(profile.settle_ms * _PAST_PEAK) + 1)
    return min((moment for moment in moments if moment > state.now_ms), default=None)


def _past_peak(profile: Profile, attempt: Attempt, now_ms: int) -> bool:
    if profile.count < _RUNS_TO_TRUST or attempt.started_at_ms is None:
        return False
    return ran_ms(attempt, now_ms) > profile.settle_ms * _PAST_PEAK


def _room_for(gpu: Gpu, job_id: int) -> int:
    """What the job could have of a GPU, as the others on it are."""
    others = [held for holder, held in gpu.held_by.items() if holder != job_id]
    most_margin = max((held.memory.margin_mib for held in others), default=0)
    shared = min(gpu.held_by[job_id].memory.margin_mib, most_margin)
    return (gpu.memory_mib or 0) - gpu.others_mib - together_mib(others) + shared


def reserved_mib(state: State, attempt: Attempt, job_id: int) -> int:
    """What an attempt has reserved on each of its GPUs; the least, where they differ."""
    return min((state.gpus[g].held_by[job_id].memory.mib for g in attempt.gpus), default=0)


def used_mib(state: State, job_id: int, attempt: Attempt) -> int | None:
    """What the attempt uses now on that of its GPUs on which it uses most; None if not told."""
    readings = [state.gpus[gpu_id].reading for gpu_id in attempt.gpus]
    since_ms = attempt.started_at_ms or 0
    told = [one.ours_mib.get(job_id, 0) for one in readings if one and one.at_ms >= since_ms]
    return max((used for used in told if used is not None), default=None)


def use_alone(state: State, job_id: int, attempt: Attempt) -> int | None:
    """How much of a GPU the attempt uses, as far as that can be told from the whole."""
    if attempt.suspended_at_ms is not None:
        return None
    uses = []
    for gpu_id in attempt.gpus:
        gpu = state.gpus[gpu_id]
        use, rest = _use_now(gpu), _use_of_neighbours(state, gpu, job_id, settled=True)
        if use is None or rest is None or gpu.others or (rest and use >= _BUSY_PERCENT):
            return None
        uses.append(max(0, use - rest))
    return max(uses, default=None)


def _use_now(gpu: Gpu) -> int | None:
    """How much of it is used by those that are there now; None if the last reading can't tell."""
    reading = gpu.reading
    return None if reading is None or reading.at_ms < gpu.changed_at_ms else reading.use_percent


def _use_of_neighbours(state: State, gpu: Gpu, job_id: int, *, settled: bool = False) -> int | None:
    """What the others of ours use on a GPU; None if that is not known of one of them.

    `settled`: nor if one has not settled, and so may not use yet what others of its kind do.
    """
    rest = 0
    for other in gpu.held_by:
        attempt = state.jobs[other].active
        if other == job_id or attempt is None or attempt.suspended_at_ms is not None:
            continue
        known = state.use_percent(state.jobs[other].need)
        if known is None or (settled and not attempt.settled):
            return None
        if gpu.reading is None or other not in gpu.reading.ours_mib:
            return None  # Its process is not there yet, or not any more.
        rest += known
    return rest


def _has_settled(state: State, job_id: int, attempt: Attempt, habits: Habits) -> bool:
    if attempt.peak_mib is None or attempt.peak_at_ms is None:
        return False
    if attempt.suspended_at_ms is not None:
        return False
    if state.now_ms - attempt.peak_at_ms < habits.settle_ms:
        return False
    # A program that has only its context, and loads its data, does not compute yet.
    worked = [_has_worked(state, gpu_id, job_id) for gpu_id in attempt.gpus]
    if True in worked:
        return True
    # Where others hide what it uses, its memory has to rest for longer to be believed.
    rested_ms = state.now_ms - attempt.peak_at_ms
    return None in worked and rested_ms >= habits.settle_ms * _LONGER_UNSEEN


def _has_worked(state: State, gpu_id: str, job_id: int) -> bool | None:
    """Whether the attempt of a job computes on a GPU; None if that is hidden by its neighbours."""
    gpu = state.gpus[gpu_id]
    if gpu.reading is None or gpu.reading.use_percent is None:
        return gpu.reading is not None  # Where the driver does not tell, memory alone counts.
    use, rest = _use_now(gpu), _use_of_neighbours(state, gpu, job_id)
    if not use:
        return False
    if rest is None or gpu.others:
        return None
    return True if not rest or use - rest > _USE_NOISE + rest // 10 else None


def _time_to_peak_ms(attempt: Attempt) -> int:
    if attempt.peak_at_ms is None or attempt.started_at_ms is None:
        return 0
    # The moment of the peak is moved along when an attempt that was suspended goes on.
    return max(0, attempt.peak_at_ms - attempt.started_at_ms - attempt.suspended_ms)


def after_run(profile: Profile | None, job: Job, attempt: Attempt, now_ms: int) -> Profile | None:
    """What is known of a kind after one more run of it has been seen to its end."""
    kind, peak = job.need.kind, attempt.peak_mib
    if kind is None or peak is None:
        return None
    settle_ms = _time_to_peak_ms(attempt)
    run_ms = ran_ms(attempt, now_ms)
    if profile is None:
        return Profile(kind, 1, peak, float(peak), 0.0, settle_ms, None, 0, now_ms, run_ms)
    count = profile.count + 1
    before = profile.mean_mib if profile.count else float(peak)
    mean = before + (peak - before) / count
    return replace(
        profile,
        count=count,
        max_mib=max(profile.max_mib, peak),
        mean_mib=mean,
        spread=profile.spread + (peak - before) * (peak - mean),
        settle_ms=max(profile.settle_ms, settle_ms),
        updated_at_ms=now_ms,
        longest_ms=max(profile.longest_ms, run_ms),
    )


def gpus_were_full(state: State, attempt: Attempt) -> bool:
    """True if, when last looked at, there was hardly any memory left on a GPU of the attempt."""
    for gpu_id in attempt.gpus:
        gpu = state.gpus[gpu_id]
        reading = gpu.reading
        if reading is None or reading.used_mib is None or gpu.memory_mib is None:
            continue
        if reading.at_ms < max(attempt.placed_at_ms, state.now_ms - _FRESH_MS):
            continue
        if gpu.memory_mib - reading.used_mib <= max(_FULL_MIB, gpu.memory_mib // 50):
            return True
    return False


def pinned_mib(state: State, job: Job, attempt: Attempt) -> int | None:
    """The most that MPS is to let an attempt have of its GPU; None for no limit.

    A limit is for the whole life of a process, and a reservation is not. What a kind needs is
    trusted so far only when some of its runs were seen to their end: before that a late peak, for
    which there may be room, would be held against all of them.
    """
    held = state.gpus[attempt.gpus[0]].held_by[job.id]
    if held.whole or not held.memory.mib:
        return None
    if job.need.learns:
        profile = state.profiles.get(job.need.kind or "")
        if profile is None or profile.count < _RUNS_TO_TRUST:
            return None
    return held.memory.mib


@dataclass(frozen=True, slots=True)
class AfterOom:
    """What the next attempt of a job that ran out of memory gets, and what its kind teaches."""

    floor_mib: int | None
    profile: Profile | None


def after_out_of_memory(state: State, job: Job, attempt: Attempt) -> AfterOom | None:
    """What follows an attempt that ran out of memory; None if more can't be had.

    Ask before it gives its GPUs back.
    """
    gpus = [state.gpus[gpu_id] for gpu_id in attempt.gpus]
    if not gpus or job.ooms >= MOST_OOM_RETRIES:
        return None
    largest = largest_mib(job.need, state.gpus.values())
    had_all = all(len(gpu.held_by) == 1 and not gpu.others for gpu in gpus)
    if job.terms.mps and pinned_mib(state, job, attempt) is not None:
        had_all = False  # MPS kept it from what was free.
    if had_all and min(gpu.memory_mib or 0 for gpu in gpus) >= largest:
        return None
    reserved = reserved_mib(state, attempt, job.id)
    peak = attempt.peak_mib or 0
    overfull = any(gpu.room_mib < 0 or _neighbour_grew(state, gpu, job.id) for gpu in gpus)
    last = job.ooms + 1 >= MOST_OOM_RETRIES
    if overfull and peak <= reserved and not last:
        # Others took what was its own: it needs no more than it had.
        return AfterOom(job.floor_mib, None)
    base = max(reserved if not had_all else 0, peak)
    floor = max(job.need.with_margin(base), base * 3 // 2)
    if last or had_all or floor >= largest:
        floor = ALONE
    kind = job.need.kind
    profile = state.profiles.get(kind) if kind is not None else None
    if profile is None and kind is not None:
        # Those after it are not to find out again that it was too little.
        profile = Profile(kind, 0, base, float(base), 0.0, 0, None, 0, state.now_ms)
    if profile is not None:
        profile = replace(
            profile,
            max_mib=min(largest, max(profile.max_mib, base * 6 // 5)),
            ooms=profile.ooms + 1,
            updated_at_ms=state.now_ms,
        )
    return AfterOom(floor, profile)


def _neighbour_grew(state: State, gpu: Gpu, job_id: int) -> bool:
    """True if another on the GPU uses more than it was given at first."""
    for other, held in gpu.held_by.items():
        attempt = state.jobs[other].active
        if other == job_id or attempt is None or attempt.peak_mib is None:
            continue
        need = state.jobs[other].need
        if attempt.peak_mib > held.memory.mib or (
            need.mem_mib is not None and attempt.peak_mib > need.mem_mib
        ):
            return True
    return False
