"""Who wants what in a simulated run: jobs of all kinds, and users who change their minds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from stoker.core import events as ev
from stoker.core.model import Cause, Exit, JobState, Need, Requirement, Terms
from stoker.core.order import Policy
from stoker.core.state import State
from stoker.engine import Decided
from stoker.errors import Unavailable
from stoker.ports import SeenGpu
from stoker.sim.devices import Phase
from stoker.sim.world import NEVER_MS, Behaviour
from stoker.store.memory import MemoryStore

GPUS = (SeenGpu("0", 24_576), SeenGpu("1", 24_576), SeenGpu("2", 24_576), SeenGpu("3", 49_152))
MEASURED_GPUS = tuple(replace(gpu, index=int(gpu.id), vendor="stand-in") for gpu in GPUS)
CPUS = 4
A_SWEEP = 20  # Every other so many jobs are alike.


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job of the scenario: what is submitted, what its command does, and what its user does."""

    need: Need
    terms: Terms
    behaviours: tuple[Behaviour, ...]
    # Jobs before it, by how far back, and whether they must succeed; of a range, the last too.
    requires: tuple[tuple[int, bool, int | None], ...]
    cancel_after_ms: int | None
    priority: int = 0
    group: str | None = None
    held: bool = False
    at_after_ms: int | None = None  # of --at, so long after its submission
    retry_after_ms: int | None = None


def wanted(random: Random, place: int) -> Wanted:
    """The job that is submitted as number `place`, counting from 0."""
    if place // A_SWEEP % 2:
        return _one_of_a_sweep(random)
    behaviour, limit_ms, cancel_after_ms = _life(random)
    retries = random.choice((0, 0, 0, 1, 2))
    behaviours: tuple[Behaviour, ...] = (behaviour,)
    if retries and random.random() < 0.5:
        behaviours = (behaviour, Behaviour(random.randrange(1, 5_000), Exit(code=0)))
    fails = not behaviour.exit.ok or behaviour.cannot_start is not None
    requires: tuple[tuple[int, bool, int | None], ...] = ()
    if place > 5 and random.random() < 0.2:
        back, must = random.randrange(1, 6), random.random() < 0.6
        # Every other one waits for all from there up to a later one.
        through = (back + 1) // 2 if place % 2 else None
        requires = ((back, must, through),)
    return Wanted(
        need=_need(random),
        terms=Terms(
            time_limit_ms=limit_ms,
            grace_ms=500,
            signal=10 if limit_ms and random.random() < 0.5 else None,
            signal_before_ms=300,
            retries=retries,
            attached=random.random() < 0.1,
        ),
        behaviours=behaviours,
        priority=random.choice((0, 0, 0, -1, 5)),
        group=random.choice((None, None, "a", "b")),
        requires=requires,
        held=random.random() < 0.05,
        at_after_ms=random.randrange(1, 3_000) if random.random() < 0.05 else None,
        cancel_after_ms=cancel_after_ms,
        retry_after_ms=random.randrange(1, 20_000) if fails and random.random() < 0.3 else None,
    )


def _one_of_a_sweep(random: Random) -> Wanted:
    """One of many that need the same, so that one of them may take over from another."""
    behaviour, _, cancel_after_ms = _life(random)
    if behaviour.runs_ms == NEVER_MS and cancel_after_ms is None:
        cancel_after_ms = 5_000  # Here no time limit ends it.
    requires = ((random.randrange(1, 6), True, None),) if random.random() < 0.05 else ()
    return Wanted(
        need=Need(gpus=1),
        terms=Terms(grace_ms=500, attached=random.random() < 0.02),
        behaviours=(behaviour,),
        requires=requires,
        cancel_after_ms=cancel_after_ms,
    )


