"""`stoker gpus`: the GPUs as they are, and what their user says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.api import gpu_messages as msg
from stoker.core import events as ev
from stoker.core.gpu import Gpu
from stoker.core.state import State
from stoker.daemon.awaited_processes import identified
from stoker.daemon.lent_gpus import missing
from stoker.daemon.requests.reply import AfterTurn, Daemon, Fields
from stoker.daemon.telemetry import MEASURED
from stoker.engine import Decided, Proposal
from stoker.errors import NotFound, UsageError
from stoker.quantities import declared_gpus, declared_gpus_text, gpu_ids

AUTO = "auto"


def gpus(daemon: Daemon, request: msg.Gpus) -> Fields:
    """All GPUs, and why none are measured if that is so."""
    return {"gpus": shown_gpus(daemon), "why": daemon.inventory.why}


def history(daemon: Daemon, request: msg.GpuHistory) -> Fields:
    """What was measured of each GPU."""
    return {"histories": daemon.telemetry.gpu_histories(request.since_ms)}


def add(daemon: Daemon, request: msg.GpuAdd) -> AfterTurn:
    """Declare GPUs, one or several a text: "4", "4:24G", "0-3:80G"; or use ones that are seen."""
    declared = [item for text in request.gpus for item in declared_gpus(text)]
    if not declared:
        raise UsageError("no GPU was named", "e.g. `stoker gpus add 4` or `stoker gpus add 4:24G`")

    def proposal(state: State) -> Decided:
        return Decided(_all_added(state, declared), [gpu for gpu, _ in declared])

    return AfterTurn(proposal, "gpus")


def remove(daemon: Daemon, request: msg.GpuRemove) -> AfterTurn:
    """Take GPUs away; what runs on them ends by itself."""
    return _each(_named(request.gpus), ev.GpuRemoved)


def drain(daemon: Daemon, request: msg.GpuDrain) -> AfterTurn:
    """Place nothing new on these."""
    return _each(_named(request.gpus), ev.GpuDrained)


def resume(daemon: Daemon, request: msg.GpuResume) -> AfterTurn:
    """Undo `drain`; these GPUs are said to be well, whatever their driver remembers."""
    named = _named(request.gpus)
    for name in named:
        gpu = daemon.turn_loop.state.gpu_named(name)
        if gpu is not None and gpu.vendor:
            daemon.inventory.forgive(gpu.id)
    return _each(named, ev.GpuResumed)


def lend(daemon: Daemon, request: msg.GpuLend) -> AfterTurn:
    """Know GPUs that only some commands name, until these and their jobs are over."""
    owner = identified(str(request.pid), "4711", "run the command where the daemon runs").kept
    named = _named(request.gpus)
    if request.over:
        daemon.lent_gpus.give_back(named, owner)
        return AfterTurn(lambda state: Decided([], named), "gpus")
    daemon.lent_gpus.lend(named, owner)

    def proposal(state: State) -> Decided:
        # Where the user has declared some, a job that names others is refused.
        new = [] if any(gpu.declared for gpu in state.gpus.values()) else missing(state, named)
        added = [ev.GpuAdded(state.now_ms, gpu, None, declared=False) for gpu in new]
        return Decided(added, named)

    return AfterTurn(proposal, "gpus")


def _named(texts: Sequence[str]) -> list[str]:
    named = list(dict.fromkeys(gpu for text in texts for gpu in gpu_ids(text)))
    if not named:
        raise UsageError("no GPU was named", "see `stoker gpus`")
    return named


def _each(
    named: Sequence[str], event: type[ev.GpuRemoved] | type[ev.GpuDrained] | type[ev.GpuResumed]
) -> AfterTurn:
    def proposal(state: State) -> Decided:
        found = {name: state.gpu_named(name) for name in named}
        unknown = [name for name, gpu in found.items() if gpu is None]
        if unknown:
            there = ", ".join(gpu.shown_as for gpu in state.gpus.values()) or "none"
            raise NotFound(f"there is no GPU {', '.join(unknown)}", f"the GPUs are: {there}")
        meant = {gpu.id: None for gpu in found.values() if gpu is not None}
        return Decided([event(state.now_ms, gpu_id) for gpu_id in meant], named)

    return AfterTurn(proposal, "gpus")


def declare(text: str | None) -> Proposal:
    """Let these be all GPUs: `stoker config set gpus`. None: all that a driver shows."""
    declared = dict(declared_gpus(text)) if text else {}

    def proposal(state: State) -> Decided:
        seen = [gpu for gpu in state.gpus.values() if gpu.vendor]
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

    return proposal


def _all_added(state: State, declared: Sequence[tuple[str, int | None]]) -> list[ev.Event]:
    if not any(gpu.vendor for gpu in state.gpus.values()):
        return [ev.GpuAdded(state.now_ms, name, memory_mib) for name, memory_mib in declared]
    return [_added(state, name, memory_mib) for name, memory_mib in declared]


def _added(state: State, name: str, memory_mib: int | None) -> ev.Event:
    known = state.gpu_named(name)
    if known is None or not known.vendor:
        there = ", ".join(gpu.shown_as for gpu in state.gpus.values())
        raise NotFound(f"the driver shows no GPU {name}", f"it shows: {there}")
    if memory_mib is not None:
        raise UsageError(
            f"the memory of GPU {name} is known from its driver",
            "leave out what is after the colon",
        )
    return ev.GpuAdded(
        state.now_ms, known.id, known.memory_mib, label=known.label, vendor=known.vendor
    )


# ---------------------------------------------------------------------- how they are shown


def shown_gpus(daemon: Daemon) -> list[dict[str, Any]]:
    """All GPUs that their user has not taken away, with what was measured of each."""
    details = daemon.telemetry.details()
    shown = [g for g in daemon.turn_loop.state.gpus.values() if g.held_by or not g.removing]
    return [{**_gpu(gpu), **details.get(gpu.id, {})} for gpu in shown]


def _gpu(gpu: Gpu) -> dict[str, Any]:
    held = gpu.held_by.values()
    reading = gpu.reading
    ours_mib = others_mib = free_mib = None
    if reading is not None and reading.used_mib is not None:
        others_mib = reading.others_mib
        ours_mib = max(0, reading.used_mib - others_mib)
        free_mib = max(0, (gpu.memory_mib or 0) - reading.used_mib)
    if gpu.removing:
        standing = "removing"
    elif gpu.drained or (reading is not None and reading.fault):
        standing = "drained"
    elif not held:
        standing = "free" if not gpu.others else "foreign"
    else:
        standing = "busy" if any(r.whole for r in held) else "shared"
    return {
        "id": gpu.shown_as,
        "memory_mib": gpu.memory_mib,
        "reserved_mib": gpu.reserved_mib,
        "share_used": min(1.0, gpu.share_used_milli / 1000),
        "state": standing,
        "jobs": sorted(gpu.held_by),
        "declared": gpu.declared and not gpu.vendor,
        "fault": reading.fault if reading is not None else "",
        "ours_mib": ours_mib,
        "others_mib": others_mib,
        "free_mib": free_mib,
        **dict.fromkeys(MEASURED),
        "uuid": None,
        "name": "",
        "stale": False,
        "foreign": [],
        "vendor": "",
        "links": {},
    }
