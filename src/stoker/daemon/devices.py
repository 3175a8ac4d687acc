"""Orders about GPUs, and the settings that a user can change."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core import events as ev
from stoker.core.state import State
from stoker.engine import Decided, Wish
from stoker.errors import NotFound, UsageError
from stoker.quantities import declared_gpus, declared_gpus_text, gpu_ids


def add(texts: Sequence[str]) -> Wish:
    """Declare GPUs, one or several a text: "4", "4:24G", "0-3:80G"."""
    declared = [item for text in texts for item in declared_gpus(text)]
    if not declared:
        raise UsageError("no GPU was named", "e.g. `stoker gpus add 4` or `stoker gpus add 4:24G`")

    def wish(state: State) -> Decided:
        events = [ev.GpuAdded(state.now_ms, gpu, memory) for gpu, memory in declared]
        return Decided(events, [gpu for gpu, _ in declared])

    return wish


def declare(text: str | None) -> Wish:
    """Let these be all GPUs: `stoker config set gpus`. None or an empty text: no GPUs."""
    declared = dict(declared_gpus(text)) if text else {}

    def wish(state: State) -> Decided:
        events: list[ev.Event] = [
            ev.GpuAdded(state.now_ms, gpu, memory) for gpu, memory in declared.items()
        ]
        events += [
            ev.GpuRemoved(state.now_ms, gpu.id)
            for gpu in state.gpus.values()
            if gpu.id not in declared and not gpu.removing
        ]
        return Decided(events, declared_gpus_text(list(declared.items())))

    return wish


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
        unknown = [gpu for gpu in named if gpu not in state.gpus]
        if unknown:
            there = ", ".join(state.gpus) or "none"
            raise NotFound(f"there is no GPU {', '.join(unknown)}", f"the GPUs are: {there}")
        return Decided([event(state.now_ms, gpu) for gpu in named], named)

    return wish
