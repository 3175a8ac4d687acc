"""`stoker requeue`: put running jobs back into the queue, to go on later."""

from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "requeue",
    "put running jobs back into the queue, to go on later",
    op="requeue",
    done="being put back:",
    all_help="all running jobs",
    examples=(
        ("stoker requeue 7", "job 7 gets its signal, ends, and waits again"),
        ("stoker requeue --group sweep1", "all running jobs of a group"),
    ),
    notes=(
        "A job gets the signal of its --signal and that long to heed it, then SIGTERM and its "
        "grace time. That is no failure, whatever its exit code; with exit code 0 it has "
        "succeeded. It then waits behind the jobs of its priority, or with --keep-place where it "
        "was.",
    ),
)
