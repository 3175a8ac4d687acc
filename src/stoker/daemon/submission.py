"""A request for jobs turned into events, or refused in one line: all jobs of it, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from stoker.api.messages import JobOwn, JobRequest, Submit
from stoker.command_lines import SENDER_MARKER
from stoker.core import events as ev
from stoker.core.code import Code
from stoker.core.model import Launch, Need, Requirement, Terms
from stoker.core.state import State
from stoker.daemon.asked import (
    PLAIN_NEED,
    PLAIN_TERMS,
    Defaults,
    check_margin,
    executors_options,
    is_urgent,
    need_of,
    no_mps_there,
    refuse_unless_told,
    terms_of,
    uses_mps,
)
from stoker.daemon.awaited_processes import awaited
from stoker.daemon.cluster import ClusterRules, check_cluster_job
from stoker.daemon.drafts import Drafts
from stoker.daemon.impossible import refuse_if_impossible
from stoker.daemon.known_points import Chosen, chosen
from stoker.daemon.outfiles import check_outputs
from stoker.daemon.requirements import RequiredJobs, required
from stoker.engine import Decided, Proposal
from stoker.errors import UsageError
from stoker.executors.environment import (
    CHECKPOINT_DIR,
    KEEP_CHILDREN,
    METRICS,
    MPS_MARKER,
    OF_JOB,
    RESUMES,
    SUBMIT_DIR,
)  # fmt: skip
from stoker.executors.mps_control import find_control
from stoker.learn.kind import Kinds
from stoker.quantities import MAX_LABEL_CHARS, can_be_gpu, label
from stoker.store.views import Views
from stoker.submission import rules

# Variables that say which attempt a process belongs to are never handed on to another job.
_OF_AN_ATTEMPT = frozenset((
    "STOKER_JOB_ID", "STOKER_ATTEMPT", "STOKER_GPUS", "STOKER_ATTEMPT_ID", MPS_MARKER,
    KEEP_CHILDREN, SENDER_MARKER, METRICS, SUBMIT_DIR, CHECKPOINT_DIR, RESUMES, *OF_JOB,
))  # fmt: skip
# Nor are those that an attempt under MPS was given.
_OF_A_CLIENT = _OF_AN_ATTEMPT | {
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
}

_NOTHING_OF_THEIR_OWN = (JobOwn(),)


_need_said = attrgetter("gpus", "share", "mem", "cpus", "margin", *PLAIN_NEED)
_terms_said = attrgetter("grace_ms", "signal", "signal_before_ms", *PLAIN_TERMS)


def submission(
    request: Submit,
    views: Views,
    defaults: Defaults,
    cluster: ClusterRules,
    code: Mapping[str, Code] | None = None,
) -> Proposal:
    """The proposal to queue the jobs; its answer warns of what a cluster can't be told."""
    if not request.jobs or (request.each is not None and not request.each):
        raise UsageError("no job was given", "name a command after --")
    if request.each is not None and len(request.jobs) != 1:
        raise UsageError("`each` varies one job", f"give one instead of {len(request.jobs)}")
    if request.attached and len(request.each or request.jobs) != 1:
        raise UsageError("only one job can run in a terminal", "use `stoker add` for several")
    dropped = _OF_A_CLIENT if MPS_MARKER in request.env else _OF_AN_ATTEMPT
    env = {k: v for k, v in request.env.items() if k not in dropped}
    drafting = _Drafting(request, env, defaults, cluster, code or {})
    each = _NOTHING_OF_THEIR_OWN if request.each is None else request.each
    asked = [some for job in request.jobs for some in drafting.drafts(job, each)]
    warnings = list(dict.fromkeys(drafting.warnings))
    says_auto = any(job.mem == "auto" for job in request.jobs)

    def proposal(state: State) -> Decided:
        if request.token is not None:
            taken = views.submission(request.token)
            if taken is not None:
                repeated = chosen(asked, request.rerun, state, views, frozenset(taken))
                return Decided([], _answer(taken, repeated, warnings))
        wanted = chosen(asked, request.rerun, state, views)
        drafts = wanted.drafts
        here = {id(some.need): some.need for some in drafts if not some.terms.executor}
        needs = list(here.values())  # Alike jobs share one.
        events: list[ev.Event] = list(declared_by_naming(state, needs))
        declared = [event.gpu for event in events if isinstance(event, ev.GpuAdded)]
        known = {*state.gpus, *declared}
        for need in needs:
            refuse_if_impossible(state, need, known)
        if any(some.terms.mps for some in drafts):
            _refuse_mps_without_nvidia(state)
        first_id = next_id = state.next_job_id
        ids = range(first_id, first_id + sum(len(some.each) for some in drafts))
        others = RequiredJobs(state, views, ids)
        told = [*warnings, *check_outputs(drafts, first_id, wanted.tried, views)]
        if declared:
            told.append(_NOW_DECLARED.format(", ".join(declared), ",".join(declared)))
        if any(_takes_whole_gpus(state, need) for need in needs):
            told.append(_NOTHING_IS_MEASURED.format(_SAYS_AUTO if says_auto else _SET_TO_AUTO))
        for some in drafts:
            events += some.events(state, next_id, others)
            next_id += len(some.each)
        if request.token is not None:
            events.append(ev.SubmissionTaken(state.now_ms, request.token, tuple(ids)))
        return Decided(events, _answer(list(ids), wanted, told))

    return proposal


