"""Which jobs are meant: ids, ranges, `last`, names and groups turned into ids, in one place."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.api.messages import Select
from stoker.core.model import FINAL, JobState
from stoker.core.state import State
from stoker.daemon.filtering import filter_terms
from stoker.errors import Failed, NotFound, UsageError
from stoker.quantities import job_ids, quoted
from stoker.store.views import Filter, Views

ALL_STATES = [state.value for state in JobState]
ENDED = [state.value for state in JobState if state in FINAL]
UNFINISHED = [state.value for state in JobState if state not in FINAL]


def check_states(names: Sequence[str]) -> None:
    """Refuse what is no state of a job."""
    for name in names:
        if name not in ALL_STATES:
            known = ", ".join(ALL_STATES)
            raise UsageError(f"there is no state {quoted(name)}", f"use one of {known}")


def state_of(job_id: int, state: State, views: Views) -> str:
    """The state of a job, final or not."""
    job = state.jobs.get(job_id)
    return job.state.value if job is not None else str(views.rows([job_id])[0]["state"])


def states_of(ids: Sequence[int], state: State, views: Views) -> dict[int, str]:
    """The states of many jobs at once, by the record and what has ended in this very turn."""
    found = views.states_between(ids[0], ids[-1]) if ids else {}
    for ended in state.change.ended:
        if ended.job_is_final:
            found[ended.job.id] = ended.outcome.state.value
    return found


def named_by_id(select: Select, views: Views, state: State) -> set[int]:
    """The jobs that were named each by its own id, and not by a range, a name or a group."""
    words = [word for text in select.ids for word in job_ids(text) if "-" not in word]
    return {job_id for word in words for job_id in _ids(word, views, state)}


def selected(select: Select, views: Views, state: State, all_states: Sequence[str]) -> list[int]:
    """The ids of the jobs that are meant, in order; `all` means those in `all_states`."""
    check_states(select.states)
    terms = filter_terms(select.text, state)
    found: dict[int, None] = {}
    for text in select.ids:
        for word in job_ids(text):
            found.update(dict.fromkeys(_ids(word, views, state)))
    names, group = select.names, select.group
    if names or group is not None:
        matching = views.matching(Filter(names=names, group=group))
        if not matching:
            by_group = f"in a group {quoted(group or '')}"
            called = f"named {quoted(', '.join(names))}" if names else by_group
            raise NotFound(f"there is no job {called}", "see `stoker ls --all`")
        found.update(dict.fromkeys(matching))
    if select.all:
        found.update(dict.fromkeys(views.matching(Filter(states=all_states))))
    elif not select.ids and not names and group is None and not terms:
        raise UsageError("no job was named", "give ids, --name, --group or --all")
    if terms:
        matching = views.matching(Filter(terms=terms))
        is_all = not (found or select.all)
        found = {job_id: None for job_id in matching if is_all or job_id in found}
        if not found and not select.all:
            raise NotFound(f"no job matches {quoted(select.text)}", "see `stoker ls --all`")
    ids = sorted(found)
    if not select.states:
        return ids
    states = states_of(ids, state, views)
    narrowed = [job_id for job_id in ids if states.get(job_id) in select.states]
    if not narrowed and not select.all:
        raise Failed(f"none of these jobs is {' or '.join(select.states)}", "see `stoker ls --all`")
    return narrowed


def _ids(word: str, views: Views, state: State) -> list[int]:
    if word == "last":
        newest = state.next_job_id - 1
        last = newest if newest in state.jobs else views.last_id()
        if last is None:
            raise NotFound("there is no job yet", "`stoker add` queues one")
        return [last]
    first, dash, last_text = word.partition("-")
    if dash:
        found = views.between(int(first), int(last_text))
        if not found:
            raise NotFound(f"there is no job from {first} to {last_text}", "see `stoker ls --all`")
        return found
    job_id = int(first)
    if job_id not in state.jobs and not views.between(job_id, job_id):
        raise NotFound(f"there is no job {first}", "see `stoker ls --all`")
    return [job_id]
