"""The options of a job as Python values, and the request that they make.

They are the options of `stoker add` with underscores for dashes, and mean the same. Text is read
as the command line reads it; numbers, lists, paths, timedeltas and datetimes are taken too.
"""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from stoker import quantities
from stoker.errors import UsageError

Fields = dict[str, Any]


def job_fields(options: Mapping[str, Any], here: str | None = None) -> Fields:
    """The fields of a JobRequest for these options; one that is None counts as not given."""
    fields: Fields = {}
    for name, value in options.items():
        convert = _CONVERTERS.get(name)
        if convert is None:
            raise _unknown(name)
        if value is None:
            continue
        try:
            fields |= convert(name, value)
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", error.hint) from None
    if "cwd" in fields or "out" in fields or "err" in fields:
        _settle_paths(fields, here if here is not None else os.getcwd())
    return fields


def call_fields(options: Mapping[str, Any]) -> Fields:
    """The same for a job that is a call and not a command."""
    fields = job_fields(options)
    if fields.get("gpu_arg"):
        raise UsageError(
            "a call has no command line for gpu_arg to append to",
            "the call finds its GPUs in CUDA_VISIBLE_DEVICES and STOKER_GPUS",
        )
    return fields


def is_option(name: str) -> bool:
    """True if a job has such an option."""
    return name in _CONVERTERS


def _unknown(name: str) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(name, _CONVERTERS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the options are {', '.join(_CONVERTERS)}"
    return UsageError(f"a job has no option {quantities.quoted(name)}", hint)


# --- one function a form --------------------------------------------------------------------------


def _gpus(name: str, value: Any) -> Fields:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(f"{value} is not a number of GPUs", "write e.g. 1, 2, 0 or 0.5")
        value = f"{value:.6f}".rstrip("0").rstrip(".")
    count, share = quantities.gpu_need(str(value))
    return {"gpus": count} if share is None else {"share": share}


def _memory(name: str, value: Any) -> Fields:
    memory = quantities.job_memory(str(value))
    return {"mem" if isinstance(memory, str) else "mem_mib": memory}


def _margin(name: str, value: Any) -> Fields:
    return {"margin": quantities.memory_margin(str(value))}


def _gpu_ids(name: str, value: Any) -> Fields:
    parts = [value] if isinstance(value, str | int) else list(value)
    return {name: quantities.gpu_ids(",".join(str(part) for part in parts))}


def _whole(lowest: int, highest: int) -> Callable[[str, Any], Fields]:
    def convert(name: str, value: Any) -> Fields:
        return {name: quantities.whole_number(str(value), lowest, highest)}

    return convert


def _label(name: str, value: Any) -> Fields:
    return {name: quantities.label(str(value))}


def _jobs(name: str, value: Any) -> Fields:
    """Jobs to wait for: ids, or what has a `job_id` (a future), one or several."""
    single = isinstance(value, str | int) or hasattr(value, "job_id")
    parts: Iterable[Any] = [value] if single else value
    ids: list[str] = []
    for part in parts:
        job_id = getattr(part, "job_id", part)
        if job_id is None:
            continue  # A future without a job had its result before: there is nothing to wait for.
        ids += quantities.job_ids(str(job_id))
    if not all(one.isdecimal() for one in ids):
        raise UsageError("a job depends on others by their numbers", "write e.g. [7, 8]")
    return {name: ids}


def _duration_ms(value: Any) -> int:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, int | float):
        if not math.isfinite(value):
            raise UsageError(f"{value} is not a duration", 'write e.g. "2h" or 7200')
        value = f"{value:.3f}"
    return quantities.duration_ms(str(value))


def _time_limit(name: str, value: Any) -> Fields:
    limit_ms = _duration_ms(value)
    if limit_ms == 0:
        raise UsageError("a time limit of zero leaves no time", 'write e.g. "2h" or 7200')
    return {"time_limit_ms": limit_ms}


def _grace(name: str, value: Any) -> Fields:
    return {"grace_ms": _duration_ms(value)}


def _signal(name: str, value: Any) -> Fields:
    signal, before_ms = quantities.signal_spec(str(value))
    return {"signal": signal, "signal_before_ms": before_ms}


def _moment(name: str, value: Any) -> Fields:
    if isinstance(value, datetime):
        return {"not_before_ms": round(value.timestamp() * 1000)}
    return {"not_before_ms": quantities.moment_ms(str(value), time.time_ns() // 1_000_000)}


def _path(name: str, value: Any) -> Fields:
    path = os.fspath(value)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not path:
        raise UsageError("the path is empty", "name a file or directory, or leave it out")
    return {name: path}


def _environment(name: str, value: Any) -> Fields:
    return {"env": {str(key): str(text) for key, text in dict(value).items()}}


def _flag(name: str, value: Any) -> Fields:
    return {name: True} if value else {}


def _on_cluster(name: str, value: Any) -> Fields:
    return {"executor": "slurm"} if value else {}


def _executor(name: str, value: Any) -> Fields:
    if value not in ("local", "slurm"):
        raise UsageError(f"there is no executor {value!r}", 'write "local" or "slurm"')
    return {"executor": value}


def _slurm(name: str, value: Any) -> Fields:
    """Options for sbatch: as one text, or as a list of words."""
    words = shlex.split(value) if isinstance(value, str) else [str(word) for word in value]
    return {"slurm": words}


def _params(name: str, value: Any) -> Fields:
    return {"params": {str(key): _plain(item) for key, item in dict(value).items()}}


def _plain(value: Any) -> Any:
    """The value itself if JSON has a form for it, else its text: it is only to be shown."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)


_CONVERTERS: dict[str, Callable[[str, Any], Fields]] = {
    "gpus": _gpus,
    "mem": _memory,
    "mem_margin": _margin,
    "kind": _label,
    "exclusive": _flag,
    "on": _gpu_ids,
    "prefer": _gpu_ids,
    "mps": lambda name, value: {"mps": bool(value)},
    "thread_percentage": _whole(0, 100),
    "max_per_gpu": _whole(1, 10_000),
    "cpus": _whole(0, 1_000_000),
    "priority": _whole(-1_000_000_000, 1_000_000_000),
    "name": _label,
    "group": _label,
    "after": _jobs,
    "after_any": _jobs,
    "time_limit": _time_limit,
    "grace": _grace,
    "signal": _signal,
    "retries": _whole(0, 1_000_000),
    "at": _moment,
    "cwd": _path,
    "env": _environment,
    "out": _path,
    "err": _path,
    "gpu_arg": _flag,
    "hold": _flag,
    "on_cluster": _on_cluster,
    "executor": _executor,
    "slurm": _slurm,
    "params": _params,
}


# --- paths, and what a submission has in common ---------------------------------------------------


def _settle_paths(fields: Fields, here: str) -> None:
    """Make paths absolute: those of output files are relative to the job's own directory."""
    cwd = os.path.normpath(os.path.join(here, fields.get("cwd", "")))
    if "cwd" in fields:
        fields["cwd"] = cwd
    for key in ("out", "err"):
        if key in fields:
            fields[key] = os.path.normpath(os.path.join(cwd, fields[key]))


def surroundings() -> Fields:
    """What the jobs of one submission share: directory, environment and user of this moment."""
    return {"cwd": os.getcwd(), "env": _submitted_environment(), "user": _user_name()}


def _submitted_environment() -> dict[str, str]:
    """The environment of now, but for what JSON can't carry."""
    found = {}
    for key, value in os.environ.items():
        try:
            (key + value).encode()
        except UnicodeEncodeError:
            continue
        found[key] = value
    return found


def _user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