_NOW_DECLARED = (
    "no GPU was known here, so GPU {} is declared now; `stoker gpus remove {}` takes that back"
)
_NOTHING_IS_MEASURED = (
    "no driver measures GPU memory here{} takes a whole GPU; --mem 8G reserves a part of one"
)
_SAYS_AUTO = ", so a job with --mem auto"
_SET_TO_AUTO = " and the setting mem is auto, so a job without --mem"


def _takes_whole_gpus(state: State, need: Need) -> bool:
    """Whether a job that leaves its memory to what is measured is never measured."""
    if not need.learns or need.kind in state.profiles:
        return False
    gpus = (gpu for gpu in state.gpus.values() if not need.on or gpu.is_one_of(need.on))
    return not any(gpu.vendor for gpu in gpus)


def _answer(ids: list[int], wanted: Chosen, warnings: list[str]) -> dict[str, Any]:
    answer = {"ids": ids, "left_out": wanted.left_out, "left_out_in": wanted.groups,
              "warnings": warnings or None}  # fmt: skip
    return {name: value for name, value in answer.items() if value is not None}


@dataclass(slots=True)
class _Drafting:
    """Makes drafts; what jobs have in common is checked, and kept, once."""

    request: Submit
    env: Mapping[str, str]
    defaults: Defaults
    cluster: ClusterRules
    code: Mapping[str, Code]  # by directory
    warnings: list[str] = field(default_factory=list)
    _needs: dict[tuple[Any, ...], Need] = field(default_factory=dict)  # by what was said
    _terms: dict[tuple[Any, ...], Terms] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)
    _directories: set[str] = field(default_factory=set)
    _kinds: Kinds = field(default_factory=Kinds)
    _mps_is_there: bool = False
    _has_files: bool = False  # of the jobs that are being looked at

    def __post_init__(self) -> None:
        rules.check_environment(self.env)

    def drafts(self, job: JobRequest, each: Sequence[JobOwn]) -> list[Drafts]:
        """Jobs like this one but for what each has for itself; all of them checked."""
        if job.env:
            rules.check_environment(job.env)
        cwd = self.request.cwd if job.cwd is None else job.cwd
        if cwd not in self._directories:
            rules.check_directory(cwd)
            self._directories.add(cwd)
        if job.freeze is not None:
            rules.check_frozen(cwd)
        rules.check_output(job.out, "--out", of_point=job.point is not None)
        rules.check_output(job.err, "--err", of_point=job.point is not None)
        terms = self._terms_of(job, job.priority)
        refuse_unless_told(job, self.defaults.has_address)
        if job.hook is not None:
            rules.check_command((), job.hook)
        requires: tuple[Requirement, ...] = ()
        if job.after or job.after_any or job.after_pid:
            requires = (
                *required(job.after, True),
                *required(job.after_any, False),
                *awaited(job.after_pid),
            )
        launch = Launch(
            tuple(job.argv),
            job.shell,
            cwd,
            self.env,
            job.env,
            self._label(job.name),
            self.request.user,
            job.out,
            job.err,
            job.gpu_arg,
            requires,
            params=job.params,
            point=job.point,
            cluster_options=tuple(job.slurm),
            umask=self.request.umask,
            options=self._options_of(job, terms, each[0].params or job.params),
            code=self.code.get(cwd if job.freeze is None else job.freeze),
        )
        group = self._label(job.group)
        self._has_files = job.out is not None or job.err is not None
        kinds = self._kinds_of(job, each)
        if self.defaults.urgent_from is not None:
            return self._by_urgency(job, launch, group, kinds, each)
        return self._alike(job, terms, launch, group, kinds, each)

    def _by_urgency(
        self,
        job: JobRequest,
        launch: Launch,
        group: str | None,
        kinds: list[str],
        each: Sequence[JobOwn],
    ) -> list[Drafts]:
        """Where a priority makes jobs urgent, those with one of their own may differ in that."""
        found, start = [], 0
        usual = job.priority
        for terms, some in groupby(
            self._terms_of(job, usual if own.priority is None else own.priority) for own in each
        ):
            part = slice(start, start + sum(1 for _ in some))
            found += self._alike(job, terms, launch, group, kinds[part], each[part])
            start = part.stop
        return found

    def _alike(
        self,
        job: JobRequest,
        terms: Terms,
        launch: Launch,
        group: str | None,
        kinds: list[str],
        each: Sequence[JobOwn],
    ) -> list[Drafts]:
        # What the words of a command say of its need is the same for those of one kind, and mostly
        # for all: only where memory counts do kinds differ in that.
        by_kind = {kind: self._need_and_terms(job, terms, kind) for kind in dict.fromkeys(kinds)}
        drafts = []
        start = 0
        runs = [(next(iter(by_kind.values())), len(each))]
        if len(set(by_kind.values())) > 1:
            found = groupby(by_kind[kind] for kind in kinds)
            runs = [(needed, sum(1 for _ in some)) for needed, some in found]
        for (need, its_terms), count in runs:
            some = slice(start, start + count)
            drafts.append(
                Drafts(need, its_terms, launch, job.priority, group, job.not_before_ms, job.hold,
                       each[some], kinds[some], self._has_files)
            )  # fmt: skip
            start += count
        return drafts

    def _options_of(
        self, job: JobRequest, terms: Terms, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        options = executors_options(job)
        rules.says_what_of_files(options)
        no_log_here = bool(terms.executor) or terms.attached
        rules.check_log_bound(options, job.out, elsewhere=no_log_here)
        rules.check_metrics(options, params)
        if terms.executor:
            if job.visible is not None:
                raise UsageError("the cluster says which GPUs a job sees", "leave out --visible")
            if job.keep_children:
                raise UsageError(
                    "the cluster ends what a job leaves behind", "leave out --keep-children"
                )
            if job.freeze is not None:
                raise UsageError(
                    "the cluster's nodes may not see the frozen code", "leave out --freeze"
                )
        elif self.defaults.visible != "index" and not job.gpu_arg:
            options.setdefault("visible", self.defaults.visible)
        return options

    def _kinds_of(self, job: JobRequest, each: Sequence[JobOwn]) -> list[str]:
        """The kind of each, whose command and files are looked at on the way."""
        given, kind_of, check_command = self._label(job.kind), self._kinds.of, rules.check_command
        usual = ""
        kinds = []
        for own in each:
            argv, shell = own.argv, own.shell
            if argv or shell is not None:
                check_command(argv, shell)
                kinds.append(kind_of(argv, shell) if given is None else given)
            else:
                if not usual:
                    check_command(job.argv, job.shell)
                    usual = kind_of(job.argv, job.shell) if given is None else given
                kinds.append(usual)
            if own.out is not None or own.err is not None:
                self._has_files = True
                rules.check_output(own.out, "--out", of_point=own.point is not None)
                rules.check_output(own.err, "--err", of_point=own.point is not None)
        _check_names([own.name for own in each if own.name is not None])
        return kinds

    def _need_and_terms(self, job: JobRequest, terms: Terms, kind: str) -> tuple[Need, Terms]:
        need = self._need_of(job, kind, bool(terms.executor))
        if terms.executor:
            check_cluster_job(need, job.slurm)
            self.warnings += self.cluster.warnings(need)
        return need, self._with_mps(terms, job, need)

    def _need_of(self, job: JobRequest, kind: str, elsewhere: bool) -> Need:
        said = (elsewhere, *_need_said(job), tuple(job.on), tuple(job.prefer))
        # Where memory counts, the need is that of a kind.
        memory = job.mem is not None or job.mem_mib is not None or self.defaults.mem_auto
        key = (*said, kind) if memory else said
        known = self._needs.get(key)
        if known is None:
            if (share := rules.share_of_many(job)) is not None:
                job = msgspec.structs.replace(job, share=share)
            known = self._needs[key] = need_of(job, kind, self.defaults, elsewhere)
            if job.margin is not None:
                check_margin(known)
        return known

    def _terms_of(self, job: JobRequest, priority: int) -> Terms:
        attached = self.request.attached
        executor = self.cluster.executor_of(job, attached)
        urgent = is_urgent(job, priority, self.defaults.urgent_from, bool(executor))
        said = (executor, urgent, job.urgent, job.requeue, tuple(job.requeue_on), *_terms_said(job))
        known = self._terms.get(said)
        if known is None:
            grace_ms = self.defaults.grace_ms if job.grace_ms is None else job.grace_ms
            known = terms_of(job, grace_ms, attached, executor, urgent)
            if job.requeue is None and self.defaults.requeue and not attached:
                known = replace(known, requeue=True)
            self._terms[said] = known
        return known

    def _with_mps(self, terms: Terms, job: JobRequest, need: Need) -> Terms:
        usual = self.defaults.mps and not terms.executor
        if job.mps is None and job.thread_percentage is None and not usual:
            return terms
        if terms.executor and job.mps:
            raise no_mps_there()
        threads = job.thread_percentage
        mps = uses_mps(job.mps, threads, need.gpus, usual, self._has_mps)
        return replace(terms, mps=mps, thread_percentage=threads)

    def _has_mps(self) -> bool:
        self._mps_is_there = self._mps_is_there or find_control() is not None
        return self._mps_is_there

    def _label(self, text: str | None) -> str | None:
        if text is None:
            return None
        known = self._labels.get(text)
        if known is None:
            known = self._labels[text] = label(text)
        return known


def _check_names(names: Sequence[str]) -> None:
    """Refuse the first that can't be a name; where all are good, that is told at once."""
    are_short = max(map(len, names), default=0) <= MAX_LABEL_CHARS
    if not (are_short and "".join(names).isprintable() and all(map(str.strip, names))):
        for name in names:
            label(name)


def _refuse_mps_without_nvidia(state: State) -> None:
    vendors = {gpu.vendor for gpu in state.gpus.values() if not gpu.removing}
    if vendors == {"amd"}:
        raise UsageError("MPS is NVIDIA's, and the GPUs here are AMD's", "leave out --mps")


# ---------------------------------------------------------------------- against the state


def declared_by_naming(state: State, needs: list[Need]) -> list[ev.GpuAdded]:
    """Where no GPU is known, those that jobs name with --on declare themselves.

    Later names are refused: one that was mistyped would be there for good. So are other words.
    """
    if any(gpu.declared or not gpu.removing for gpu in state.gpus.values()):
        return []
    named = dict.fromkeys(gpu for need in needs for gpu in need.on if can_be_gpu(gpu))
    return [ev.GpuAdded(state.now_ms, gpu, None, declared=False) for gpu in named]
