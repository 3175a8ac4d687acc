"""`stoker groups`, `stoker pause` and `stoker resume`: the queue, and groups of jobs in it."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.model import Group
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon, Fields
from stoker.daemon.requests.suspend import continued, is_suspended
from stoker.engine import Decided
from stoker.errors import NotFound
from stoker.quantities import label, quoted
from stoker.store.browsing import Browser


async def groups(daemon: Daemon, request: msg.Groups) -> Fields:
    """All groups that have jobs, and those without that are paused or limited."""
    counts = await daemon.browsing.read(Browser.groups)
    known = daemon.turn_loop.state.groups
    bare = [g for g in known.values() if g.name not in counts]
    names = [g.name for g in bare if g.paused or g.max_running is not None]
    answer = []
    for name in [*names, *counts]:
        group = known.get(name) or Group(name)
        limits = {"paused": group.paused, "max_running": group.max_running}
        answer.append({"group": name, **limits, "counts": counts.get(name, {})})
    return {"groups": answer}


def limit_group(daemon: Daemon, request: msg.LimitGroup) -> AfterTurn:
    """Let at most so many of a group run at a time."""
    name = label(request.group)

    def proposal(state: State) -> Decided:
        if request.known_only:
            _check_group(name, state)
        return Decided([ev.GroupLimited(state.now_ms, name, request.max_running)])

    return AfterTurn(proposal)


def pause(daemon: Daemon, request: msg.Pause) -> AfterTurn:
    """Start nothing new."""
    return _switch(request.group, ev.QueuePaused)


def resume(daemon: Daemon, request: msg.Resume) -> AfterTurn:
    """Undo `pause`, and of a group `suspend` too."""
    return _switch(request.group, ev.QueueResumed)


def _switch(group: str | None, event: type[ev.QueuePaused] | type[ev.QueueResumed]) -> AfterTurn:
    def proposal(state: State) -> Decided:
        _check_group(group, state)
        switched = event(state.now_ms, group)
        if group is None or event is ev.QueuePaused:
            return Decided([switched])
        of_group = [state.jobs[i] for i in state.active if state.jobs[i].group == group]
        going_on = [job for job in of_group if is_suspended(job)]
        events = [switched, *(continued(state, job) for job in going_on)]
        return Decided(events, {"ids": [job.id for job in going_on]})

    return AfterTurn(proposal)


def _check_group(group: str | None, state: State) -> None:
    if group is not None and group not in state.groups:
        raise NotFound(f"there is no group {quoted(group)}", "`stoker add --group` makes one")
