"""What a job needs, in the words of `sbatch`; a refusal where it has none for it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stoker.core.commands import HandOver
from stoker.core.model import Need
from stoker.core.reasons import gib, plural
from stoker.errors import UsageError
from stoker.executors.slurm.facts import ClusterFacts

_MOST_NICE = 2_147_483_645
_MOST_SIGNAL_S = 65_535

# What Stoker says itself, or what would make `sbatch` do something else than to submit.
_OURS = {
    "--array": "-a", "--job-name": "-J", "--comment": "", "--output": "-o", "--error": "-e",
    "--input": "-i", "--open-mode": "", "--wrap": "", "--wait": "-W", "--parsable": "",
    "--test-only": "", "--export": "", "--export-file": "", "--chdir": "-D", "--clusters": "-M",
    "--version": "-V", "--help": "-h", "--usage": "", "--kill-on-invalid-dep": "",
    "--ignore-pbs": "", "--get-user-env": "", "--begin": "-b",
}  # fmt: skip
_INSTEAD = {
    "--job-name": "--name",
    "--output": "--out",
    "--error": "--err",
    "--chdir": "--cwd",
    "--export": "--env",
    "--begin": "--at",
}


class Refused(Exception):
    """The cluster could not be told; the message says why."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What the user has set for all jobs of the cluster."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    options: tuple[str, ...] = ()
    gpu_memory: tuple[tuple[str, int], ...] = ()  # (feature of nodes, MiB of their GPUs)


def check_options(words: Sequence[str]) -> None:
    """Refuse options that can't be passed on as they are."""
    expects_value = False
    for word in words:
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in word):
            raise UsageError("an option for Slurm has a control character in it", "leave it out")
        if not word.startswith("-"):
            if not expects_value:
                raise UsageError(
                    f"{word!r} is not an option of sbatch", 'write e.g. --slurm "--partition=long"'
                )
            expects_value = False
            continue
        name = word.partition("=")[0]
        for ours, short in _OURS.items():
            if name == ours or (short and not name.startswith("--") and name[:2] == short):
                instead = _INSTEAD.get(ours)
                hint = f"use Stoker's {instead}" if instead else "Stoker says that itself"
                raise UsageError(f"{name} can't be passed on to Slurm", hint)
        expects_value = "=" not in word and (word.startswith("--") or len(word) == 2)


def directives(
    order: HandOver,
    options: Sequence[str],
    facts: ClusterFacts,
    config: ClusterConfig,
    id_of: Callable[[int, int], str | None],
    now_ms: int,
) -> tuple[tuple[str, ...], ...]:
    """What a batch script has to say of this job, line by line; a later line overrules."""
    lines: list[tuple[str, ...]] = [("--nodes=1",), ("--ntasks=1",), ("--no-requeue",)]
    lines += [(word,) for word in _resources(order, facts, config)]
    lines += [(word,) for word in _times(order, now_ms)]
    dependency = _dependency(order, id_of)
    if dependency:
        if any(word.partition("=")[0] in ("--dependency", "-d") for word in options):
            raise Refused("--dependency can't be passed on beside --after")
        lines.append((dependency,))
    for name in ("partition", "account", "qos"):
        value = getattr(config, name)
        if value:
            lines.append((f"--{name}={value}",))
    lines += [tuple(part) for part in (config.options, options) if part]
    return tuple(lines)


def _resources(order: HandOver, facts: ClusterFacts, config: ClusterConfig) -> list[str]:
    need, words = order.need, list[str]()
    if len(need.on) > 1:
        raise Refused("the cluster can be told one type of GPU: write e.g. --on a100")
    kind = f"{need.on[0]}:" if need.on else ""
    if need.share_milli is not None:
        words.append(f"--gres={_share(need.share_milli, kind, facts)}")
    elif need.gpus:
        words.append(f"--gres=gpu:{kind}{need.gpus}")
    if need.mem_mib is not None and config.gpu_memory:
        fitting = [name for name, mib in config.gpu_memory if mib >= need.mem_mib]
        if not fitting:
            largest = max(mib for _, mib in config.gpu_memory)
            raise Refused(
                f"it needs GPUs with {gib(need.mem_mib)}, and the largest at the cluster have "
                f"{gib(largest)} (slurm.gpu-memory)"
            )
        words.append(f"--constraint={'|'.join(fitting)}")
    if need.cpus:
        words.append(f"--cpus-per-task={need.cpus}")
    if order.priority:
        words.append(f"--nice={max(-_MOST_NICE, min(_MOST_NICE, order.priority))}")
    return words


def _share(share_milli: int, kind: str, facts: ClusterFacts) -> str:
    for name in ("shard", "mps"):
        parts = facts.parts_of_a_gpu(name)
        if parts is not None:
            return f"{name}:{kind}{max(1, -(-share_milli * parts // 1000))}"
    raise Refused("the cluster's GPUs can't be shared: it has neither gres/shard nor gres/mps")


def _times(order: HandOver, now_ms: int) -> list[str]:
    terms, words = order.terms, list[str]()
    if terms.limit_there_ms is not None:
        words.append(f"--time={-(-terms.limit_there_ms // 60_000)}")  # in whole minutes
    if terms.signal is not None:
        name = signal.Signals(terms.signal).name.removeprefix("SIG")
        before_s = min(_MOST_SIGNAL_S, max(1, -(-terms.signal_before_ms // 1000)))
        words.append(f"--signal=B:{name}@{before_s}")
    if order.not_before_ms is not None and order.not_before_ms > now_ms:
        moment = datetime.fromtimestamp(-(-order.not_before_ms // 1000), UTC)
        words.append(f"--begin={moment:%Y-%m-%dT%H:%M:%S}")
    return words


def _dependency(order: HandOver, id_of: Callable[[int, int], str | None]) -> str:
    parts = []
    for other in order.after:
        slurm_id = id_of(other.job_id, other.attempt)
        if slurm_id is not None:
            parts.append(f"{'afterok' if other.must_succeed else 'afterany'}:{slurm_id}")
    return f"--dependency={','.join(parts)}" if parts else ""


def warnings_for(need: Need, config: ClusterConfig) -> list[str]:
    """What a job asks for and the cluster can't be told, in words for its user."""
    if need.mem_mib is None or config.gpu_memory:
        return []
    shared = need.share_milli is not None
    gets = "its part of a GPU" if shared else plural(need.gpus, "whole GPU")
    return [
        f"the cluster can't be told of {gib(need.mem_mib)} of GPU memory, so the job gets "
        f"{gets} of any size; see slurm.gpu-memory"
    ]
