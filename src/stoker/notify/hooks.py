"""Hooks: a command of the user's for each job that has ended, with the job as JSON on its stdin."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from stoker.text.jobs import iso_times

_MOST_LOG_BYTES = 4 * 1024 * 1024


def output(directory: Path) -> int:
    """Where hooks write what they say; it begins anew when it is long."""
    path = directory / "hooks.log"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if os.fstat(fd).st_size > _MOST_LOG_BYTES:
        os.ftruncate(fd, 0)
    return fd


def start(
    notice: dict[str, Any], own_variables: dict[str, str], log: int
) -> subprocess.Popen[bytes]:
    """Start the hook of a job, in the job's directory and with its environment.

    It leads a session of its own, and nothing stops it: it goes on when Stoker does not.
    """
    cwd = notice["cwd"]
    with tempfile.TemporaryFile() as job:
        job.write(json.dumps(iso_times(notice["job"])).encode() + b"\n")
        job.seek(0)
        return subprocess.Popen(
            ["/bin/sh", "-c", notice["body"]["hook"]],
            stdin=job,
            stdout=log,
            stderr=log,
            cwd=cwd if os.path.isdir(cwd) else "/",
            env={**notice["env"], **own_variables},
            start_new_session=True,
        )
