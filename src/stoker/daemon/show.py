"""What front ends are told of jobs: the wire's JobView."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable
from typing import Any

from stoker.command_lines import shown_call
from stoker.core.forecast import expected_start
from stoker.core.foreign import ForeignProcess
from stoker.core.model import ALONE, QUEUED, Job, JobState, Need, Terms
from stoker.core.reasons import (
    DaemonIsEnding,
    Reason,
    as_data,
    gib,
    low_disk_words,
    outcome_words,
    tight_disk_words,
    unheard_words,
    words,
)
from stoker.core.state import State
from stoker.core.waiting import (
    plain_reason,
    reason_for,
    why_not_going_on,
    with_giving_way,
    with_policy,
)
from stoker.daemon.asked import PLAIN_TERMS, need_fields
from stoker.daemon.cluster import StandingOf, at_cluster, attempt_of
from stoker.daemon.expectations import Expect
from stoker.executors.attempt_dir import attempt_dir_text, log_found
from stoker.executors.checkpoint_dir import checkpoint_text
from stoker.output_files import filled
from stoker.quantities import exact_duration
from stoker.store.views import Views, outcome_of

_NOT_BEGUN = (*QUEUED, JobState.SUBMITTED)
# What is shown as it is on record.
_OF_JOB = (
    "id", "name", "state", "exit_code", "signal", "group", "priority", "user", "attempt", "pid",
    "not_before_ms", "submitted_at_ms", "queued_at_ms", "ended_at_ms", "point", "place", "resumes",
    "suspended_at_ms", "suspended_ms",
)  # fmt: skip
_OF_ATTEMPT = (
    "exit_code", "signal", "pid", "peak_mib", "placed_at_ms", "ended_at_ms", "suspended_at_ms",
    "suspended_ms",
)  # fmt: skip


class JobViews:
    """Turns rows and state into what is shown."""

    def __init__(self, views: Views, attempts: str, draining: bool, standing: StandingOf) -> None:
        self._views = views
        self._standing = standing
        self._draining = draining
        self._root = attempts

    def jobs(self, state: State, job_ids: Iterable[int]) -> list[dict[str, Any]]:
        """The jobs, in the order of their ids."""
        reasons = Reasons(state, self._draining, self._standing)
        return [self._job(row, state, reasons) for row in self._views.rows(job_ids)]

    def with_attempts(self, state: State, job_ids: Iterable[int]) -> list[dict[str, Any]]:
        """The jobs, each with all its attempts."""
        reasons = Reasons(state, self._draining, self._standing)
        jobs = []
        for row in self._views.rows(job_ids):
            job = self._job(row, state, reasons)
            attempts = self._views.attempts(job["id"])
            job["attempts"] = [self._attempt(one, job, row["launch"], state) for one in attempts]
            jobs.append(job)
        return jobs

    def why(
        self, state: State, job_ids: Iterable[int], *, estimate: bool = True
    ) -> list[dict[str, Any]]:
        """Why each job stands where it does, and when it will start if that can be told."""
        answers = []
        expect = Expect(self._views, state)
        for view in self.jobs(state, job_ids):
            job = state.jobs.get(view["id"])
            answer: dict[str, Any] = {
                "id": view["id"],
                "state": view["state"],
                "reason": None,
                "text": view["reason"] or _ended_words(view["state"]),
                "starts_at_ms": None,
                "starts_earliest_at_ms": None,
                "starts_latest_at_ms": None,
                "jobs_ahead": None,
                "run_ms": None,
                "learned_from": 0,
            }
            if job is not None and estimate:
                answer["run_ms"], answer["learned_from"] = expect.learned(job.id)
            if job is not None and job.state in _NOT_BEGUN:
                # Each for itself: jobs alike in all but their order may be held back by others.
                reason = Reasons(state, self._draining, self._standing).of(job)
                if job.state in QUEUED:  # A held one is not in line.
                    waits = job.state is JobState.WAITING
                    answer["jobs_ahead"] = state.ahead_of([job])[job.id] if waits else 0
                    reason = with_policy(state, job, reason, answer["jobs_ahead"])
                answer["reason"] = as_data(reason)
                answer["text"] = words(reason, state.now_ms)
                if job.state is JobState.WAITING and estimate and not self._draining:
                    start = expected_start(state, job.id, expect)
                    if start is not None:
                        answer["starts_at_ms"] = start.at_ms
                        answer["starts_earliest_at_ms"] = start.from_ms
                        answer["starts_latest_at_ms"] = start.until_ms
            elif job is not None and job.terms.executor:
                answer["text"] = self._running_there(job, state.now_ms)
            elif job is not None:
                where = f" on GPU {', '.join(view['gpus'])}" if view["gpus"] else ""
                if view["reserved_mib"] is not None:
                    where += f" with {gib(view['reserved_mib'])} reserved"
                answer["text"] = f"it is {view['state']}{where}"
                halted = why_not_going_on(job)
                if halted is not None:
                    answer["reason"] = as_data(halted)
                    answer["text"] += f"; {words(halted, state.now_ms)}"
            answers.append(answer)
        return answers

    def _job(self, row: dict[str, Any], state: State, reasons: Reasons) -> dict[str, Any]:
        launch: dict[str, Any] = row["launch"]
        need: Need = row["need"]
        terms: Terms = row["terms"]
        job = state.jobs.get(row["id"])
        requires = row["requires"] or []
        key, elsewhere = (row["id"], row["attempt"]), bool(terms.executor)
        log, err_log = self._logs(launch, row["name"], *key, elsewhere)
        if terms.adopted is not None:  # Its output goes where it was started.
            log = err_log = None
        return {
            **{name: row[name] for name in _OF_JOB},
            "reason": self._reason(row, job, reasons),
            "gpus": state.shown_gpus(row["gpus"] or []),
            "command": display_command(launch, row["params"]),
            "argv": launch["argv"],
            "shell": launch["shell"],
            "cwd": launch["cwd"],
            "reserved_mib": _reserved(row),
            "peak_mib": row["peak_mib"] if job is None else job.active and job.active.peak_mib,
            "need": need_fields(need),
            "after": [_required(fields) for fields in requires if fields[1]],
            "after_any": [_required(f) for f in requires if not f[1] and len(f) < 4],
            "after_pid": [ForeignProcess.of(f[3]).shown for f in requires if len(f) == 4],
            **{name: getattr(terms, name) for name in PLAIN_TERMS},
            "grace_ms": terms.grace_ms,
            "signal_spec": _signal_spec(terms),
            "requeue_on": list(terms.requeue_on),
            "requeue": terms.requeue,
            "urgent": terms.urgent,
            "checkpoint_dir": self._checkpoints(row, terms),
            "attached": terms.attached,
            "adopted": _adopted(terms),
            "executor": terms.executor or "local",
            "cluster": _cluster(row["place"]),
            "slurm": launch.get("cluster_options") or [],
            "options": launch.get("options") or {},
            "git": _git(row),
            "mps": terms.mps,
            "thread_percentage": terms.thread_percentage,
            "started_at_ms": _started(row, bool(terms.executor)),
            "log": log,
            "err_log": err_log,
            "params": row["params"] or {},
        }

    def _reason(self, row: dict[str, Any], job: Job | None, reasons: Reasons) -> str | None:
        text, _ = reasons.of_row(row)
        if text is None and job is not None and job.terms.executor:
            return unheard_words(at_cluster(job, self._standing), reasons.state.now_ms)
        return text

    def _checkpoints(self, row: dict[str, Any], terms: Terms) -> str | None:
        """Where the job keeps what its attempts leave to those that go on, if it counts on it."""
        if not (terms.goes_on or row["resumes"]):
            return None
        return checkpoint_text(self._root, row["id"], row["point"])

    def _running_there(self, job: Job, now_ms: int) -> str:
        slurm_id, _, node = attempt_of(job).place.partition(" ")
        there = f" on {node}" if node else " at the cluster"
        known_as = f" (job {slurm_id})" if slurm_id else ""
        unheard = unheard_words(at_cluster(job, self._standing), now_ms)
        return f"it is {job.state}{there}{known_as}" + (f"; {unheard}" if unheard else "")

    def _attempt(
        self, row: dict[str, Any], job: dict[str, Any], launch: dict[str, Any], state: State
    ) -> dict[str, Any]:
        outcome = outcome_of(row)
        row["state"] = _attempt_state(row["state"])
        number = row["number"]
        key, elsewhere = (job["id"], number), job["executor"] != "local"
        log, err_log = self._logs(launch, job["name"], *key, elsewhere)
        if job["adopted"]:
            log = err_log = None
        return {
            "attempt": number,
            "state": row["state"] or job["state"],
            "reason": outcome_words(outcome) if outcome is not None else None,
            **{name: row[name] for name in _OF_ATTEMPT},
            "gpus": state.shown_gpus(row["gpus"]),
            "reserved_mib": _reserved(row),
            "cluster": _cluster(row["place"]),
            "started_at_ms": _started(row, job["executor"] != "local"),
            "dir": attempt_dir_text(self._root, job["id"], number),
            "log": log,
            "err_log": err_log,
        }

    def _logs(
        self,
        launch: dict[str, Any],
        name: str | None,
        job_id: int,
        attempt: int,
        elsewhere: bool,
    ) -> tuple[str | None, str | None]:
        log = log_of(launch, name, self._root, job_id, attempt, elsewhere)
        err = launch.get("err")
        return log, None if log is None or not err else filled(err, job_id, name, attempt)


class Reasons:
    """Why jobs wait; jobs that planning can't tell apart share one answer."""

    def __init__(self, state: State, draining: bool, standing: StandingOf) -> None:
        self.state = state
        self._draining = draining
        self._standing = standing
        self._by_class: dict[tuple[int, bool], Reason] = {}

    def of_row(self, row: dict[str, Any]) -> tuple[str | None, str | None]:
        """Why a job stands where it does: in words, and the kind of reason."""
        outcome = outcome_of(row)
        if outcome is not None:
            return outcome_words(outcome), outcome.cause.value
        job = self.state.jobs.get(row["id"])
        if job is None:
            return None, None
        reason = self.of(job) if job.state in _NOT_BEGUN else why_not_going_on(job)
        if reason is None:
            return None, None
        return words(reason, self.state.now_ms), type(reason).__name__

    def of(self, job: Job) -> Reason:
        """The reason as a value, of a job that has not begun."""
        if job.state is JobState.SUBMITTED:
            return at_cluster(job, self._standing)
        cls = job.in_class
        if cls is None:
            return reason_for(self.state, job)
        if self._draining:
            return DaemonIsEnding()
        alike = (cls.number, job.terms.urgent)
        reason = self._by_class.get(alike)
        if reason is None:
            reason = self._by_class[alike] = plain_reason(self.state, job)
        return with_giving_way(self.state, job, reason)


