"""Orders about GPUs, and the settings that a user can change."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core import events as ev
from stoker.core.state import State
from stoker.engine import Decided, Wish
from stoker.errors import NotFound, UsageError
from stoker.quantities import declared_gpus, declared_gpus_text, gpu_ids

AUTO = "auto"


def add(texts: Sequence[str]) -> Wish:
    """Declare GPUs, one or several a text: "4", "4:24G", "0-3:80G"; or use ones that are seen."""
    declared = [item for text in texts for item in declared_gpus(text)]
    if not declared:
        raise UsageError("no GPU was named", "e.g. `stoker gpus add 4` or `stoker gpus add 4:24G`")

    def wish(state: State) -> Decided:
        events = _all_added(state, declared)
        return Decided(events, [gpu for gpu, _ in declared])

    return wish


def declare(text: str | None) -> Wish:
    """Let these be all GPUs: `stoker config set gpus`. None: all that a driver shows."""
    declared = dict(declared_gpus(text)) if text else {}

    def wish(state: State) -> Decided:
        seen = [gpu for gpu in state.gpus.values() if gpu.maker]
        if not declared and seen:
            events = [_added(state, gpu.id, None) for gpu in seen if gpu.removing]
            return Decided(events, AUTO)
        events = _all_added(state, list(declared.items()))
        events += [
            ev.GpuRemoved(state.now_ms, gpu.id)
            for gpu in state.gpus.values()
            if not gpu.is_one_of(declared) and not gpu.removing
        ]
        return Decided(events, declared_gpus_text(list(declared.items())))

    return wish


def _all_added(state: State, declared: Sequence[tuple[str, int | None]]) -> list[ev.Event]:
    if not any(gpu.maker for gpu in state.gpus.values()):
        return [ev.GpuAdded(state.now_ms, name, memory_mib) for name, memory_mib in declared]
    return [_added(state, name, memory_mib) for name, memory_mib in declared]


def _added(state: State, name: str, memory_mib: int | None) -> ev.Event:
    known = state.gpu_named(name)
    if known is None or not known.maker:
        there = ", ".join(gpu.shown_as for gpu in state.gpus.values())
        raise NotFound(f"the driver shows no GPU {name}", f"it shows: {there}")
    if memory_mib is not None:
        raise UsageError(
            f"the memory of GPU {name} is known from its driver",
            "leave out what is after the colon",
        )
    return ev.GpuAdded(
        state.now_ms, known.id, known.memory_mib, label=known.label, maker=known.maker
    )


def remove(texts: Sequence[str]) -> Wish:
    """Take GPUs away; what runs on them ends by itself."""
    return _each(texts, ev.GpuRemoved)


def drain(texts: Sequence[str]) -> Wish:
    """Place nothing new on these."""
    return _each(texts, ev.GpuDrained)


def resume(texts: Sequence[str]) -> Wish:
    """Undo `drain`."""
    return _each(texts, ev.GpuResumed)


def _each(
    texts: Sequence[str], event: type[ev.GpuRemoved] | type[ev.GpuDrained] | type[ev.GpuResumed]
) -> Wish:
    named = list(dict.fromkeys(gpu for text in texts for gpu in gpu_ids(text)))
    if not named:
        raise UsageError("no GPU was named", "see `stoker gpus`")

    def wish(state: State) -> Decided:
        found = {name: state.gpu_named(name) for name in named}
        unknown = [name for name, gpu in found.items() if gpu is None]
        if unknown:
            there = ", ".join(gpu.shown_as for gpu in state.gpus.values()) or "none"
            raise NotFound(f"there is no GPU {', '.join(unknown)}", f"the GPUs are: {there}")
        meant = {gpu.id: None for gpu in found.values() if gpu is not None}
        return Decided([event(state.now_ms, gpu_id) for gpu_id in meant], named)

    return wish