def going_on(random: Random, asked: Wanted) -> Wanted:
    """A job that does its work in several attempts, and is put back after each.

    Some do so by themselves, some because their slices are over. Some never make progress.
    """
    saves = Exit(code=75)
    heeds_ms = random.choice((10, 10, None))
    one = Behaviour(random.randrange(1, 4_000), saves, heeds_ms, None, saves, True)
    # It begins anew each time, so that only one that is shorter than a slice can be the last.
    ends_as = random.choice((Exit(code=0), Exit(code=0), Exit(code=1)))
    last = replace(one, runs_ms=random.randrange(1, 150), exit=ends_as)
    behaviours = (*[one] * random.randrange(1, 6), last)
    if random.random() < 0.1:
        behaviours = (replace(one, progresses=False),)
    terms = replace(
        asked.terms,
        signal=random.choice((None, 12)),
        attached=False,
        requeue_on=(75,),
        slice_ms=random.choice((None, 500, 1_500)),
        keep_place=random.random() < 0.2,
        requeue=random.random() < 0.5,
    )
    return replace(asked, terms=terms, behaviours=behaviours, retry_after_ms=None)


def giving_way(random: Random, asked: Wanted) -> Wanted:
    """An urgent job, or one that offers to give way for such and saves its work now and then."""
    if random.random() < 0.3:
        return replace(asked, terms=replace(asked.terms, urgent=True))
    wanted = going_on(random, asked)
    saves_ms = random.choice((None, 100, 700))
    *others, last = (replace(one, saves_every_ms=saves_ms) for one in wanted.behaviours)
    behaviours = (*(replace(one, runs_ms=5 * one.runs_ms) for one in others), last)
    terms = replace(wanted.terms, preemptible=True, yields=random.choice((1, 3, 3)))
    return replace(wanted, terms=terms, behaviours=behaviours)


_KINDS = {"small": 3_000, "middle": 9_000, "large": 20_000}  # and their peaks


