"""Orders about jobs that exist: cancel, retry, hold, release, remove, edit, pause.

Each function gives the wish that grants the order; the wish looks at the state at its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from stoker.api.messages import JobRequest, Select
from stoker.core import events as ev
from stoker.core.model import (
    ACTIVE,
    FINAL,
    QUEUED,
    Cause,
    Job,
    JobState,
    Launch,
    Need,
    Requirement,
    Terms,
)
from stoker.core.state import State
from stoker.daemon import submission as sub
from stoker.daemon.checks import (
    check_command,
    check_directory,
    check_environment,
    check_output,
)
from stoker.daemon.cluster import check_cluster_job
from stoker.daemon.library_calls import still_there
from stoker.daemon.mps_terms import mps_terms
from stoker.daemon.requirements import RequiredJobs
from stoker.daemon.selecting import selected
from stoker.engine import Decided, Wish
from stoker.errors import Failed, NotFound, StokerError, UsageError
from stoker.executors.mps_control import find_control
from stoker.executors.slurm.executor import NAME as CLUSTER
from stoker.learn.kind import kind_of
from stoker.quantities import label, quoted
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Views

_UNFINISHED = [state.value for state in JobState if state not in FINAL]
_FINAL = [state.value for state in JobState if state in FINAL]
_RETRIABLE = [state for state in _FINAL if state != JobState.SUCCEEDED]


def cancel(select: Select, views: Views) -> Wish:
    """Call queued jobs off, and stop active ones."""

    def wish(state: State) -> Decided:
        ids = selected(select, views, state, _UNFINISHED)
        jobs = [state.jobs[job_id] for job_id in ids if job_id in state.jobs]
        if not jobs and not select.all:
            raise _already_over(ids, views)
        return Decided([stop_event(state, job) for job in jobs], [job.id for job in jobs])

    return wish


def stop_event(state: State, job: Job, cause: Cause = Cause.CANCELLED) -> ev.Event:
    """The event by which a job, wherever it stands, comes to its end."""
    if job.active is None:
        return ev.JobCancelled(state.now_ms, job.id, cause)
    return ev.StopRequested(state.now_ms, job.id, job.active.number, cause)


def stop_all(state: State) -> Decided:
    """The wish that stops all active jobs."""
    return Decided([stop_event(state, state.jobs[job_id]) for job_id in state.active])


def _already_over(ids: Sequence[int], views: Views) -> StokerError:
    rows = views.rows(ids[:1])
    if len(ids) == 1 and rows:
        return Failed(f"job {ids[0]} has ended already ({rows[0]['state']})", "")
    return Failed("all of these jobs have ended already", "")


def hold(select: Select, views: Views) -> Wish:
    """Put waiting jobs aside."""
    return _move(select, views, JobState.WAITING, ev.JobHeld, "waits", "can be held")


def release(select: Select, views: Views) -> Wish:
    """Put held jobs back into the queue."""
    return _move(select, views, JobState.HELD, ev.JobReleased, "is held", "can be released")


def _move(
    select: Select,
    views: Views,
    source: JobState,
    event: type[ev.JobHeld] | type[ev.JobReleased],
    is_what: str,
    can_what: str,
) -> Wish:
    def wish(state: State) -> Decided:
        ids = selected(select, views, state, [source.value])
        fitting = [i for i in ids if i in state.jobs and state.jobs[i].state is source]
        if not fitting and not select.all:
            raise Failed(
                f"none of these jobs {is_what}"
                if len(ids) > 1
                else f"job {ids[0]} is {_state_of(ids[0], state, views)}",
                f"only a job that {is_what} {can_what}",
            )
        return Decided([event(state.now_ms, job_id) for job_id in fitting], fitting)

    return wish


def _state_of(job_id: int, state: State, views: Views) -> str:
    job = state.jobs.get(job_id)
    return job.state.value if job is not None else str(views.rows([job_id])[0]["state"])


def retry(select: Select, views: Views) -> Wish:
    """Queue final jobs again."""

    def wish(state: State) -> Decided:
        ids = selected(select, views, state, _RETRIABLE)
        chosen = [job_id for job_id in ids if job_id not in state.jobs]
        if not chosen and not select.all:
            raise Failed(
                f"job {ids[0]} is {_state_of(ids[0], state, views)}, and has not ended",
                "`stoker cancel` stops it; then it can be retried",
            )
        events: list[ev.Event] = []
        rows = still_there(views.rows(chosen), or_refuse=not select.all)
        chosen = [row["id"] for row in rows]
        others = RequiredJobs(state, views, set(chosen))
        for row in rows:
            if row["terms"].attached:
                raise Failed(
                    f"job {row['id']} ran in a terminal", "start it there again: `stoker run`"
                )
            if not row["terms"].executor:
                sub.refuse_if_impossible(state, row["need"], set(state.gpus))
            requires = _requirements_again(others, row)
            events.append(
                ev.JobRetried(
                    state.now_ms,
                    row["id"],
                    row["need"],
                    row["terms"],
                    row["priority"],
                    row["group"],
                    requires,
                    row["attempt"],
                )
            )
        return Decided(events, chosen)

    return wish


def _requirements_again(others: RequiredJobs, row: dict[str, Any]) -> tuple[Requirement, ...]:
    unmet = []
    for fields in row["requires"] or ():
        stand = others.stand(Requirement(*fields))
        if stand.failed:
            failed, ended_as = stand.failed
            raise Failed(
                f"job {row['id']} needs job {failed}, which ended as {ended_as}",
                f"retry that one too: `stoker retry {failed},{row['id']}`",
            )
        if stand.unfinished:
            unmet.append(Requirement(*fields))
    return tuple(unmet)


def remove(select: Select, views: Views) -> Wish:
    """Forget final jobs."""

    def wish(state: State) -> Decided:
        ids = selected(select, views, state, _FINAL)
        alive = [job_id for job_id in ids if job_id in state.jobs]
        explicit = not (select.all or select.group or select.names)
        if alive and explicit:
            raise Failed(
                f"job {alive[0]} is {state.jobs[alive[0]].state}, and has not ended",
                f"`stoker cancel {alive[0]}` stops it first",
            )
        gone = [job_id for job_id in ids if job_id not in state.jobs]
        return Decided([ev.JobsRemoved(state.now_ms, tuple(gone))], gone)

    return wish


def pause(group: str | None) -> Wish:
    """Start nothing new."""

    def wish(state: State) -> Decided:
        _check_group(group, state)
        return Decided([ev.QueuePaused(state.now_ms, group)])

    return wish


def resume(group: str | None) -> Wish:
    """Undo `pause`."""

    def wish(state: State) -> Decided:
        _check_group(group, state)
        return Decided([ev.QueueResumed(state.now_ms, group)])

    return wish


def limit_group(group: str, max_running: int | None, *, known_only: bool) -> Wish:
    """Let at most so many of a group run at a time."""
    name = label(group)

    def wish(state: State) -> Decided:
        if known_only:
            _check_group(name, state)
        return Decided([ev.GroupLimited(state.now_ms, name, max_running)])

    return wish


def _check_group(group: str | None, state: State) -> None:
    if group is not None and group not in state.groups:
        raise NotFound(f"there is no group {quoted(group)}", "`stoker add --group` makes one")


# ---------------------------------------------------------------------- edit

_EDITABLE = frozenset(
    {
        "argv", "shell", "name", "group", "cwd", "env", "gpus", "share", "mem_mib", "mem", "margin",
        "kind", "exclusive", "on", "prefer", "cpus", "max_per_gpu", "priority", "time_limit_ms",
        "grace_ms", "signal", "signal_before_ms", "retries", "not_before_ms", "out", "err",
        "gpu_arg", "executor", "slurm", "mps", "thread_percentage",
    }
)  # fmt: skip


def edit(select: Select, changes: dict[str, Any], views: Views, store: SqliteStore) -> Wish:
    """Change queued jobs."""
    fixed = sorted(changes.keys() - _EDITABLE)
    if fixed:
        raise UsageError(f"{', '.join(fixed)} can't be changed", "cancel the job and add it anew")
    if not changes:
        raise UsageError("nothing to change was given", "e.g. --priority -1, or -- new command")
    try:
        asked = msgspec.convert(changes, JobRequest)
    except msgspec.ValidationError as error:
        raise UsageError(str(error), "see `stoker edit --help`") from None
    if "argv" in changes or "shell" in changes:
        check_command(asked.argv, asked.shell)
    check_environment(asked.env)
    check_output(asked.out, "--out")
    check_output(asked.err, "--err")
    if asked.cwd is not None:
        check_directory(asked.cwd)
    for text in (asked.name, asked.group):
        if text is not None:
            label(text)

    def wish(state: State) -> Decided:
        ids = selected(select, views, state, [s.value for s in QUEUED])
        events: list[ev.Event] = []
        for job_id in ids:
            job = state.jobs.get(job_id)
            if job is None or job.state in ACTIVE:
                raise Failed(
                    f"job {job_id} is {_state_of(job_id, state, views)}",
                    "only a job that waits or is held can be edited",
                )
            terms = _edited_terms(job.terms, asked, changes)
            launch = _edited_launch(store.launch(job_id), asked, changes)
            need = _edited_need(job.need, launch.kind, asked, changes, bool(terms.executor))
            terms = _edited_mps(terms, need, asked, changes)
            if terms.executor:
                check_cluster_job(need, list(launch.cluster_options))
            else:
                sub.refuse_if_impossible(state, need, set(state.gpus))
            events.append(
                ev.JobEdited(
                    state.now_ms,
                    job_id,
                    need,
                    terms,
                    asked.priority if "priority" in changes else job.priority,
                    asked.group if "group" in changes else job.group,
                    asked.not_before_ms if "not_before_ms" in changes else job.not_before_ms,
                    launch,
                )
            )
        return Decided(events, ids)

    return wish


def _edited_need(
    need: Need, kind: str, asked: JobRequest, changes: dict[str, Any], elsewhere: bool
) -> Need:
    """The old need with what was asked for on top, checked as one request."""
    old = sub.need_fields(need)
    if changes.get("mem_mib") is not None:
        old["mem"] = None
    if "mem" in changes:
        old["mem_mib"] = None
    if "gpus" in changes and "share" not in changes:
        old["share"] = None
    if "share" in changes and "gpus" not in changes:
        old["gpus"] = None
    if "gpus" in changes and (need.gpus == 0) != (asked.gpus == 0) and "cpus" not in changes:
        old["cpus"] = None  # The default for jobs with and without GPUs is not the same.
    new = {name: changes.get(name, value) for name, value in old.items()}
    # It says all that it needs, so nothing is left to what is usual.
    request, defaults = msgspec.convert(new, JobRequest), sub.Defaults(grace_ms=0)
    return sub.need_of(request, kind, defaults, elsewhere)


def _edited_terms(terms: Terms, asked: JobRequest, changes: dict[str, Any]) -> Terms:
    limit = asked.time_limit_ms if "time_limit_ms" in changes else terms.time_limit_ms
    grace = asked.grace_ms if asked.grace_ms is not None else terms.grace_ms
    edited = replace(
        terms,
        time_limit_ms=limit,
        grace_ms=grace,
        retries=asked.retries if "retries" in changes else terms.retries,
    )
    if asked.executor is not None:
        if asked.executor == CLUSTER and terms.attached:
            raise UsageError("a job in a terminal can't run on the cluster", "")
        edited = replace(edited, executor=CLUSTER if asked.executor == CLUSTER else "")
    if "signal" in changes and asked.signal is None:
        edited = replace(edited, signal=None, signal_before_ms=0)
    elif asked.signal is not None:
        both = msgspec.structs.replace(asked, time_limit_ms=limit)
        new = sub.terms_of(both, grace, terms.attached, edited.executor)
        edited = replace(edited, signal=new.signal, signal_before_ms=new.signal_before_ms)
    return edited


def _edited_mps(terms: Terms, need: Need, asked: JobRequest, changes: dict[str, Any]) -> Terms:
    wanted = terms.mps if asked.mps is None else asked.mps
    threads = terms.thread_percentage if wanted or not terms.mps else None
    if "thread_percentage" in changes:
        threads = asked.thread_percentage
    if not wanted and threads is None:
        return replace(terms, mps=False, thread_percentage=None)
    if terms.executor:
        raise sub.no_mps_there()
    known = terms.mps or find_control() is not None
    mps, threads = mps_terms(wanted, threads, need.gpus, False, lambda: known)
    return replace(terms, mps=mps, thread_percentage=threads)


def _edited_launch(launch: Launch, asked: JobRequest, changes: dict[str, Any]) -> Launch:
    if "argv" in changes or "shell" in changes:
        argv = tuple(asked.argv)
        kind = kind_of(argv, asked.shell)
        launch = launch._replace(argv=argv, shell=asked.shell, kind=kind)
    if asked.kind is not None:
        launch = launch._replace(kind=label(asked.kind))
    for name in ("name", "cwd", "out", "err", "gpu_arg"):
        if name in changes:
            launch = launch._replace(**{name: getattr(asked, name)})
    if "slurm" in changes:
        launch = launch._replace(cluster_options=tuple(asked.slurm))
    if asked.env:
        launch = launch._replace(extra_env={**launch.extra_env, **asked.env})
    return launch


def forget_profiles(kinds: Sequence[str], everything: bool) -> Wish:
    """Let these kinds be learned anew; kinds may be patterns such as "python train*"."""

    def wish(state: State) -> Decided:
        known = sorted(state.profiles)
        chosen = [k for k in known if everything or any(k == p or fnmatchcase(k, p) for p in kinds)]
        unknown = [p for p in kinds if not any(k == p or fnmatchcase(k, p) for k in known)]
        if unknown:
            raise NotFound(f"nothing is known of {quoted(unknown[0])}", "see `stoker profiles`")
        return Decided([ev.ProfilesForgotten(state.now_ms, tuple(chosen))], chosen)

    return wish
