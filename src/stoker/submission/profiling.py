"""Short runs that come first, one of each kind, so that the rest can be packed by what they took.

A kind is here a command without its number of epochs, in its directory. Its short run is a job of
its own; the jobs of its kind wait for its end, however it ends, and then get as much memory as was
seen. If nothing was seen, the first of them has a GPU for itself, as any job of an unknown kind.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection
from typing import Any

from stoker.api.client import Client
from stoker.errors import UsageError
from stoker.quantities import MAX_LABEL_CHARS
from stoker.submission.batches import PlannedJob

USUAL_EPOCHS = 2
_EPOCHS = re.compile(r"(?<!\S)(--epochs)(=|\s+)(\d+)(?!\S)")
_OF_ONE_RUN = ("out", "err", "retries", "name", "point")


def profiled(
    client: Client, source: str, jobs: list[PlannedJob], asked: int | None, here: str
) -> tuple[list[PlannedJob], int]:
    """The jobs behind the short runs that come first, and how many of these there are."""
    epochs = asked
    if epochs is None and jobs[0].entry.numbered:
        epochs = USUAL_EPOCHS
    if not epochs:
        return jobs, 0
    if not any(gpu["uuid"] for gpu in client.call("gpus")["gpus"]):
        if asked:
            raise UsageError(
                "no driver measures the GPUs, so running the jobs first would show nothing",
                "leave out --profile-epochs, and set the memory with --mem",
            )
        return jobs, 0
    known = {profile["kind"] for profile in client.call("profiles")["profiles"]}
    try:
        return with_profiling(jobs, epochs, known, here)
    except UsageError as error:
        raise UsageError(f"{source}, {error.message}", error.hint) from None


def with_profiling(
    jobs: list[PlannedJob], epochs: int, known: Collection[str], here: str
) -> tuple[list[PlannedJob], int]:
    """The jobs behind the short runs that they need, and how many of these there are."""
    first_of: dict[str, PlannedJob] = {}
    waiting: list[tuple[PlannedJob, str]] = []
    for job in jobs:
        if not _leaves_memory_open(job.fields):
            continue
        count = _epochs_of(job.fields)
        if count is None:
            raise UsageError(
                f"line {job.entry.line}: the command has no --epochs to reduce",
                "leave out --profile-epochs",
            )
        kind = job.fields.setdefault("kind", _kind(job.fields, here))
        job.fields["mem"] = "auto"
        if kind in known:
            continue
        waiting.append((job, kind))
        if count > epochs and not job.after:
            first_of.setdefault(kind, job)
    shift = len(first_of)
    for job in jobs:
        job.move_back(shift)
    place_of = {kind: place for place, kind in enumerate(first_of)}
    for job, kind in waiting:
        if kind in place_of:
            job.after_any = [place_of[kind], *job.after_any]
    # The first in line, whatever comes later: all others wait for them.
    priority = min((job.fields.get("priority", 0) for job in jobs), default=0)
    short = [_short_run(job, epochs, priority) for job in first_of.values()]
    for place in range(1, shift):
        short[place].after_any = [place - 1]
    return [*short, *jobs], shift


def _leaves_memory_open(fields: dict[str, Any]) -> bool:
    """Whether how much memory the job gets is to be learned."""
    if fields.get("executor") == "slurm" or fields.get("gpus") == 0:
        return False
    if fields.get("exclusive") or "share" in fields:
        return False
    return "mem_mib" not in fields and fields.get("mem", "auto") == "auto"


def _text(fields: dict[str, Any]) -> str:
    return fields["shell"] if "shell" in fields else shlex.join(fields["argv"])


def _epochs_of(fields: dict[str, Any]) -> int | None:
    found = _EPOCHS.search(_text(fields))
    return None if found is None else int(found[3])


def _kind(fields: dict[str, Any], here: str) -> str:
    text = f"{_EPOCHS.sub('', _text(fields))} in {fields.get('cwd', here)}"
    label = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(label) <= MAX_LABEL_CHARS:
        return label
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{label[: MAX_LABEL_CHARS - 9]} {digest}"


def _short_run(job: PlannedJob, epochs: int, priority: int) -> PlannedJob:
    fields = {key: value for key, value in job.fields.items() if key not in _OF_ONE_RUN}
    if "shell" in fields:
        fields["shell"] = _EPOCHS.sub(rf"\g<1>\g<2>{epochs}", fields["shell"])
    else:
        fields["argv"] = _shortened(fields["argv"], epochs)
    params = {**fields.get("params", {}), "profile": f"{epochs} epochs"}
    fields |= {"params": params, "priority": priority, "name": f"profile line {job.entry.line}"}
    return PlannedJob(job.entry, fields)


def _shortened(words: list[str], epochs: int) -> list[str]:
    short = []
    for place, word in enumerate(words):
        if word.startswith("--epochs="):
            word = f"--epochs={epochs}"
        elif place and words[place - 1] == "--epochs":
            word = str(epochs)
        short.append(word)
    return short
