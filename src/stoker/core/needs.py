"""What a job needs, as far as is known of its kind by now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from stoker.core.fit import could_ever_fit
from stoker.core.gpu import Gpu
from stoker.core.model import ALONE, Need, Profile


def learned_need(
    need: Need, floor_mib: int | None, gpus: Collection[Gpu], profiles: Mapping[str, Profile]
) -> Need:
    """A need with the memory that is known of its kind; `floor_mib` is what was too little."""
    largest = largest_mib(need, gpus)
    if floor_mib == ALONE:
        on = tuple(g.id for g in _may_use(need, gpus) if (g.memory_mib or 0) >= largest)
        return replace(need, kind=None, mem_mib=None, share_milli=None, exclusive=True, on=on)
    if need.exclusive or not largest:
        # Where it is not known how much there is, a job has its GPUs for itself.
        return replace(need, kind=None)
    firm_mib = mem_mib = max(need.mem_mib or 0, floor_mib or 0)
    growth_mib = 0
    profile = profiles.get(need.kind or "")
    if profile is not None and profile.max_mib > (need.mem_mib or 0):
        # What is seen counts for more than what is said.
        firm_mib = max(firm_mib, profile.max_mib)
        mem_mib = max(mem_mib, need.with_margin(profile.max_mib))
        growth_mib = profile.growth_mib(need)
    if mem_mib == (need.mem_mib or 0):
        return need
    mem_mib = min(mem_mib, largest)
    return replace(
        need,
        mem_mib=mem_mib,
        margin_mib=max(0, mem_mib - firm_mib),
        growth_mib=min(growth_mib, largest - mem_mib),
    )


def largest_mib(need: Need, gpus: Collection[Gpu]) -> int:
    """The memory of the largest GPUs of which there are enough for the need; 0 if unknown."""
    sizes = sorted((gpu.memory_mib or 0 for gpu in _may_use(need, gpus)), reverse=True)
    return sizes[need.gpus - 1] if 0 < need.gpus <= len(sizes) else 0


def _may_use(need: Need, gpus: Collection[Gpu]) -> list[Gpu]:
    anywhere = replace(need, mem_mib=None)
    return [gpu for gpu in gpus if could_ever_fit(anywhere, gpu)]
