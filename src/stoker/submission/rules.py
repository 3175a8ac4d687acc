"""What can't be said of a job at once: the daemon's rules, which front ends may ask beforehand."""

from __future__ import annotations

from stoker.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Said:
    """Fields of a message by attribute; what was not said is None."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        return self._fields.get(name)


def check_need(job: Any, *, elsewhere: bool = False) -> None:
    """Refuse a need that contradicts itself. Elsewhere (on a cluster) `on` is a type of GPU."""
    if job.share is not None and job.gpus not in (None, 1):
        raise UsageError("a share is of one GPU", "use either --gpus 0.5 or --gpus 2")
    if job.exclusive and job.share is not None:
        raise UsageError("a share of a GPU can't be exclusive", "write --gpus 1 --exclusive")
    if job.mem is not None and job.mem_mib is not None:
        raise UsageError("a job has one amount of memory", "use either --mem auto or --mem 8G")
    if job.gpus == 0:
        for said, option in (
            (job.mem_mib or job.mem == "auto", "--mem"),
            (job.on, "--on"),
            (job.prefer, "--prefer"),
            (job.exclusive, "--exclusive"),
        ):
            if said:
                raise UsageError(
                    f"{option} makes no sense for a job without GPUs",
                    f"leave {option} out, or ask for a GPU",
                )
    named = len(set(job.on or ()))
    if named and (job.gpus or 1) > named and not elsewhere:
        raise UsageError(
            f"--gpus {job.gpus} is more than the {named} named with --on",
            "name more GPUs, or ask for fewer",
        )


def check_limits(job: Any, *, has_limit: bool = False) -> None:
    """Refuse a signal that can't come before a time limit; `has_limit`: it has one already."""
    if job.signal is None:
        return
    if job.time_limit_ms is None:
        if not has_limit:
            raise UsageError("--signal needs a time limit", "add --time-limit")
    elif job.signal_before_ms is not None and job.signal_before_ms >= job.time_limit_ms:
        raise UsageError(
            "--signal would come before the job starts",
            "write a time that is shorter than --time-limit",
        )


def share_of_many(job: Any) -> float | None:
    """The share of each of at most so many jobs on a GPU, where no memory or share was said."""
    most = job.max_per_gpu or 1
    if most == 1 or job.mem_mib is not None or job.mem == "auto" or job.share is not None:
        return None
    if job.exclusive or job.gpus not in (None, 1):
        raise UsageError(
            f"--max-per-gpu {most} is for jobs that share one GPU, or share by memory",
            "add --mem, or leave out --gpus and --exclusive",
        )
    return 1000 // most / 1000