def measured(random: Random, asked: Wanted) -> Wanted:
    """A job whose memory is learned: it grows, some late, and some take more than their kind."""
    kind = random.choice(tuple(_KINDS))
    peak = round(_KINDS[kind] * random.choice((0.9, 1.0, 1.0, 1.0, 1.6)))
    use = (random.choice((0, 10, 60)),)
    phases = [Phase(0, 300), Phase(random.randrange(1, 300), peak // 2, use)]
    phases.append(Phase(random.randrange(300, 2_000), peak, use))
    if random.random() < 0.3:
        phases.append(Phase(random.randrange(2_000, 4_000), peak // 3, use))
    says = random.choice((None, None, None, peak // 2))
    need = Need(random.choice((1, 1, 1, 2)), kind=kind, mem_mib=says)
    behaviours = tuple(replace(one, phases=tuple(phases)) for one in asked.behaviours)
    return replace(asked, need=need, behaviours=behaviours)


def of_a_kind(random: Random, asked: Wanted) -> Wanted:
    """A job whose run time is learned. What runs well runs about as long as others of its kind."""
    terms = replace(asked.terms, run_kind=random.choice(("", "short", "long")))
    return replace(asked, terms=terms)


def _need(random: Random) -> Need:
    return random.choice(
        (
            Need(gpus=1),
            Need(gpus=1),
            Need(gpus=2),
            Need(gpus=4),
            Need(gpus=1, mem_mib=random.choice((4_000, 8_000, 20_000))),
            Need(gpus=2, mem_mib=10_000),
            Need(gpus=1, share_milli=500),
            Need(gpus=1, on=("1", "2")),
            Need(gpus=1, mem_mib=30_000),
            Need(gpus=1, mem_mib=2_000, max_per_gpu=2),
            Need(gpus=0, cpus=random.choice((1, 2, 4))),
            Need(gpus=1, cpus=2),
            Need(gpus=1, prefer=("3", "0")),
        )
    )


def _life(random: Random) -> tuple[Behaviour, int | None, int | None]:
    """What a command does, its time limit, and when its user loses patience."""
    kind = random.random()
    runs_ms = random.randrange(1, 5_000)
    limit_ms = random.choice((None, None, 2_000, 10_000))
    if kind < 0.10:
        return Behaviour(runs_ms, Exit(code=random.randrange(1, 256))), limit_ms, None
    if kind < 0.16:
        return Behaviour(runs_ms, Exit(signal=random.choice((6, 9, 11)))), limit_ms, None
    if kind < 0.20:
        cause = random.choice((Cause.NOT_STARTED, Cause.TERMINAL_GONE))
        return Behaviour(1, Exit(code=0), cannot_start=cause), limit_ms, None
    if kind < 0.30:
        endless = Behaviour(NEVER_MS, Exit(code=0), random.choice((10, None)))
        patient = limit_ms is not None and random.random() < 0.5
        return endless, limit_ms, None if patient else random.randrange(1, 20_000)
    if kind < 0.36:
        return Behaviour(runs_ms, Exit(code=0)), limit_ms, random.randrange(1, 3_000)
    return Behaviour(runs_ms, Exit(code=0)), limit_ms, None


# ---------------------------------------------------------------------- what users ask for
#
# A user whose request was committed just before a crash got no answer and asks again, so each of
# these grants nothing if it was granted before.


def set_policy(policy: Policy, record: MemoryStore, state: State) -> Decided:
    """Let the queue go by another policy."""
    return Decided([ev.PolicySet(state.now_ms, policy)])


def submit(job_id: int, asked: Wanted, record: MemoryStore, state: State) -> Decided:
    """Queue a job."""
    if job_id < state.next_job_id:
        return Decided([])  # It was committed before the crash; the user sees that.
    now_ms = state.now_ms
    requires: list[Requirement] = []
    skips: list[ev.Event] = []
    for back, must, through in asked.requires:
        last_id = None if through is None else job_id - through
        requirement = Requirement(job_id - back, must, last_id)
        standing = {i: ended_as(record, state, i) for i in requirement.ids}
        bad = [i for i, s in standing.items() if s not in (None, JobState.SUCCEEDED)]
        if None in standing.values() or (must and bad):
            requires.append(requirement)
        if must and bad:
            as_what = standing[bad[0]]
            assert as_what is not None
            skips = [ev.JobSkipped(now_ms, job_id, bad[0], as_what)]
    submitted = ev.JobSubmitted(
        now_ms,
        job_id,
        asked.need,
        asked.terms,
        asked.priority,
        asked.group,
        None if asked.at_after_ms is None else now_ms + asked.at_after_ms,
        tuple(requires),
        asked.held,
    )
    return Decided([submitted, *skips])


def retry(job_id: int, asked: Wanted, record: MemoryStore, state: State) -> Decided:
    """Queue a job that failed once more."""
    as_what = ended_as(record, state, job_id)
    if as_what in (None, JobState.SUCCEEDED, JobState.SKIPPED):
        return Decided([])
    attempts = [n for (j, n) in record.attempts if j == job_id]
    attempts += [
        ended.attempt.number
        for ended in state.change.ended
        if ended.job.id == job_id and ended.attempt is not None
    ]
    if max(attempts, default=0) > asked.terms.retries + 1:
        return Decided([])  # It had its tries and one more, so it was granted before.
    retried = ev.JobRetried(
        state.now_ms,
        job_id,
        asked.need,
        asked.terms,
        asked.priority,
        asked.group,
        (),
        max(attempts, default=0),
    )
    return Decided([retried])


def ended_as(record: MemoryStore, state: State, job_id: int) -> JobState | None:
    """How a job ended, be it in this very turn; None if it has not."""
    if job_id in state.jobs:
        return None
    for ended in state.change.ended:
        if ended.job.id == job_id and ended.job_is_final:
            return ended.outcome.state
    return record.outcomes[job_id].state


def release(job_id: int, _: MemoryStore, state: State) -> Decided:
    """Let a held job go."""
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.HELD:
        return Decided([])
    return Decided([ev.JobReleased(state.now_ms, job_id)])


def hold(job_id: int, _: MemoryStore, state: State) -> Decided:
    """Put a waiting job aside."""
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.WAITING:
        return Decided([])
    return Decided([ev.JobHeld(state.now_ms, job_id)])


def cancel(job_id: int, _: MemoryStore, state: State) -> Decided:
    """Call a job off, wherever it stands."""
    job = state.jobs.get(job_id)
    if job_id >= state.next_job_id:
        raise Unavailable(f"job {job_id} is not there yet")  # Its submission was refused.
    if job is None:
        return Decided([])
    if job.active is None:
        return Decided([ev.JobCancelled(state.now_ms, job_id)])
    stop = job.active.stop
    # Some of them are not their users' to end, but their search's.
    if job_id % 3 == 0 and stop is None:
        early = Cause.STOPPED_EARLY
        return Decided([ev.StopRequested(state.now_ms, job_id, job.active.number, early, "here")])
    if stop is not None and stop.cause in (Cause.CANCELLED, Cause.STOPPED_EARLY):
        return Decided([])
    return Decided([ev.StopRequested(state.now_ms, job_id, job.active.number, Cause.CANCELLED)])


def requeue(job_id: int, _: MemoryStore, state: State) -> Decided:
    """Put a running job back."""
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.RUNNING or job.terms.attached:
        return Decided([])
    return Decided([ev.StopRequested(state.now_ms, job_id, job.attempt, Cause.REQUEUED)])


def suspend(job_id: int, _: MemoryStore, state: State) -> Decided:
    """Stop the processes of a running job."""
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.RUNNING or job.terms.attached:
        return Decided([])
    return Decided([ev.SuspendRequested(state.now_ms, job_id, job.attempt)])


def go_on(job_id: int, _: MemoryStore, state: State) -> Decided:
    """Continue a suspended job."""
    job = state.jobs.get(job_id)
    if job is None or job.active is None or job.active.suspended_at_ms is None:
        return Decided([])
    return Decided([ev.ContinueRequested(state.now_ms, job_id, job.attempt)])


def give_way(job_id: int, _: MemoryStore, state: State) -> Decided:
    """Let a running job give way that offered it."""
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.RUNNING or not job.terms.preemptible:
        return Decided([])
    return Decided([ev.StopRequested(state.now_ms, job_id, job.attempt, Cause.GAVE_WAY)])


def reprioritise(job_id: int, priority: int, _: MemoryStore, state: State) -> Decided:
    """Move a queued job forward or back."""
    job = state.jobs.get(job_id)
    if job is None or job.active is not None or job.priority == priority:
        return Decided([])
    edited = ev.JobEdited(
        state.now_ms, job_id, job.need, job.terms, priority, job.group, job.not_before_ms
    )
    return Decided([edited])


def pause(group: str | None, _: MemoryStore, state: State) -> Decided:
    """Start nothing new, in a group or at all."""
    paused = state.paused if group is None else state.group_of(group).paused
    return Decided([] if paused else [ev.QueuePaused(state.now_ms, group)])


def resume(group: str | None, _: MemoryStore, state: State) -> Decided:
    """Go on."""
    paused = state.paused if group is None else state.group_of(group).paused
    return Decided([ev.QueueResumed(state.now_ms, group)] if paused else [])


def limit(group: str, max_running: int, _: MemoryStore, state: State) -> Decided:
    """Let at most so many of a group run."""
    if state.group_of(group).max_running == max_running:
        return Decided([])
    return Decided([ev.GroupLimited(state.now_ms, group, max_running)])


def drain(gpu_id: str, _: MemoryStore, state: State) -> Decided:
    """Place nothing new on a GPU."""
    gpu = state.gpus.get(gpu_id)
    if gpu is None or gpu.drained:
        return Decided([])
    return Decided([ev.GpuDrained(state.now_ms, gpu_id)])


def undrain(gpu_id: str, _: MemoryStore, state: State) -> Decided:
    """Use a GPU again."""
    gpu = state.gpus.get(gpu_id)
    if gpu is None or not gpu.drained:
        return Decided([])
    return Decided([ev.GpuResumed(state.now_ms, gpu_id)])
