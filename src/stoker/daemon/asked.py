"""What a request says of one job's need and terms, and the same said back."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from stoker.api.job_options import EXECUTORS_FIELDS
from stoker.api.messages import JobRequest
from stoker.core.model import DEFAULT_MARGIN, Need, Terms
from stoker.core.terms import requeue_codes
from stoker.errors import UsageError
from stoker.executors.mps_control import PROGRAM
from stoker.quantities import signal_name
from stoker.submission import rules


def _plain_fields(kind: type[Need | Terms], otherwise: set[str]) -> tuple[str, ...]:
    """The fields of the message that a need, or terms, have by the same name and value."""
    said = set(JobRequest.__struct_fields__) - otherwise
    return tuple(field.name for field in fields(kind) if field.name in said)


# The others have a default that depends on something, or are said in another way.
PLAIN_NEED = _plain_fields(Need, {"gpus", "on", "prefer", "cpus", "kind", "margin"})
PLAIN_TERMS = _plain_fields(Terms, {
    "grace_ms", "signal", "signal_before_ms", "executor", "mps", "thread_percentage",
    "requeue_on", "requeue", "urgent",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a job has that says nothing else, as its user has set it."""

    grace_ms: int
    mem_auto: bool = False
    margin: tuple[int, int] = DEFAULT_MARGIN
    mps: bool = False
    requeue: bool = False
    visible: str = "index"
    has_address: bool = True  # for messages
    urgent_from: int | None = None  # the priority from which jobs are urgent


def is_urgent(job: JobRequest, priority: int, from_priority: int | None, elsewhere: bool) -> bool:
    """Whether a job goes before others: as it says, or else by its priority."""
    if job.urgent is not None:
        return bool(job.urgent)
    if from_priority is None or elsewhere or job.preemptible:
        return False
    return priority <= from_priority


def need_of(job: JobRequest, kind: str, defaults: Defaults, elsewhere: bool = False) -> Need:
    """The need that a request states, for a job of that kind.

    Elsewhere (on a cluster) `on` names a type of GPU, and not which ones.
    """
    rules.check_need(job, elsewhere=elsewhere)
    gpus = 1 if job.gpus is None else job.gpus
    # A job without GPUs that says nothing else takes one CPU slot, or a thousand would start.
    cpus = (1 if gpus == 0 else 0) if job.cpus is None else job.cpus
    share = None if job.share is None else max(1, round(job.share * 1000))
    if job.mem_mib is None and job.mem is None and share is None and defaults.mem_auto:
        # What is learned is learned on the GPUs of this machine.
        learns = gpus > 0 and not job.exclusive and not elsewhere
    else:
        learns = job.mem == "auto" and not job.exclusive
    return Need(
        gpus=gpus,
        share_milli=None if share == 1000 else share,
        on=tuple(dict.fromkeys(job.on)),
        prefer=tuple(dict.fromkeys(job.prefer)),
        cpus=cpus,
        kind=kind if learns or job.mem_mib is not None else None,
        margin=defaults.margin if job.margin is None else job.margin,
        **{name: getattr(job, name) for name in PLAIN_NEED},
    )


def check_margin(need: Need) -> None:
    """Refuse a margin of memory where none is reserved by what was measured."""
    if need.kind is None:
        raise UsageError(
            "--mem-margin is about measured memory", "add --mem auto, or leave out --mem-margin"
        )


def need_fields(need: Need) -> dict[str, Any]:
    """The need as a request would state it: the opposite of `need_of`."""
    return {
        "gpus": need.gpus,
        "share": None if need.share_milli is None else need.share_milli / 1000,
        "on": list(need.on),
        "prefer": list(need.prefer),
        "cpus": need.cpus,
        "mem": "auto" if need.learns else None,
        "margin": list(need.margin),
        **{name: getattr(need, name) for name in PLAIN_NEED},
    }


def executors_options(job: JobRequest) -> dict[str, Any]:
    """What was said that is for the executor alone, and which parameter only repeats a point."""
    said = ((field, getattr(job, field.name)) for field in EXECUTORS_FIELDS)
    options = {field.name: value for field, value in said if value != field.default}
    return options if job.repeat is None else {**options, "repeat": job.repeat}


def terms_of(
    job: JobRequest, grace_ms: int, attached: bool, executor: str, urgent: bool = False
) -> Terms:
    """The terms that a request states."""
    number = None
    rules.check_limits(job)
    if job.signal is not None:
        number = int(signal.Signals[f"SIG{signal_name(job.signal)}"])
    rules.check_stays_in_terminal(job, attached)
    rules.check_giving_way(job, elsewhere=bool(executor))
    return Terms(
        grace_ms=grace_ms,
        signal=number,
        signal_before_ms=job.signal_before_ms,
        attached=attached,
        executor=executor,
        requeue_on=requeue_codes(job.requeue_on, job.slice_ms, job.preemptible),
        requeue=bool(job.requeue),
        urgent=urgent,
        **{name: getattr(job, name) for name in PLAIN_TERMS},
    )


def refuse_unless_told(job: JobRequest, has_address: bool) -> None:
    """Refuse a job that wants to send a message to nowhere."""
    if job.notify and not has_address:
        raise UsageError(
            "--notify has no address to send to", "set one first: stoker config set notify URL"
        )


# ---------------------------------------------------------------------- MPS


def uses_mps(
    asked: bool | None, threads: int | None, gpus: int, usual: bool, is_there: Callable[[], bool]
) -> bool:
    """Whether a job shares its GPU through MPS; refused in one line if it can't.

    `usual` counts for a job that says nothing and has one GPU: a server is for one GPU, and a
    program can be the client of one server.
    """
    if asked and gpus != 1:
        raise UsageError(
            "--mps is for jobs on one GPU, or on a share of one", "leave out --mps, or --gpus"
        )
    mps = usual and gpus == 1 if asked is None else asked
    if threads is not None and not mps:
        raise UsageError("--thread-percentage is about MPS", "add --mps, or leave it out")
    if mps and not is_there():
        raise UsageError(
            f"there is no {PROGRAM} on the daemon's PATH",
            "it comes with NVIDIA's driver; start the daemon with it on its PATH, "
            "or leave out --mps" + ("" if asked else " by `stoker config set mps off`"),
        )
    return mps


def no_mps_there() -> UsageError:
    """Against --mps for a job on a cluster."""
    return UsageError("MPS on a cluster's nodes is not ours to start", "leave out --mps")
