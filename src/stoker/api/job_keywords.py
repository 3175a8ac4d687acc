"""The options of a job as keywords of Python: what editors complete and type checkers know.

Only they import this file. tests/unit/test_library_options.py holds it against the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

Path = str | os.PathLike[str]
Duration = str | timedelta | Literal[0]  # a number does not say its unit
Jobs = Any  # ids, futures, or several of them


class PointOptions(TypedDict, total=False):
    """The table as keywords of Python, for editors and type checkers; None: not said.

    "none" takes away what the project's stoker.toml says of an option.
    """

    gpus: float | str | None
    mem: str | None
    mem_margin: str | None
    kind: str | None
    exclusive: bool | None
    on: int | str | Iterable[int | str] | None
    prefer: int | str | Iterable[int | str] | None
    mps: bool | None
    thread_percentage: int | str | None
    cpus: int | str | None
    max_per_gpu: int | str | None
    priority: int | str | None
    after: Jobs
    after_any: Jobs
    after_pid: int | str | Iterable[int | str] | None
    time_limit: Duration | None
    grace: Duration | None
    signal: str | None
    retries: int | str | None
    requeue_on: int | str | Iterable[int] | None
    slice: Duration | None
    keep_place: bool | None
    stuck_after: int | str | None
    requeue: bool | None
    preemptible: bool | None
    yields: int | str | None
    urgent: bool | None
    max_log: str | None
    at: str | datetime | None
    cwd: Path | None
    freeze: bool | None
    env: Mapping[str, object] | None
    env_all: bool | None
    out: Path | None
    err: Path | None
    append: bool | None
    overwrite: bool | None
    nice: int | str | None
    gpu_arg: bool | None
    visible: Literal["index", "uuid", "all", "none"] | None
    keep_children: bool | None
    metric: str | Iterable[str] | Mapping[str, str] | None
    metrics_from: Path | None
    notify: bool | None
    hook: str | None
    hold: bool | None
    on_cluster: bool | None
    executor: Literal["local", "slurm"] | None
    slurm: str | Sequence[str] | None


class LineOptions(PointOptions, total=False):
    """The same where names are not taken for something else."""

    name: str | None
    params: Mapping[str, object] | None  # to be shown, of the point that it is


class JobOptions(LineOptions, total=False):
    """The whole table."""

    group: str | None


class AdoptedOptions(TypedDict, total=False):
    """What can be said of a process that has started already."""

    on: int | str | Iterable[int | str] | None
    mem: str | None
    name: str | None
    group: str | None
