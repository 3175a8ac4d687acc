"""Going ahead of a job that GPUs are held back for, on learned run times and not on time limits.

A job may go ahead if nine of ten that are like it have ended by the moment at which, in nine of ten
cases, what the held-back job waits for is still there. What can be lost is bounded: this holds only
while it waits for a job that came before it. Of these there are only so many, and once the last of
them has ended nothing more goes ahead, so that it then waits for what runs already and no longer.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.core.model import Job
from stoker.core.order import Policy
from stoker.core.run_times import longer_than, quantile
from stoker.core.state import State
from stoker.core.suspending import ran_ms

_LEAST_RUNS = 8
_SURE = 0.9


def should_take_ms(state: State, job: Job) -> int | None:
    """How long a job that has not started takes in nine of ten cases; None if that is not known."""
    runs = _runs(state, job)
    return quantile(sorted(runs), _SURE) if len(runs) >= _LEAST_RUNS else None


def surely_there_until_ms(state: State, job: Job, in_the_way: Iterable[int]) -> int | None:
    """Until when, in nine of ten cases, a job waits for one that came before it.

    None if that can't be told, or if all that is in its way came after it; and with `shortest`,
    where those that would go ahead take more GPU time: in the traces that we have, that costs more
    than it gains.
    """
    if state.order.policy is Policy.SHORTEST:
        return None
    until = [_surely_runs_until_ms(state, state.jobs[i]) for i in in_the_way if i < job.id]
    return max((moment for moment in until if moment is not None), default=None)


def _surely_runs_until_ms(state: State, job: Job) -> int | None:
    attempt, runs = job.active, _runs(state, job)
    if attempt is None or attempt.stop is not None or attempt.suspended_at_ms is not None:
        return None
    ran = ran_ms(attempt, state.now_ms)
    longer = longer_than(runs, ran)
    if len(runs) < _LEAST_RUNS or longer[0] not in runs:
        return None  # It has outlived all of them, and may end any moment.
    return state.now_ms + quantile(longer, 1 - _SURE) - ran


def _runs(state: State, job: Job) -> tuple[int, ...]:
    return state.order.run_times.of(job.terms.run_kind, job.need.gpus)
