"""From what an inventory sees to what the state is told of it.

Pure. Whose a process is was asked of the executor before; what has no known owner counts as
someone else's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.core import events as ev
from stoker.core.gpu import Gpu, GpuReading
from stoker.core.state import State
from stoker.ports import OURS, VANISHED, SeenGpu, Sighting

# Memory that no process is said to have, as contexts and rounding leave it.
_UNACCOUNTED_MIB = 512


def differences(state: State, sighting: Sighting) -> Iterator[ev.Event]:
    """The events by which the state comes to agree with what is seen."""
    now_ms = state.now_ms
    if sighting.cpus != state.cpus:
        yield ev.CpusCounted(now_ms, sighting.cpus)
    if sighting.gpus is None:
        return
    seen = {gpu.id: gpu for gpu in sighting.gpus}
    chosen = {gpu.id for gpu in state.gpus.values() if gpu.declared and not gpu.vendor}
    for gpu in seen.values():
        yield from _seen(state, gpu, chosen - set(seen))
    numbers = {_label(gpu) for gpu in seen.values()}
    for gpu_id in [g.id for g in state.gpus.values() if g.id not in seen]:
        known = state.gpus[gpu_id]
        if known.held_by and gpu_id in numbers:
            # The same device, declared by its number before there was a driver: it takes its new
            # name when what runs there has ended.
            if not known.drained:
                yield ev.GpuDrained(now_ms, gpu_id)
        elif not known.removing or known.vendor:
            yield ev.GpuRemoved(now_ms, gpu_id, gone=True)


def _label(gpu: SeenGpu) -> str:
    return "" if gpu.index is None or gpu.id == str(gpu.index) else str(gpu.index)


def _seen(state: State, gpu: SeenGpu, chosen: set[str]) -> Iterator[ev.Event]:
    """What follows from seeing a GPU; `chosen` are those that the user named by number before."""
    known = state.gpus.get(gpu.id)
    label = _label(gpu)
    memory_mib = gpu.memory_mib
    if memory_mib is not None and gpu.reserved_mib is not None:
        memory_mib -= gpu.reserved_mib
    if known is not None:
        if memory_mib is None:
            memory_mib = known.memory_mib  # It can't be asked now, but it has not changed.
        back = known.removing and not known.vendor
        same = (known.memory_mib, known.label, known.vendor) == (memory_mib, label, gpu.vendor)
        if same and not back:
            return
        hidden = known.removing and bool(known.vendor)
    else:
        declared = state.gpus.get(label) if label else None
        if declared is not None and declared.held_by:
            return
        hidden = bool(chosen) and label not in chosen
    yield ev.GpuAdded(
        state.now_ms, gpu.id, memory_mib, label=label, vendor=gpu.vendor, hidden=hidden
    )


def readings(state: State, sighting: Sighting, owners: Mapping[int, int]) -> dict[str, GpuReading]:
    """What was measured on each GPU, told apart into ours and others'.

    `owners` has the job of each process; OURS for one that is ours and no job's, VANISHED for one
    that is not there any more. What is not in it is someone else's.
    """
    found = {}
    for seen in sighting.gpus or ():
        gpu = state.gpus.get(seen.id)
        if gpu is not None and seen.measured_at_ms is not None:
            found[gpu.id] = _reading(gpu, seen, owners, sighting.foreign)
    return found


def _reading(gpu: Gpu, seen: SeenGpu, owners: Mapping[int, int], foreign: str) -> GpuReading:
    assert seen.measured_at_ms is not None
    ours: dict[int, int | None] = {}
    others, others_mib, untold, accounted = 0, 0, False, 0
    other_pids: list[int] = []
    for process in seen.processes:
        owner = owners.get(process.pid)
        accounted += process.used_mib or 0
        if owner == VANISHED:
            continue
        if owner is None or owner == OURS or owner not in gpu.held_by:
            # What a job of ours left behind, or has where it should not be, is used all the same.
            if owner is None:
                others += process.computes
                other_pids.append(process.pid)
            others_mib += process.used_mib or 0
            untold = untold or process.used_mib is None
        elif process.used_mib is None:
            ours[owner] = None
        elif owner not in ours or ours[owner] is not None:
            ours[owner] = (ours.get(owner) or 0) + process.used_mib
    used = seen.used_mib
    if used is not None:
        _account(gpu, ours, used - others_mib, others == 0)
        spoken_for = accounted + sum(
            gpu.held_by[job_id].memory.mib
            for job_id in gpu.held_by
            if job_id not in ours or ours[job_id] is None
        )
        if untold or used - spoken_for > _UNACCOUNTED_MIB:
            others_mib += max(0, used - spoken_for)
    if foreign == "ignore":
        others = others_mib = 0
    return GpuReading(
        seen.measured_at_ms,
        used,
        ours,
        others,
        others_mib,
        tuple(other_pids),
        closed=foreign == "wait" and others > 0,
        use_percent=seen.utilisation_percent,
        fault=seen.fault,
        lost=seen.lost,
        distances=dict(seen.distances),
    )


def _account(gpu: Gpu, ours: dict[int, int | None], used_mib: int, alone: bool) -> None:
    """Where the driver does not tell what each process has, one who is alone has it all."""
    if len(gpu.held_by) == 1 and alone and used_mib > 0:
        (job_id,) = gpu.held_by
        if ours.get(job_id) is None:
            ours[job_id] = used_mib
