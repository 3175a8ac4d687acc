"""The command line that queues a job like one that there is: every option it has, by the table."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from stoker.api.job_option import JobOption
from stoker.api.job_options import JOB_OPTIONS
from stoker.api.job_written import written
from stoker.output_files import with_params

# What it waited for is over, and its own output files must neither be refused nor written over.
_OF_THAT_RUN = frozenset((
    "at", "after", "after_any", "after_pid", "hold", "out", "err", "append", "overwrite",
))  # fmt: skip
_OF_THAT_SWEEP = frozenset(("name", "group"))  # A sweep gives them to its points.
_DEFAULTS = {"gpus": 1, "grace": "30s"}  # where the table has none, because settings may say it


def add_again(job: Mapping[str, Any]) -> str:
    """`stoker add ...` for a job as `show` tells it with `env`."""
    words = ["stoker", "add", "--cwd", job["cwd"]]
    left_out = _OF_THAT_RUN if job["point"] is None else _OF_THAT_RUN | _OF_THAT_SWEEP
    for option in JOB_OPTIONS:
        if option.key not in left_out and option.key != "cwd":
            words += _words(option, job)
    if job["shell"] is not None:
        return shlex.join([*words, "--", job["shell"]])
    # A single word would be a line for the login shell, which takes the quotes off again.
    argv = job["argv"] if len(job["argv"]) > 1 else [shlex.quote(word) for word in job["argv"]]
    return shlex.join([*words, "--", *argv])


def _words(option: JobOption, job: Mapping[str, Any]) -> Iterator[str]:
    """What is to be said of one option; nothing of one that is as it would be anyway."""
    value = written(option, job)
    if value is None or value is False or value in ("", [], {}, _default(option, job)):
        return
    if option.is_flag:
        yield f"--{option.name}"
        return
    if option.key == "env":
        value = [f"{name}={text}" for name, text in value.items()]
    elif option.key == "metrics_from" and job["point"] is not None:
        value = with_params(value.replace("{name}", job["name"] or "{name}"), job["params"])
    for one in value if isinstance(value, list) else [value]:
        # A value that begins with a dash could be taken for an option.
        dashed = str(one).startswith("-")
        yield from [f"--{option.name}={one}"] if dashed else [f"--{option.name}", str(one)]


def _default(option: JobOption, job: Mapping[str, Any]) -> Any:
    if option.key == "cpus":
        return 0 if job["need"]["gpus"] else None  # One without GPUs says how many it takes.
    if option.key in _DEFAULTS:
        return _DEFAULTS[option.key]
    return option.fields[0].default if option.fields else None
