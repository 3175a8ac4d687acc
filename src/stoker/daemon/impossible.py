"""Needs that this machine can't meet however long a job waits: refused in one line."""

from __future__ import annotations

from stoker.core.model import Need
from stoker.core.reasons import CanNeverStart, gib, plural
from stoker.core.state import State
from stoker.core.waiting import can_never_start
from stoker.errors import UsageError
from stoker.submission.rules import preferred_elsewhere


def refuse_if_impossible(state: State, need: Need, known: set[str]) -> None:
    """Refuse a need that can't be met however long it waits."""
    if need.gpus == 0:
        if need.cpus > state.cpus:
            raise _too_few_cpus(need, state)
        return
    if not known:
        raise UsageError(
            "no GPUs are known on this machine",
            "declare them with `stoker config set gpus 0,1`, name them with --on 0,1, "
            "or use --gpus 0 for a job that needs none",
        ).about("gpus")
    named = dict.fromkeys((*need.on, *need.prefer))
    unknown = [name for name in named if name not in known and state.gpu_named(name) is None]
    if unknown:
        there = ", ".join(gpu.shown_as for gpu in state.gpus.values())
        it = "it" if len(unknown) == 1 else "them"
        more = f"; `stoker gpus add {','.join(unknown)}` declares {it}"
        hint = f"there are {there}{'' if _has_driver(state) else more}"
        of = "on" if set(unknown) & set(need.on) else "prefer"
        raise UsageError(f"there is no GPU {', '.join(unknown)}", hint).about(of)
    if need.on and need.prefer:  # Either may be named by number or by id.
        preferred = ((name, state.gpu_named(name)) for name in need.prefer)
        others = [name for name, gpu in preferred if gpu and not gpu.is_one_of(need.on)]
        if others:
            raise preferred_elsewhere(others, need.on)
    if any(state.gpu_named(name) is None for name in need.on):
        if need.mem_mib is not None:
            raise _memory_unknown()
        return  # They are only just being declared, so there is nothing else to ask.
    impossible = can_never_start(state, need)
    if impossible is None:
        return
    if not isinstance(impossible, CanNeverStart):
        raise _too_few_cpus(need, state)
    if impossible.could_fit >= need.gpus:
        return  # Some are drained; it waits for them.
    allowed = [g for g in state.gpus.values() if not need.on or g.is_one_of(need.on)]
    left_out = ",".join(gpu.shown_as for gpu in allowed if gpu.removing)
    if need.on and left_out:
        are = "GPUs {} are" if "," in left_out else "GPU {} is"
        raise UsageError(
            f"{are.format(left_out)} not in use (setting gpus)",
            f"name others, or use them again with `stoker gpus add {left_out}`",
        ).about("on")
    if need.mem_mib is not None:
        memories = [g.memory_mib for g in allowed if g.memory_mib is not None]
        if not memories:
            raise _memory_unknown()
        raise UsageError(
            f"the job needs {plural(need.gpus, 'GPU')} with {gib(need.mem_mib)}, but "
            f"{impossible.could_fit} have that much (the largest has {gib(max(memories))})",
            "ask for less",
        ).about("mem")
    hint = "ask for fewer"
    if not _has_driver(state):
        hint += ", or declare more with `stoker gpus add`"
    elif any(gpu.removing for gpu in state.gpus.values()):
        hint += ", or use more of the driver's with `stoker gpus add`"
    raise UsageError(
        f"the job needs {plural(need.gpus, 'GPU')}, but there {_only(impossible.could_fit)}", hint
    ).about("gpus")


def _has_driver(state: State) -> bool:
    """Whether a driver shows the GPUs: then no others can be declared."""
    return any(gpu.vendor for gpu in state.gpus.values())


def _only(count: int) -> str:
    return "is only 1" if count == 1 else f"are only {count}"


def _too_few_cpus(need: Need, state: State) -> UsageError:
    return UsageError(
        f"the job needs {plural(need.cpus, 'CPU slot')}, but there {_only(state.cpus)}",
        "ask for fewer, or raise `stoker config set cpus`",
    ).about("cpus")


def _memory_unknown() -> UsageError:
    return UsageError(
        "how much memory the GPUs have is not known",
        "declare it, e.g. `stoker config set gpus 0:24G,1:24G`, or leave out --mem",
    ).about("mem")
