"""What an attempt sees: its environment and its command line, as pure functions."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence

from stoker.core.commands import Start, StartAttached
from stoker.core.model import Launch

MARKER = "STOKER_ATTEMPT_ID"


def marker(instance: str, job_id: int, attempt: int) -> str:
    """The value of MARKER: by it a process is known to be of an attempt, wherever it went."""
    return f"{instance}:{job_id}.{attempt}"


def environment(launch: Launch, start: Start | StartAttached, instance: str) -> dict[str, str]:
    """The environment of an attempt: the user's own at submission, and the GPUs it was given.

    A job without GPUs sees none, so that it can't take by accident what it was not given. GPUs that
    a driver shows are named by their UUIDs: their numbers change when one of them fails.
    """
    ids = ",".join(start.gpus)
    env = {
        **launch.env,
        **launch.extra_env,
        "PWD": launch.cwd,
        "CUDA_VISIBLE_DEVICES": ids,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "STOKER_JOB_ID": str(start.job_id),
        "STOKER_ATTEMPT": str(start.attempt),
        "STOKER_GPUS": ",".join(start.labels or start.gpus),
        MARKER: marker(instance, start.job_id, start.attempt),
    }
    if start.maker == "amd":
        env["ROCR_VISIBLE_DEVICES"] = ids
    return env


def command_line(launch: Launch, gpus: Sequence[str], env: dict[str, str]) -> list[str]:
    """The words to run: the user's own, or the login shell with the user's string."""
    if launch.shell is None:
        extra = ["--gpu", *gpus] if launch.gpu_arg else []
        return [*launch.argv, *extra]
    text = launch.shell
    if launch.gpu_arg:
        text = " ".join((text, "--gpu", *gpus))
    return [login_shell(env), "-c", text]


def login_shell(env: dict[str, str]) -> str:
    """The shell of the user: as the environment says, else as the password database does."""
    try:
        listed = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        listed = ""  # As in a container that is run under any number.
    for shell in (env.get("SHELL", ""), listed):
        if os.path.isabs(shell) and os.access(shell, os.X_OK):
            return shell
    return "/bin/sh"
