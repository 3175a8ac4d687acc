"""`stoker edit`: change queued jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from stoker.api import messages as msg
from stoker.api.job_options import options_in
from stoker.api.messages import JobRequest
from stoker.core import events as ev
from stoker.core.model import QUEUED, Job, Launch, Need, Terms
from stoker.core.order import with_run_kinds
from stoker.core.state import State
from stoker.core.terms import requeue_codes
from stoker.daemon import asked as request_read
from stoker.daemon import settings
from stoker.daemon.cluster import check_cluster_job
from stoker.daemon.impossible import refuse_if_impossible
from stoker.daemon.outfiles import shared_by_edited
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.requests.selecting import selected, state_of
from stoker.engine import Decided
from stoker.errors import Failed, StokerError, UsageError
from stoker.executors.mps_control import find_control
from stoker.executors.slurm.executor import NAME as CLUSTER
from stoker.learn.kind import kind_of
from stoker.quantities import label
from stoker.store.views import Views
from stoker.submission import rules
from stoker.submission.changes import none_changed, not_queued

_EDITABLE = {"argv", "shell", *(f.name for one in options_in("edit") for f in one.fields)}


def edit(daemon: Daemon, request: msg.Edit) -> AfterTurn:
    """Only what is in the changes changes, in all of the jobs that have not started."""
    changes, views = request.changes, daemon.views
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
        rules.check_command(asked.argv, asked.shell)
    rules.check_environment(asked.env)
    rules.check_output(asked.out, "--out")
    rules.check_output(asked.err, "--err")
    values = daemon.store.settings()
    request_read.refuse_unless_told(asked, bool(settings.value_of("notify", values)))
    urgent_from = settings.urgent_from_of(values)
    if asked.hook is not None:
        rules.check_command((), asked.hook)
    if asked.cwd is not None:
        rules.check_directory(asked.cwd)
    for text in (asked.name, asked.group):
        if text is not None:
            label(text)

    def proposal(state: State) -> Decided:
        ids = selected(request.select, views, state, [s.value for s in QUEUED])
        events: list[ev.JobEdited] = []
        left_out: dict[str, list[int]] = {}
        refusal: StokerError | None = None
        for job_id in ids:
            try:
                events.append(edited(state, job_id))
            except (Failed, UsageError) as error:
                refusal = refusal or error
                why = _state_of_started(state, job_id, views) or error.message
                left_out.setdefault(why, []).append(job_id)
        if refusal is not None and not events:
            raise none_changed(left_out, refusal)
        changed = [event.job_id for event in events]
        told = shared_by_edited((asked.out, asked.err), changed, views)
        return Decided(events, {"ids": changed, "left_out": left_out, "warnings": told})

    def edited(state: State, job_id: int) -> ev.JobEdited:
        started = _state_of_started(state, job_id, views)
        if started:
            raise not_queued(job_id, started)
        job = state.jobs[job_id]
        terms = _edited_terms(job, asked, changes, urgent_from)
        launch = _edited_launch(daemon.store.launch(job_id), asked, changes)
        if not rules.says_what_of_files(launch.options):
            for name in changes.keys() & {"out", "err"}:
                if changes[name] is not None:
                    rules.refuse_existing(changes[name], f"--{name}")
        rules.check_log_bound(launch.options, launch.out, elsewhere=bool(terms.executor))
        rules.check_metrics(launch.options, launch.params)
        need = _edited_need(job.need, launch.kind, asked, changes, bool(terms.executor))
        terms = _edited_mps(terms, need, asked, changes)
        terms = with_run_kinds(need, replace(terms, run_kind=""), [launch.kind])[launch.kind]
        if terms.executor:
            check_cluster_job(need, list(launch.cluster_options))
        else:
            refuse_if_impossible(state, need, set(state.gpus))
        said: dict[str, Any] = {
            name: getattr(asked if name in changes else job, name)
            for name in ("priority", "group", "not_before_ms")
        }
        return ev.JobEdited(state.now_ms, job_id, need, terms, launch=launch, **said)

    return AfterTurn(proposal)


def _state_of_started(state: State, job_id: int, views: Views) -> str:
    """The state of a job that is no longer queued; else empty."""
    job = state.jobs.get(job_id)
    return "" if job is not None and job.state in QUEUED else state_of(job_id, state, views)


def _edited_need(
    need: Need, kind: str, asked: JobRequest, changes: dict[str, Any], elsewhere: bool
) -> Need:
    """The old need with what was asked for on top, checked as one request."""
    old = request_read.need_fields(need)
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
    if rules.is_share_of_many(rules.Said(old)):
        old["share"] = None  # It follows from --max-per-gpu, which may be what changes.
    new = {name: changes.get(name, value) for name, value in old.items()}
    if new["share"] is None:
        new["share"] = rules.share_of_many(rules.Said(new))
    # It says all that it needs, so nothing is left to what is usual.
    request, defaults = msgspec.convert(new, JobRequest), request_read.Defaults(grace_ms=0)
    edited = request_read.need_of(request, kind, defaults, elsewhere)
    if "margin" in changes:
        request_read.check_margin(edited)
    return edited


def _edited_terms(
    job: Job, asked: JobRequest, changes: dict[str, Any], urgent_from: int | None
) -> Terms:
    terms = job.terms
    grace = asked.grace_ms if asked.grace_ms is not None else terms.grace_ms
    said = {name: getattr(asked, name) for name in request_read.PLAIN_TERMS if name in changes}
    slice_ms = asked.slice_ms if "slice_ms" in changes else terms.slice_ms
    codes = asked.requeue_on if "requeue_on" in changes else terms.requeue_on
    said["requeue_on"] = requeue_codes(codes, slice_ms, said.get("preemptible", terms.preemptible))
    if "requeue" in changes:
        said["requeue"] = bool(asked.requeue)
    edited = replace(terms, grace_ms=grace, **said)
    if asked.urgent is not None:
        edited = replace(edited, urgent=asked.urgent)
    elif "priority" in changes and urgent_from is not None and not edited.preemptible:
        # Where the priority decided, the new one does; what was said stays.
        by_priority = terms.urgent == (job.priority <= urgent_from)
        urgent = asked.priority <= urgent_from if by_priority else terms.urgent
        edited = replace(edited, urgent=urgent)
    rules.check_stays_in_terminal(edited, edited.attached)
    executor = asked.executor or (CLUSTER if asked.slurm else None)
    if executor is not None:
        if executor == CLUSTER and terms.attached:
            raise UsageError("a job in a terminal can't run on the cluster", "")
        if executor != CLUSTER and asked.slurm:
            raise UsageError("--slurm is for jobs on the cluster", "leave out --executor local")
        edited = replace(edited, executor=CLUSTER if executor == CLUSTER else "")
    if "signal" in changes and asked.signal is None:
        edited = replace(edited, signal=None, signal_before_ms=0)
    elif asked.signal is not None:
        both = msgspec.structs.replace(
            asked,
            time_limit_ms=edited.time_limit_ms,
            slice_ms=edited.slice_ms,
            requeue_on=list(edited.requeue_on),
            preemptible=edited.preemptible,
            yields=edited.yields,
        )
        new = request_read.terms_of(both, grace, terms.attached, edited.executor)
        edited = replace(edited, signal=new.signal, signal_before_ms=new.signal_before_ms)
    rules.check_limits(edited)
    rules.check_giving_way(edited, elsewhere=bool(edited.executor))
    return edited


def _edited_mps(terms: Terms, need: Need, asked: JobRequest, changes: dict[str, Any]) -> Terms:
    wanted = terms.mps if asked.mps is None else asked.mps
    threads = terms.thread_percentage if wanted or not terms.mps else None
    if "thread_percentage" in changes:
        threads = asked.thread_percentage
    if not wanted and threads is None:
        return replace(terms, mps=False, thread_percentage=None)
    if terms.executor:
        raise request_read.no_mps_there()
    known = terms.mps or find_control() is not None
    mps = request_read.uses_mps(wanted, threads, need.gpus, False, lambda: known)
    return replace(terms, mps=mps, thread_percentage=threads)


def _edited_launch(launch: Launch, asked: JobRequest, changes: dict[str, Any]) -> Launch:
    if "argv" in changes or "shell" in changes:
        argv, kind = tuple(asked.argv), launch.kind
        if kind == kind_of(launch.argv, launch.shell):  # Else it was given by its user.
            kind = kind_of(argv, asked.shell)
        launch = launch._replace(argv=argv, shell=asked.shell, kind=kind)
    if asked.kind is not None:
        launch = launch._replace(kind=label(asked.kind))
    if "cwd" in changes and "freeze" in launch.options:
        raise UsageError(
            "a job with frozen code stays in its directory",
            "cancel it, and queue it again in the other one",
        )
    for name in ("name", "cwd", "out", "err", "gpu_arg"):
        if name in changes:
            launch = launch._replace(**{name: getattr(asked, name)})
    if "cwd" in changes:
        launch = launch._replace(code=None)  # What is checked out there was not looked at.
    if "slurm" in changes:
        launch = launch._replace(cluster_options=tuple(asked.slurm))
    kept = {name: value for name, value in launch.options.items() if name not in changes}
    for one, other in (("append", "overwrite"), ("overwrite", "append")):
        if getattr(asked, one):
            kept.pop(other, None)
    options, env = kept | request_read.executors_options(asked), {**launch.extra_env, **asked.env}
    return launch._replace(options=options, extra_env=env)
