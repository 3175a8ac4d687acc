"""How busy GPUs are with what is on them, as far as is known of the kinds, and what is too much."""

from __future__ import annotations

from collections.abc import Callable

from stoker.core.gpu import Gpu
from stoker.core.model import Need
from stoker.core.state import State

# Jobs are put together on a GPU while the sum of what each uses of it alone is not above the first;
# the second counts when no GPU is free. Beyond that, measured pairs gain little.
MOST_USE_PERCENT = 125
MOST_USE_PERCENT_WHEN_FULL = 175
_ALL_PERCENT = 100


def use_allows(state: State, need: Need, gpu: Gpu) -> bool:
    """Whether the GPU has time for one more, as far as is known what each uses of it."""
    mine = state.use_percent(need)
    return mine is None or mine + use_on(state, gpu) <= most_use(state)


def use_on(state: State, gpu: Gpu) -> int:
    """How much of the GPU those use that are there, as far as is known."""
    return sum(state.use_percent(state.jobs[job_id].need) or 0 for job_id in gpu.held_by)


def most_use(state: State) -> int:
    """How much of a GPU may be in use with one more on it."""
    free = any(gpu.usable and not gpu.held_by for gpu in state.gpus.values())
    return MOST_USE_PERCENT if free else MOST_USE_PERCENT_WHEN_FULL


def slow_down(state: State, need: Need) -> Callable[[Gpu], int]:
    """How much more than all of a GPU would be asked for, with one more on it.

    A job of which nothing is known asks for all of a GPU.
    """

    def use_of(one: Need) -> int:
        known = state.use_percent(one)
        return _ALL_PERCENT if known is None else known

    mine = use_of(need)

    def beyond(gpu: Gpu) -> int:
        asked = mine + sum(use_of(state.jobs[job_id].need) for job_id in gpu.held_by)
        return max(0, asked - _ALL_PERCENT)

    return beyond
