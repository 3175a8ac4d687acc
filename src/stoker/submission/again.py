"""The command line that queues a job like one that there is: what it needs, in its directory."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from stoker.submission.job_file import table_of

# What says when, after what, or under which name a job runs, and where its output goes.
_OF_THAT_JOB = frozenset((
    "command", "cwd", "name", "group", "priority", "at", "after", "after-any", "after-pid", "hold",
    "out", "err", "append", "overwrite", "notify", "hook",
))  # fmt: skip
_USUAL_GRACE = ("grace", "30s")


def add_again(job: Mapping[str, Any]) -> str:
    """`stoker add ...` for a job as `show` tells it; variables of its environment are not known."""
    words = ["stoker", "add", "--cwd", job["cwd"]]
    for name, value in table_of(job).items():
        if name in _OF_THAT_JOB or (name, value) == _USUAL_GRACE:
            continue
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    command = job["argv"] if job["shell"] is None else [job["shell"]]
    return shlex.join([*words, "--", *command])
