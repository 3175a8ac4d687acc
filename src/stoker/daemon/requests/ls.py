"""`stoker ls`, `stoker show` and `stoker why`: jobs, and why each stands where it does."""

from __future__ import annotations

from typing import Any

from stoker.api import gpu_messages as of_gpus
from stoker.api import messages as msg
from stoker.daemon.filtering import filter_terms
from stoker.daemon.requests.reply import Daemon, Fields
from stoker.daemon.requests.selecting import ALL_STATES, check_states, selected
from stoker.daemon.show import JobViews
from stoker.errors import NotFound
from stoker.executors.inherited import left_out
from stoker.learn.kind import kind_of
from stoker.store.views import Filter

_FINISHED_SHOWN = 1000


def job_views(daemon: Daemon) -> JobViews:
    """What turns rows and state into what is shown."""
    draining = daemon.turn_loop.engine.starts_nothing
    return JobViews(daemon.views, daemon.home.attempts, draining, daemon.slurm.standing)


def show(daemon: Daemon, request: msg.Show) -> Fields:
    """Jobs with all their attempts."""
    return {"jobs": shown_jobs(daemon, _selected(daemon, request.select), env=request.env)}


def shown_jobs(daemon: Daemon, ids: list[int], *, env: bool = False) -> list[Fields]:
    """All that is shown of jobs; hooks get the same, without the values of variables."""
    jobs = job_views(daemon).with_attempts(daemon.turn_loop.state, ids)
    for job in jobs:
        is_here = job["executor"] == "local"
        launch = daemon.store.launch(job["id"])
        job["env_left_out"] = left_out(launch) if is_here else []
        job["env_set"] = sorted(launch.extra_env)  # Their values may be secrets.
        if env:
            job["env"] = dict(launch.extra_env)
        job["out"], job["err"], job["gpu_arg"] = launch.out, launch.err, launch.gpu_arg
        usual = kind_of(launch.argv, launch.shell)
        job["kind"] = None if launch.kind == usual else launch.kind
    return jobs


def why(daemon: Daemon, request: msg.Why) -> Fields:
    """Why each job stands where it does, and when it will start if that can be told."""
    state, most = daemon.turn_loop.state, request.most_unfinished
    group, first = request.select.group, request.first_unfinished
    search = None if group is None else daemon.searches.brief(group)
    try:
        ids = _selected(daemon, request.select)
    except NotFound:
        if search is None:
            raise
        ids = []  # It has no point yet.
    more = 0
    if first is not None:
        unfinished = [job_id for job_id in ids if job_id in state.jobs]
        ids, more = unfinished[:first], len(unfinished[first:])
    estimate = most is None or len(state.jobs) <= most
    jobs = job_views(daemon).why(state, ids, estimate=estimate)
    searches = [search] if search is not None else _searches_of(daemon, ids)
    return {"jobs": jobs, "searches": searches, "more": more}


def _searches_of(daemon: Daemon, ids: list[int]) -> list[dict[str, Any]]:
    """The searches that these jobs are points of, as far as they have not ended."""
    live = daemon.turn_loop.state.jobs
    groups = {live[job_id].group for job_id in ids if job_id in live}
    found = [daemon.searches.brief(group) for group in sorted(filter(None, groups))]
    return [one for one in found if one is not None]


def job_history(daemon: Daemon, request: of_gpus.JobHistory) -> Fields:
    """What was measured of an attempt."""
    rows = daemon.views.rows([request.job_id])
    if not rows:
        raise NotFound(f"there is no job {request.job_id}", "see `stoker ls --all`")
    number = rows[0]["attempt"] if request.attempt is None else request.attempt
    return daemon.telemetry.job_history(request.job_id, number)


def list_jobs(daemon: Daemon, request: msg.List) -> Fields:
    """The jobs that were asked for, or else the usual ones."""
    check_states(request.states)
    ids, total = _listed_ids(daemon, request)
    return {"jobs": job_views(daemon).jobs(daemon.turn_loop.state, ids), "total": total}


def _selected(daemon: Daemon, select: msg.Select) -> list[int]:
    return selected(select, daemon.views, daemon.turn_loop.state, ALL_STATES)


def _listed_ids(daemon: Daemon, request: msg.List) -> tuple[list[int], int]:
    """The ids to list, and how many there are without a limit."""
    select, views = request.select, daemon.views
    states = request.states or select.states
    terms = filter_terms(select.text, daemon.turn_loop.state)
    wanted = Filter(states, select.group, select.names, request.user, terms)
    filters = states or request.user is not None or select.group or select.names or terms
    if select.ids:
        chosen = set(_selected(daemon, msg.Select(ids=select.ids)))
        if filters:
            chosen &= set(views.matching(wanted))
    elif filters or request.all or select.all:
        chosen = set(views.matching(wanted))
    else:
        return usual_ids(daemon, request.limit, fill_up=True)
    ids = sorted(chosen)
    return (ids[-request.limit :] if request.limit else ids), len(ids)


def usual_ids(daemon: Daemon, limit: int | None, *, fill_up: bool = False) -> tuple[list[int], int]:
    """What one wants to see: all that is not final, and what ended last.

    Where there is a limit, a quarter of it is for what ended last, or all that is left of it.
    """
    state, views = daemon.turn_loop.state, daemon.views
    if limit is None:
        everything = set(state.jobs) | set(views.last_ended(_FINISHED_SHOWN))
        return sorted(everything), len(everything)
    chosen = dict.fromkeys(list(state.active)[:limit])
    left = limit - len(state.jobs) if fill_up else 0
    ended = views.last_ended(max(1, limit // 4, left))
    room = max(0, limit - len(chosen) - len(ended))
    chosen.update(dict.fromkeys(views.first_unfinished(room + len(chosen))))
    ids = sorted([*list(chosen)[: limit - len(ended)], *ended])
    return ids, len(state.jobs) + len(ended)
