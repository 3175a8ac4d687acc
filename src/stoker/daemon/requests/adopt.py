"""`stoker adopt`: take a process that Stoker did not start for a job, so that its GPUs are taken.

It runs already, so it does not wait: it is placed at once where it is, or refused.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.fit import fits_beside, reservation
from stoker.core.foreign import ForeignProcess
from stoker.core.gpu import Gpu
from stoker.core.model import Launch, Need, Terms
from stoker.core.state import State
from stoker.daemon import settings
from stoker.daemon.asked import Defaults
from stoker.daemon.awaited_processes import identified
from stoker.daemon.impossible import refuse_if_impossible
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.submission import declared_by_naming
from stoker.engine import Decided
from stoker.errors import Failed, UsageError
from stoker.executors.processes import all_stats, stat_of, with_descendants
from stoker.learn.kind import kind_of
from stoker.ports import OURS
from stoker.quantities import label

_MOST_OF_COMMAND = 100_000  # bytes


def adopt(daemon: Daemon, request: msg.Adopt) -> AfterTurn:
    """The job runs from the start, on the GPUs that its process has."""
    process = identified(
        request.process, "stoker adopt 4711", "adopt it where it runs; see `ps -u $USER`"
    )
    pid = process.pid
    owner = daemon.executor.owners([pid]).get(pid)
    if owner is not None and owner > OURS:
        raise _is_job(pid, owner)
    if owner == OURS or _is_our_own(pid):
        raise Failed(f"process {pid} is Stoker's own", "adopt a program that uses a GPU")
    name, group = (None if one is None else label(one) for one in (request.name, request.group))
    argv, cwd = _command_and_directory(process)
    kind = kind_of(argv, None)
    need = _need(request, kind, settings.defaults_of(daemon.store.settings()))
    family = with_descendants({pid: None}, all_stats()).keys()
    launch = Launch(argv, None, cwd, name=name, user=request.user, kind=kind)

    def proposal(state: State) -> Decided:
        _refuse_adopted(state, process)
        named = {name: state.gpu_named(name) for name in request.on}
        gpus = [gpu for gpu in named.values() if gpu is not None]
        if not request.on:
            gpus = _seen_on(state, family, process)
        new = [name for name, gpu in named.items() if gpu is None]
        # One may be named by its number and by its id.
        on = tuple(dict.fromkeys([*(gpu.shown_as for gpu in gpus), *new]))
        asked = replace(need, gpus=len(on), on=on)
        declared = declared_by_naming(state, [asked])
        refuse_if_impossible(state, asked, {*state.gpus, *(one.gpu for one in declared)})
        _refuse_without_room(asked, gpus)
        ids = tuple(dict.fromkeys([*(gpu.id for gpu in gpus), *new]))
        job_id, now_ms = state.next_job_id, state.now_ms
        terms = Terms(adopted=process.kept)
        events: list[ev.Event] = [
            *declared,
            ev.JobSubmitted(now_ms, job_id, asked, terms, group=group, launch=launch),
            ev.AttemptPlaced(now_ms, job_id, 1, ids),
        ]
        return Decided(events, {"id": job_id, "gpus": on, "process": process.shown})

    return AfterTurn(proposal)


def _need(request: msg.Adopt, kind: str, defaults: Defaults) -> Need:
    """What it takes of each GPU: all of it, what was said, or what is measured (`auto`)."""
    said = request.mem_mib is not None or request.mem is not None
    learns = request.mem == "auto" or (defaults.mem_auto and not said)
    if request.mem_mib is None and not learns:
        return Need()
    return Need(mem_mib=request.mem_mib, kind=kind, margin=defaults.margin)


def _is_our_own(pid: int) -> bool:
    """Whether it is the daemon, its keeper, or a process that it has started, such as the page."""
    stat = stat_of(pid)
    return pid in (os.getpid(), os.getppid()) or (stat is not None and stat.parent == os.getpid())


def _is_job(pid: int, job_id: int) -> Failed:
    return Failed(f"process {pid} is of job {job_id} already", f"see `stoker show {job_id}`")


def _refuse_adopted(state: State, process: ForeignProcess) -> None:
    """Refuse a process that has become a job since it was looked at, in the same turn say."""
    for job_id in state.active:
        adopted = state.jobs[job_id].terms.adopted
        if adopted is not None and ForeignProcess.of(adopted)[:3] == process[:3]:
            raise _is_job(process.pid, job_id)


def _command_and_directory(process: ForeignProcess) -> tuple[tuple[str, ...], str]:
    """What it was started as, and where it is; those of another user may not be told."""
    words: list[str] = []
    cwd = "/"
    try:
        with open(f"/proc/{process.pid}/cmdline", "rb") as file:
            text = file.read(_MOST_OF_COMMAND).decode(errors="replace")
            words = text.rstrip("\0").split("\0") if text else []
        cwd = os.readlink(f"/proc/{process.pid}/cwd")
    except OSError:
        pass
    return tuple(words or [process.command or str(process.pid)]), cwd


def _seen_on(state: State, family: Collection[int], process: ForeignProcess) -> list[Gpu]:
    """The GPUs on which a driver shows one of these processes."""
    gpus = [gpu for gpu in state.gpus.values() if not gpu.removing]
    found = [g for g in gpus if g.reading and not set(family).isdisjoint(g.reading.other_pids)]
    if found:
        return found
    hint = f"name its GPUs: `stoker adopt {process.pid} --on 0,1`"
    if any(gpu.vendor for gpu in gpus):
        raise UsageError(f"the driver shows process {process.pid} on no GPU", hint)
    raise UsageError(f"no driver tells which GPUs process {process.pid} uses", hint)


def _refuse_without_room(need: Need, gpus: Sequence[Gpu]) -> None:
    """Refuse what does not fit beside the jobs that hold a GPU: what they were promised stays."""
    for gpu in gpus:
        if fits_beside(reservation(need, gpu), gpu.held_by.values(), gpu):
            continue
        jobs = sorted(gpu.held_by)
        who, hint = f"job {jobs[0]} holds", "try again when it has ended"
        if len(jobs) > 1:
            who, hint = f"jobs {', '.join(map(str, jobs))} hold", "try again when they have ended"
        if need.whole and not any(one.whole for one in gpu.held_by.values()):
            hint = "with --mem 8G it takes only so much of it"
        raise Failed(f"GPU {gpu.shown_as} has no room for it: {who} it", hint)
