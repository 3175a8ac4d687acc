"""`stoker yield`: let running jobs that offered it give way, as if for an urgent job."""

from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "yield",
    "let running jobs that offered it (--preemptible) give way",
    op="yield",
    done="giving way:",
    all_help="all running jobs that offered it",
    examples=(
        ("stoker yield 7", "job 7 gets its signal, ends, and waits again"),
        ("stoker yield --group sweep1", "all running jobs of a group that offered it"),
    ),
    notes=(
        "A job gets the signal of its --signal and that long to heed it, then SIGTERM and its "
        "grace time. If it then ends by one of these signals, or with exit code 75, it waits "
        "behind the jobs of its priority, or with --keep-place where it was. Jobs that did not "
        "offer it are left alone: `stoker requeue` puts these back.",
    ),
)
