"""What a user can set with `stoker config`; every setting takes effect at once."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.api.job_options import VISIBLE as WAYS_TO_SEE
from stoker.core.learning import Habits
from stoker.core.order import Policy
from stoker.daemon import addresses
from stoker.daemon.asked import Defaults
from stoker.daemon.cluster import ClusterRules
from stoker.daemon.disk_room import LeastRoom, least_room
from stoker.daemon.retention import Retention, kept_for_ms, results_kept
from stoker.errors import UsageError
from stoker.executors.slurm.executor import NAME as CLUSTER
from stoker.executors.slurm.options import ClusterConfig, check_options
from stoker.quantities import (
    duration_ms,
    log_bound,
    memory_margin,
    memory_mib,
    memory_text,
    positive_duration_ms,
    quoted,
    size_mib,
    whole_number,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; `canonical` checks a value and says how it was understood."""

    name: str
    default: str
    help: str
    canonical: Callable[[str], str]
    shown: Callable[[str], str] = str  # without what is secret in it


def _cpus(text: str) -> str:
    return text if text == "auto" else str(whole_number(text, 0, 1_000_000, "number of CPU slots"))


def _read_by(read: Callable[[str], object]) -> Callable[[str], str]:
    """What `read` understands, kept as it was written."""

    def canonical(text: str) -> str:
        read(text)
        return text.strip()

    return canonical


def _priority(text: str) -> int:
    return whole_number(text, -1_000_000_000, 1_000_000_000, "priority")


