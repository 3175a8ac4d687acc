"""The options that a job has, as one would write them: for the editor's file, and to show them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from stoker.api.job_option import JobOption
from stoker.api.job_options import JOB_OPTIONS
from stoker.quantities import exact_duration
from stoker.text import iso_utc

Job = Mapping[str, Any]  # as `show` tells it

_ALSO_SHOWN = ("kind", "out", "err", "gpu_arg")


def written(option: JobOption, job: Job) -> Any:
    """How one would write what a job has; None for nothing, and for what is not told of a job."""
    if option.key == "signal":  # The field `signal` is the one that ended it.
        return job["signal_spec"]
    if option.key == "executor" and job["executor"] == "local":
        return None
    for field in reversed(option.fields):
        places = (job["need"], job.get("options") or {}, job)
        value = next((place[field.name] for place in places if field.name in place), None)
        if value is None:
            continue
        if field.name == "margin":
            percent, mib = value
            is_learned = job["need"]["mem"] == "auto"
            return (f"{percent}%" if percent else f"{mib}M") if is_learned else None
        if field.name == "stuck_after":
            return None if value == field.default else value or "off"
        if field.name == "not_before_ms":
            return iso_utc(value).replace(".000Z", "Z")
        if field.name.endswith("_ms"):
            return exact_duration(value)
        if field.name.endswith("_mib"):
            return f"{value}M" if value else "off"  # Of its log all is kept.
        if isinstance(value, list) and not option.repeat:
            return shlex.join(value) if option.key == "slurm" else ",".join(map(str, value))
        return value
    return None


def shown_options(job: Job) -> list[tuple[str, str]]:
    """Options that say all there is to show of them, by their names; a flag is "yes"."""
    shown = []
    for option in JOB_OPTIONS:
        if not option.executors and option.key not in _ALSO_SHOWN:
            continue
        if option.key in ("out", "err") and job.get("log"):
            continue  # The file that was made of it is shown.
        value = written(option, job)
        if value:
            said = "; ".join(value) if isinstance(value, list) else str(value)
            shown.append((option.name, "yes" if value is True else said))
    if job.get("env_set"):
        shown.append(("env", ", ".join(job["env_set"])))
    return shown
