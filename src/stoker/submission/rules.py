"""What can't be said of a job, and of what no process could be made: refused in one line.

The rules are the daemon's, for every job; front ends may ask them beforehand.
"""

from __future__ import annotations

import os
import stat

from stoker.api.job_options import YIELDS
from stoker.errors import UsageError
from stoker.quantities import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

# The kernel's limits for one word and (with room left for the environment) for all of them.
MOST_WORD_BYTES = 128 * 1024 - 1
MOST_COMMAND_BYTES = 1024 * 1024
TREES = "frozen/trees"  # below Stoker's home: see submission/snapshots.py


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
    others = [name for name in job.prefer or () if named and name not in job.on]
    if others and all(name.isdigit() for name in (*job.on, *others)):  # Else the daemon knows.
        raise preferred_elsewhere(others, job.on)


def preferred_elsewhere(others: Sequence[str], on: Sequence[str]) -> UsageError:
    """Against a preference for GPUs that the job may not run on."""
    names = ",".join(others)
    what = f"--prefer: {names} {'is' if len(others) == 1 else 'are'} not among the GPUs of --on"
    return UsageError(what, f"leave out --prefer {names}, or write --on {','.join([*on, *others])}")


def check_limits(job: Any, *, has_limit: bool = False) -> None:
    """Refuse a signal that can't come before a time limit; `has_limit`: it has one already."""
    if job.signal is None:
        return
    limited = has_limit or job.time_limit_ms is not None or job.slice_ms is not None
    if not (limited or job.requeue_on or job.requeue or job.preemptible):
        raise UsageError("--signal needs a time limit", "add --time-limit or --slice")
    for limit_ms, option in ((job.time_limit_ms, "--time-limit"), (job.slice_ms, "--slice")):
        before_ms = job.signal_before_ms
        if limit_ms is not None and before_ms is not None and before_ms >= limit_ms:
            raise UsageError(
                "--signal would come before the job starts",
                f"write a time that is shorter than {option}",
            )


def check_stays_in_terminal(job: Any, attached: bool) -> None:
    """Refuse to put a job back whose terminal may be closed by then."""
    for said, option in (
        (job.requeue_on, "--requeue-on"), (job.slice_ms, "--slice"), (job.requeue, "--requeue"),
        (job.preemptible, "--preemptible"),
    ):  # fmt: skip
        if said and attached:
            raise UsageError(
                f"{option} is for jobs that can start without a terminal", "use `stoker add`"
            )


def check_giving_way(job: Any, *, elsewhere: bool = False) -> None:
    """Refuse to be urgent and to give way for such, and both where others decide on that."""
    for said, option in ((job.preemptible, "--preemptible"), (job.urgent, "--urgent")):
        if said and elsewhere:
            raise UsageError(
                f"{option} is for jobs on this machine: Slurm preempts by its own rules",
                f"leave {option} out; --slurm '--qos NAME' names a QOS with such rules",
            )
    if job.preemptible and job.urgent:
        raise UsageError(
            "--preemptible and --urgent exclude each other: urgent jobs don't give way", "give one"
        )
    if not job.preemptible and job.yields not in (None, YIELDS):
        raise UsageError("--yields is about giving way", "add --preemptible, or leave it out")


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


def is_share_of_many(job: Any) -> bool:
    """Whether the share is what `share_of_many` would say, and so need not have been said."""
    shared = {"max_per_gpu": job.max_per_gpu, "mem_mib": job.mem_mib, "mem": job.mem}
    return job.share is not None and job.share == share_of_many(Said(shared))


def check_command(argv: Sequence[str], shell: str | None) -> None:
    """Refuse what no process could be made of."""
    words = argv if shell is None else [shell]
    if bool(argv) == (shell is not None) or not words[0].strip():
        raise UsageError("no command was given", "put it after --, e.g. -- python train.py")
    text = "".join(words)
    # A character has at most four bytes, so most commands need no closer look.
    if len(text) > MOST_WORD_BYTES // 4:
        sizes = [len(word.encode()) for word in words]
        if max(sizes) > MOST_WORD_BYTES or sum(sizes) > MOST_COMMAND_BYTES:
            raise UsageError(
                "the command is too long for the system to run",
                "put it into a script and queue that",
            )
    if "\0" in text:
        raise UsageError("the command has a NUL character in it", "leave it out")


def check_environment(env: Mapping[str, str]) -> None:
    """Refuse names and values that no environment can hold."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise UsageError(f"{quoted(name)} can't be an environment variable", "leave it out")


def check_directory(path: str) -> None:
    """Refuse a working directory that is not there."""
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError(f"{quoted(path)} is not an absolute path", "name the whole path")
    if not os.path.isdir(path):
        raise UsageError(
            f"there is no directory {quoted(path)}", "create it, or name another with --cwd"
        ).about("cwd")


def check_frozen(path: str) -> None:
    """Refuse to call code frozen that may change: a front end freezes it, the daemon does not."""
    if f"/{TREES}/" not in path:
        raise UsageError(f"the code in {quoted(path)} was not frozen", "leave out freeze")


def says_what_of_files(said: Mapping[str, Any]) -> bool:
    """Whether a job says what becomes of what its output files have in them already."""
    if said.get("append") and said.get("overwrite"):
        raise UsageError("--append and --overwrite exclude each other", "give one of them")
    return bool(said.get("append") or said.get("overwrite"))


def check_log_bound(said: Mapping[str, Any], out: str | None, *, elsewhere: bool) -> None:
    """Refuse a bound for a log that is not Stoker's to cut."""
    if not said.get("max_log_mib"):
        return
    if out is not None:
        raise UsageError("--max-log bounds the job's log, and with --out it has none", "give one")
    if elsewhere:
        raise UsageError("--max-log is for logs on this machine that Stoker keeps", "leave it out")


def check_metrics(said: Mapping[str, Any], params: Iterable[str]) -> None:
    """Refuse an expression for a metric that can't be one, and a place that nothing is kept in."""
    if "{" in said.get("metrics_from", ""):
        from stoker.output_files import check_braces

        check_braces(said["metrics_from"], "--metrics-from", params)
    if said.get("metric"):
        from stoker.metrics.patterns import read_pattern  # Few jobs name one.

        for text in said["metric"]:
            read_pattern(text)


def refuse_existing(path: str, option: str) -> None:
    """Refuse an output file that has something in it."""
    if os.path.isfile(path) and os.path.getsize(path):
        raise UsageError(
            f"{option}: {path} exists", "add --append or --overwrite, or name another file"
        )


def _is_for_output(path: str) -> bool:
    """Not so a pipe, which may block, or end with its reader."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # It is yet to be made.
        return True
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)


def check_output(path: str | None, option: str, *, of_point: bool = False) -> None:
    """Refuse an output file that could not be made; that of a point is filled in already."""
    if path is None:
        return
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError(f"{option} {quoted(path)} is not an absolute path", "name the whole path")
    if os.path.isdir(path):
        raise UsageError(f"{option} {quoted(path)} is a directory", "name a file")
    if not _is_for_output(path):
        raise UsageError(f"{option}: {path} is neither a file nor a terminal", "name a file")
    from stoker.output_files import check_braces, existing_directory  # Few jobs have such a file.

    directory = existing_directory(path)
    if "{" in path and not of_point:
        there = directory  # What is there is called what it is called.
        while there != "/" and not os.path.lexists(there):
            there = os.path.dirname(there)
        check_braces(path[len(there) :], option)
    if not os.path.isdir(directory):
        raise UsageError(f"{option}: there is no directory {quoted(directory)}", "create it first")