def _attempt_state(state: str | None) -> str | None:
    """How an attempt ended; after one that did not fail its job may wait again."""
    return "requeued" if state == JobState.WAITING else state


def _reserved(row: dict[str, Any]) -> int | None:
    """What an attempt has reserved by what was learned; None where its need says it."""
    mem_mib: int | None = row["mem_mib"]
    return None if mem_mib == ALONE else mem_mib


def _git(row: dict[str, Any]) -> dict[str, Any] | None:
    """The commit that a job was queued at, and whether tracked files were changed, if known."""
    if row["commit_id"] is None:
        return None
    dirty = None if row["dirty"] is None else bool(row["dirty"])
    return {"commit": row["commit_id"], "dirty": dirty, "repository": row["root"]}


def _cluster(place: str | None) -> dict[str, str | None] | None:
    """What the cluster calls an attempt, and the node that it runs (or ran) on."""
    if not place:
        return None
    slurm_id, _, node = place.partition(" ")
    return {"id": slurm_id, "node": node or None}


def log_of(
    launch: dict[str, Any],
    name: str | None,
    root: str,
    job_id: int,
    attempt: int,
    elsewhere: bool = False,
) -> str | None:
    """Where an attempt's output is; None if there was no attempt yet."""
    if attempt == 0:
        return None
    if launch.get("out"):
        return filled(launch["out"], job_id, name, attempt)
    if elsewhere:  # The node makes it, in the attempt's own directory.
        return f"{attempt_dir_text(root, job_id, attempt)}/log"
    return log_found(root, job_id, attempt)


