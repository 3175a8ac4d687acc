"""`stoker run`: a job in this terminal, which waits its turn like any other."""

from __future__ import annotations

from stoker.cli.attachment import Attachment
from stoker.cli.jobspec import BARE_COMMAND_NOTE, job_options, submission
from stoker.cli.options import Args, Verb
from stoker.errors import UsageError
from stoker.submission.surroundings import is_for_cluster


def run(args: Args) -> int:
    """Queue a job and run it in this terminal once it is its turn."""
    request = submission(args, "run")
    if is_for_cluster(request["jobs"][0]):
        raise UsageError(
            "a job in this terminal can't run on the cluster",
            "use `stoker add --on-cluster`, and `stoker logs -f`",
        )
    return Attachment(request).run()


VERB = Verb(
    "run",
    "run a job in this terminal as soon as its turn comes",
    run=run,
    options=lambda: job_options("run"),
    command="required",
    examples=(
        ("stoker run --gpus 1 -- python train.py", "wait for a GPU; exit with the job's exit code"),
        ("stoker run --mem 8G -- ipython", "an interactive program, with 8 GiB of a GPU"),
    ),
    notes=(
        BARE_COMMAND_NOTE,
        "While the job waits, Ctrl-C cancels it. While it runs, Ctrl-C interrupts it. If it has no "
        "handler for that and goes on, a second Ctrl-C within two seconds terminates it, and a "
        "third kills it with all of its processes. A program that handles Ctrl-C itself, such as "
        "Python or IPython, is only interrupted; `stoker cancel` ends it.",
        "If the terminal does not answer within 15 s when the job's turn comes (after Ctrl-Z, "
        "for example), the job is cancelled and its GPUs go to the next job.",
        "Exit code: the job's own, 128 + n if signal n ended it, 127 if it could not start.",
    ),
)
