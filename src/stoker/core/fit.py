"""Which GPUs: whether a need fits a GPU, and which of those that fit are best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stoker.core.model import WHOLE_SHARE_MILLI, Gpu, Need, Reservation


def natural(gpu_id: str) -> tuple[int, int, str]:
    """Sorts "2" before "10", and numbers before names."""
    return (0, int(gpu_id), "") if gpu_id.isdecimal() else (1, 0, gpu_id)


def could_ever_fit(need: Need, gpu: Gpu) -> bool:
    """True if the need fits this GPU when it is empty, drained or not."""
    if gpu.removing or (need.on and gpu.id not in need.on):
        return False
    return need.mem_mib is None or (gpu.memory_mib is not None and need.mem_mib <= gpu.memory_mib)


def eligible(need: Need, gpu: Gpu) -> bool:
    """True if the need may be placed here once there is room."""
    return gpu.usable and could_ever_fit(need, gpu)


def reservation(need: Need, gpu: Gpu) -> Reservation:
    """What the need takes of this GPU: a share takes its part of the memory too."""
    if need.whole:
        return Reservation(True, WHOLE_SHARE_MILLI, gpu.memory_mib or 0, need.max_per_gpu)
    share = need.share_milli or 0
    mem = need.mem_mib
    if mem is None:
        mem = (gpu.memory_mib or 0) * share // WHOLE_SHARE_MILLI
    return Reservation(False, share, mem, need.max_per_gpu)


def fits_beside(new: Reservation, others: Iterable[Reservation], gpu: Gpu) -> bool:
    """True if the reservations can all be on the GPU together."""
    held = list(others)
    if not held:
        return True
    if new.whole or any(r.whole for r in held):
        return False
    limits = [r.max_per_gpu for r in (new, *held) if r.max_per_gpu is not None]
    if limits and len(held) + 1 > min(limits):
        return False
    if new.share_milli + sum(r.share_milli for r in held) > WHOLE_SHARE_MILLI:
        return False
    return gpu.memory_mib is None or (new.mem_mib + sum(r.mem_mib for r in held) <= gpu.memory_mib)


def has_room(need: Need, gpu: Gpu) -> bool:
    """True if the need fits beside what is on the GPU now."""
    return fits_beside(reservation(need, gpu), gpu.held_by.values(), gpu)


def best(need: Need, candidates: Sequence[Gpu]) -> list[Gpu]:
    """The candidates, best first: what the user prefers, then the tightest fit, then the index.

    Whole GPUs go to the smallest device that will do, shared ones to the fullest: what is left
    over stays as large as it can.
    """
    preferred = {gpu_id: place for place, gpu_id in enumerate(need.prefer)}

    def rank(gpu: Gpu) -> tuple[int, int, int, tuple[int, int, str]]:
        memory = gpu.memory_mib or 0
        if need.whole:
            tightness = (memory, 0)
        else:
            tightness = (memory - gpu.reserved_mib, -gpu.share_used_milli)
        return (preferred.get(gpu.id, len(preferred)), *tightness, natural(gpu.id))

    return sorted(candidates, key=rank)
