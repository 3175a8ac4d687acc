"""`stoker rm`: forget finished jobs and their logs."""

from stoker import quantities
from stoker.cli.options import Option
from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "rm",
    "delete finished jobs and their logs",
    op="remove",
    done="removed:",
    all_help="all finished jobs",
    examples=(
        ("stoker rm 3-9", "jobs 3 to 9, which must be finished"),
        ("stoker rm --all", "every finished job"),
        ("stoker rm --state failed,lost", "all jobs that failed or were lost"),
        ("stoker rm --older 30d --state succeeded", "those that succeeded 30 days ago or earlier"),
    ),
    notes=(
        "Files named with --out and --err are yours and are kept.",
        "The setting keep-jobs removes old jobs by itself.",
    ),
    own=Option(
        "older",
        "only jobs that ended longer ago than this",
        "30d",
        lambda text: quantities.duration_ms(text, likely="dh"),
    ),
)
