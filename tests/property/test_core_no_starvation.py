"""No job waits for ever, by any policy: a bound is computed for each job, and none starts later.

All jobs need one GPU, so that while one waits, all GPUs are busy. Then what is done meanwhile is no
more than the work of those that may go first, and that can be added up.
"""

from __future__ import annotations

from random import Random

import pytest

from stoker.core.model import Job, Need, Terms
from stoker.core.order import MINUTE_MS, Policy
from stoker.core.state import State
from stoker.sim.play import Arrival, Play, Ran, gpus_like

GPUS = 3
JOBS = 150
KINDS = {"short": MINUTE_MS, "middle": 10 * MINUTE_MS, "long": 60 * MINUTE_MS}
GROUPS = ("a", "b", "c")
CHARGED_MS = 10 * MINUTE_MS


def arrivals(seed: int) -> list[Arrival]:
    """More than the GPUs can do for a while; the short ones come as a stream that does not end."""
    random = Random(seed)
    made = []
    for number in range(JOBS):
        kind = random.choice(("short", "short", "middle", "long"))
        runs_ms = max(1_000, round(KINDS[kind] * random.lognormvariate(0, 0.4)))
        at_ms = number * 3 * MINUTE_MS
        group, priority = random.choice(GROUPS), random.choice((0, 0, 1))
        made.append(Arrival(at_ms, Need(), runs_ms, (), Terms(run_kind=kind), priority, group))
    return made


def played(policy: Policy, seed: int) -> tuple[list[Ran], dict[int, int]]:
    """What became of the jobs; and the latest moment from which on new jobs went behind each."""
    play = Play(arrivals(seed), gpus_like(GPUS, None, measured=False), policy=policy)
    first: dict[int, int] = {}
    going_on = True
    while going_on:
        going_on = play.step()
        state = play.engine.state
        for job in state.jobs.values():
            if job.active is None:
                moment = _first_ms(state, job) - play.clock.wall_ahead_ms
                first[job.id] = max(moment, first.get(job.id, moment))
    return play.ran, first


def _first_ms(state: State, job: Job) -> int:
    order = state.order
    return order.first_ms(job.rank, order.expected_gpu_ms(job.need, job.terms.run_kind))


def bound_ms(policy: Policy, ran: list[Ran], job_id: int, first: dict[int, int]) -> int:
    """Until when a job has started: those before it by priority, and those that the policy lets."""
    mine = ran[job_id - 1].arrival
    equals = [
        (place, one.arrival)
        for place, one in enumerate(ran, 1)
        if one.arrival.priority == mine.priority and place != job_id
    ]
    longest = max(one.arrival.runs_ms for one in ran)
    better = sum(one.arrival.runs_ms for one in ran if one.arrival.priority < mine.priority)
    until = first.get(job_id, mine.at_ms) + MINUTE_MS
    if policy is Policy.SHORTEST:
        work = sum(one.runs_ms for _, one in equals if one.at_ms <= until)
        return max(mine.at_ms, until) + (better + work) // GPUS + longest
    if policy is Policy.FIFO:
        work = sum(one.runs_ms for place, one in equals if place < job_id)
        return mine.at_ms + (better + work) // GPUS + longest
    # Each other group goes first until it has used as much as this one, which is at most all that
    # its jobs do; what a group has running, and is charged ahead, comes on top.
    own = sum(one.runs_ms for place, one in equals if one.group == mine.group and place < job_id)
    used = sum(one.arrival.runs_ms for one in ran[: job_id - 1] if one.arrival.group == mine.group)
    others = (len(GROUPS) - 1) * (used + GPUS * (longest + CHARGED_MS))
    return mine.at_ms + (better + own + others) // GPUS + longest


@pytest.mark.parametrize("policy", Policy)
def test_every_job_starts_within_its_bound_and_better_priorities_first(policy: Policy) -> None:
    for seed in range(3):
        ran, first = played(policy, seed)
        waits = []
        for job_id, one in enumerate(ran, 1):
            began_ms = one.stays[0].from_ms
            assert began_ms <= bound_ms(policy, ran, job_id, first), f"job {job_id} by {policy}"
            waits.append(began_ms - one.arrival.at_ms)
        assert max(waits) > 30 * MINUTE_MS, "the queue was long"
        _check_priorities(ran)


def _check_priorities(ran: list[Ran]) -> None:
    for one in ran:
        for other in ran:
            if other.arrival.priority < one.arrival.priority:
                waited = other.arrival.at_ms < one.stays[0].from_ms < other.stays[0].from_ms
                assert not waited, "a job of a better priority waited while this one started"