def _required(fields: list[Any]) -> int | str:
    """A job that another requires; "3-5002" for very many that follow each other."""
    job_id: int = fields[0]
    return job_id if len(fields) < 3 else f"{job_id}-{fields[2]}"


def display_command(launch: dict[str, Any], params: dict[str, Any] | None = None) -> str:
    """The command as a person would type it; that of a call as it is in Python."""
    shell: str | None = launch.get("shell")
    if shell is not None:
        return shell
    argv = launch.get("argv", ())
    return shown_call(argv, params) or shlex.join(argv)


def _started(row: dict[str, Any], elsewhere: bool) -> int | None:
    if row.get("attempt", 1) == 0 or row["placed_at_ms"] is None:
        return None
    if row["state"] in QUEUED or row["state"] == JobState.SUBMITTED:
        return None
    started: int | None = row["started_at_ms"]
    # Here it starts as soon as it is placed; a cluster takes its time, or never starts it.
    return started if elsewhere or started is not None else row["placed_at_ms"]


def _adopted(terms: Terms) -> str | None:
    """The process that the job is, if Stoker did not start it."""
    return None if terms.adopted is None else ForeignProcess.of(terms.adopted).shown


def _signal_spec(terms: Terms) -> str | None:
    if terms.signal is None:
        return None
    name = signal.Signals(terms.signal).name.removeprefix("SIG")
    return f"{name}@{exact_duration(terms.signal_before_ms)}"