def _one_of(*words: str) -> Callable[[str], str]:
    def canonical(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise UsageError(f"{quoted(text)} is not understood", f"use {' or '.join(words)}")
        return word

    return canonical


def _directory(text: str) -> str:
    if not text:
        return ""
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.isdir(path):
        raise UsageError(f"there is no directory {quoted(path)}", "create it first")
    return path


def _word(text: str) -> str:
    if any(letter.isspace() or not letter.isprintable() for letter in text):
        raise UsageError(f"{quoted(text)} is not one word", "write e.g. gpu or long,short")
    return text


def split_options(text: str) -> list[str]:
    """The words of options as a shell would see them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{quoted(text)} can't be split into words: {error}", "") from None


def _gpu_memory(text: str) -> str:
    pairs = gpu_memory_of(text)
    return ",".join(f"{name}:{memory_text(mib)}" for name, mib in pairs)


def gpu_memory_of(text: str) -> tuple[tuple[str, int], ...]:
    """From `a100:80G,v100:32G`: the features of nodes, and the memory of their GPUs."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, size = part.rpartition(":")
        if not colon or not _word(name):
            raise UsageError(f"{quoted(part)} is not FEATURE:SIZE", "write e.g. a100:80G,v100:32G")
        found.append((name, memory_mib(size)))
    return tuple(found)


GPUS = "gpus"
SETTINGS = (
    Setting("cpus", "auto",
            "CPU slots that jobs may use together; auto: as many as there are CPUs", _cpus),
    Setting("grace", "30s", "how long a job that is told to stop may take before it is killed",
            _read_by(duration_ms)),
    Setting("policy", "fifo",
            "which of the waiting jobs of one priority go first: fifo (as queued), shortest (least "
            "expected GPU time), or fair (the group that has used the GPUs least of late)",
            _one_of(*Policy)),
    Setting("mem", "whole",
            "GPU memory of jobs without --mem: whole (the whole GPU), or auto (as measured for "
            "their kind)", _one_of("whole", "auto")),
    Setting("mem-margin", "10%",
            "what is reserved beyond the largest measured peak: a percentage (at least 512M), or a "
            "size",
            _read_by(memory_margin)),
    Setting("settle", "30s",
            "a job counts as measured when its GPU memory has not grown for this long",
            _read_by(positive_duration_ms)),
    Setting("foreign", "avoid",
            "programs on GPUs that are not Stoker's: avoid (use only what they leave), wait (put "
            "nothing beside them), ignore", _one_of("avoid", "wait", "ignore")),
    Setting("mps", "off",
            "on: jobs on one GPU share it through NVIDIA MPS, except with --no-mps",
            _one_of("on", "off")),
    Setting("requeue", "off",
            "on: jobs are put back after a power cut or a reboot, except with --no-requeue; off: "
            "they are lost", _one_of("on", "off")),
    Setting("urgent-from", "off",
            "jobs queued with this priority or a better one (a lower number) are urgent, except "
            "with --no-urgent or --preemptible; off: only those with --urgent",
            lambda text: text if text == "off" else str(_priority(text))),
    Setting("visible", "index",
            "how jobs without --visible find their GPUs in CUDA_VISIBLE_DEVICES: index (uuid where "
            "numbers are unreliable), uuid, or all (it is not set, and they see all GPUs)",
            _one_of(*WAYS_TO_SEE)),
    Setting("freeze-limit", "200M", "how much code --freeze may copy at most",
            _read_by(memory_mib)),
    Setting("notify", "",
            "where messages of --notify go: Apprise URLs, separated by spaces",
            addresses.checked, addresses.masked),
    Setting("notify.quiet", "", "hours in which messages wait, e.g. 22:00-08:00",
            addresses.quiet_hours),
    Setting("poll", "1s", "how often GPUs on which something runs are read",
            _read_by(positive_duration_ms)),
    Setting("disk-warn", "5%,20G",
            "warn when a disk of Stoker's has less free than this: a percentage, a size, both "
            "(whichever is less), or off", _read_by(least_room)),
    Setting("disk-stop", "1%,2G",
            "start no jobs while a disk of Stoker's has less free than this; written in the same "
            "way", _read_by(least_room)),
    Setting("max-log", "off",
            "keep at most this much (1M or more) of the log of jobs without --max-log, e.g. 2G: "
            "the beginning and the end; off: all of it", _read_by(log_bound)),
    Setting("keep-jobs", "off",
            "remove jobs, with their logs, that ended longer ago than this, e.g. 90d; off: keep "
            "all", _read_by(kept_for_ms)),
    Setting("keep-logs", "off",
            "delete the logs of jobs that ended longer ago than this; the jobs stay on record",
            _read_by(kept_for_ms)),
    Setting("keep-checkpoints", "off",
            "delete the checkpoint directories of jobs that ended longer ago than this; the jobs "
            "stay on record", _read_by(kept_for_ms)),
    Setting("keep-results", "7d,10G",
            "delete Python calls and their results that ended longer ago than this, and the oldest "
            "when they take more room than this, but for results that are awaited; off: keep all",
            _read_by(results_kept)),
    Setting("driver", "auto",
            "auto: use the GPUs that a driver shows; off: only declared ones (after a restart)",
            _one_of("auto", "off")),
    Setting("executor", "local", "where jobs without --executor run: local or slurm",
            _one_of("local", "slurm")),
    Setting("slurm.dir", "",
            "a directory that the cluster's nodes see too (default: the state directory)",
            _directory),
    Setting("slurm.partition", "", "the partition of jobs on the cluster", _word),
    Setting("slurm.account", "", "the account of jobs on the cluster", _word),
    Setting("slurm.qos", "", "the quality of service of jobs on the cluster", _word),
    Setting("slurm.options", "", "more options of sbatch, for all jobs on the cluster",
            _read_by(lambda text: check_options(split_options(text)))),
    Setting("slurm.gpu-memory", "",
            "features of nodes and the memory of their GPUs, for --mem, e.g. a100:80G,v100:32G",
            _gpu_memory),
    Setting("slurm.jobs", "1000", "how many jobs may be with the cluster at a time",
            lambda text: str(whole_number(text, 0, 1_000_000, "number of jobs"))),
)  # fmt: skip
BY_NAME = {setting.name: setting for setting in SETTINGS}


def value_of(name: str, values: Mapping[str, str]) -> str:
    """What is set, or else the default."""
    return values.get(name, BY_NAME[name].default)


def _kept_ms(name: str, values: Mapping[str, str]) -> int:
    """A time that was set: bare numbers are refused, but an older home may have one, of seconds."""
    return duration_ms(value_of(name, values), bare="s")


def cpus_of(values: Mapping[str, str]) -> int | None:
    """The CPU slots that were set; None for as many as there are."""
    text = value_of("cpus", values)
    return None if text == "auto" else int(text)


def defaults_of(values: Mapping[str, str]) -> Defaults:
    """What jobs have that say nothing else."""
    return Defaults(
        _kept_ms("grace", values),
        value_of("mem", values) == "auto",
        memory_margin(value_of("mem-margin", values), bare="m"),
        value_of("mps", values) == "on",
        value_of("requeue", values) == "on",
        value_of("visible", values),
        bool(value_of("notify", values)),
        urgent_from_of(values),
    )


def urgent_from_of(values: Mapping[str, str]) -> int | None:
    """The priority from which jobs are urgent; None if none makes them so."""
    text = value_of("urgent-from", values)
    return None if text == "off" else int(text)


def habits_of(values: Mapping[str, str]) -> Habits:
    """How to learn from readings."""
    return Habits(_kept_ms("settle", values))


def poll_s_of(values: Mapping[str, str]) -> float:
    """How often to read GPUs."""
    return _kept_ms("poll", values) / 1000


def least_rooms_of(values: Mapping[str, str]) -> tuple[LeastRoom, LeastRoom]:
    """How much is to be free on a disk: else it is told, and else nothing starts."""
    warn, stop = (least_room(value_of(name, values)) for name in ("disk-warn", "disk-stop"))
    return warn, stop


def log_bound_of(values: Mapping[str, str]) -> int:
    """How many MiB are kept of the log of a job that says nothing else; 0: all of it."""
    text = value_of("max-log", values)
    # Less than 1M could be set once: it counts as that.
    return 0 if text.strip().lower() == "off" else size_mib(text)


def retention_of(values: Mapping[str, str]) -> Retention:
    """For how long what is over is kept."""
    jobs_ms, logs_ms, checkpoints_ms = (
        kept_for_ms(value_of(f"keep-{name}", values)) for name in ("jobs", "logs", "checkpoints")
    )
    results_ms, most_bytes = results_kept(value_of("keep-results", values))
    return Retention(jobs_ms, logs_ms, results_ms, checkpoints_ms, most_bytes)


def cluster_rules_of(values: Mapping[str, str]) -> ClusterRules:
    """What was set for jobs of a cluster."""
    directory = value_of("slurm.dir", values)
    config = ClusterConfig(
        value_of("slurm.partition", values),
        value_of("slurm.account", values),
        value_of("slurm.qos", values),
        tuple(split_options(value_of("slurm.options", values))),
        gpu_memory_of(value_of("slurm.gpu-memory", values)),
    )
    by_default = value_of("executor", values) == CLUSTER
    return ClusterRules(by_default, config, Path(directory) if directory else None)
