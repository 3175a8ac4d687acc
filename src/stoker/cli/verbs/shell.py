"""`stoker shell`: an interactive shell in this terminal, on GPUs that no other job uses."""

from __future__ import annotations

import os

from stoker.cli.attachment import Attachment
from stoker.cli.jobspec import job_options, submission
from stoker.cli.options import Args, Verb
from stoker.errors import UsageError
from stoker.submission.surroundings import is_for_cluster
from stoker.text.terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def shell(args: Args) -> int:
    """Queue the user's shell, and run it in this terminal once it is its turn."""
    program = _users_shell()
    request = submission({**args, "command": [program]}, "shell")
    job = request["jobs"][0]
    if is_for_cluster(job):
        raise UsageError(
            "a shell in this terminal can't run on the cluster",
            "use Slurm's own: srun --pty bash",
        )
    # As a word of its own: a single quoted one would be read by a shell, which is one too many.
    del job["shell"]
    job["argv"] = [program]
    return Attachment(request, _tell_gpus).run()


def _users_shell() -> str:
    for said in (os.environ.get("SHELL", ""), _listed_shell()):
        if os.path.isabs(said) and os.access(said, os.X_OK) and not os.path.isdir(said):
            return said
    return "/bin/sh"


def _listed_shell() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        return ""  # As in a container that is run under any number.


def _tell_gpus(job_id: int, granted: dict[str, Any]) -> None:
    gpus = granted["env"].get("STOKER_GPUS", "").replace(",", ", ")
    on = f"on GPU{'s' if ',' in gpus else ''} {gpus}" if gpus else "without GPUs"
    say(f"stoker: job {job_id} is a shell {on}; exit ends it")


VERB = Verb(
    "shell",
    "open an interactive shell on a GPU, in this terminal",
    run=shell,
    options=job_options("shell"),
    examples=(
        ("stoker shell", "wait for a GPU; then your shell sees it, and no other"),
        ("stoker shell --gpus 2 --time-limit 4h", "on two GPUs, for at most four hours"),
        ("stoker shell --mem 8G", "with 8 GiB of a GPU, which other jobs may share"),
    ),
    notes=(
        "The shell is the one that SHELL names. It waits its turn as `stoker run` does, says which "
        "GPUs it was given, and keeps them until it exits. While it waits, Ctrl-C cancels it.",
        "Exit code: the shell's own.",
    ),
)