def name_gpus(rows: list[dict[str, Any]], state: State) -> None:
    """GPUs by the names that people know them by."""
    for row in rows:
        row["gpus"] = state.shown_gpus(row["gpus"])


def queue(state: State, finished: dict[str, int]) -> dict[str, Any]:
    """The queue as a whole; `short`: what the machine has not enough of to start jobs.

    `disk`: that a disk has little room left, while jobs still start.
    """
    low = state.low_disk
    short = None if state.short is None else state.short.what
    if low is not None and low.stops:
        short = low_disk_words(low)
    return {
        "counts": counts(state, finished),
        "paused": state.paused,
        "paused_groups": [group.name for group in state.groups.values() if group.paused],
        "short": short,
        "disk": None if low is None or low.stops else tight_disk_words(low),
        "cpus": {"total": state.cpus, "used": state.cpus_used},
    }


def counts(state: State, finished: dict[str, int]) -> dict[str, int]:
    """How many jobs there are in each state."""
    found = dict.fromkeys(JobState, 0)
    found.update({JobState(name): count for name, count in finished.items()})
    queued = len(state.jobs) - len(state.active)
    for job_id in state.active:
        found[state.jobs[job_id].state] += 1
    held = state.held_count
    found[JobState.HELD] = held
    found[JobState.WAITING] = queued - held
    return {name.value: count for name, count in found.items()}


def _ended_words(state: str) -> str:
    verb = "has" if state in (JobState.SUCCEEDED, JobState.FAILED) else "was"
    return f"it {verb} {state}"
